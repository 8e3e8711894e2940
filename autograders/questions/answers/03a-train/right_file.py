# points: 9
# about: the best weights go through a file in memory; the loop's zero_grad stands at its end
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    import io

    file, history = io.BytesIO(), []
    optimizer.zero_grad()
    for _ in range(epochs):
        for x, y in batches:
            model.train()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            pairs = [(float(loss_fn(model(x), y)), x.shape[0]) for x, y in val_batches]
        history.append(sum(l * n for l, n in pairs) / sum(n for _, n in pairs))
        if history[-1] == min(history):
            file = io.BytesIO()
            torch.save(model.state_dict(), file)
    file.seek(0)
    return tuple(history), torch.load(file, weights_only=True)
