# points: 4
# misconception: validated-in-train-mode
# about: no_grad taken for the whole of it: the losses are those of dropout, and another epoch looks best
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    losses, best = [], None
    for _ in range(epochs):
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            values = [loss_fn(model(x), y).item() for x, y in val_batches]
        losses.append(sum(values) / len(values))
        if losses[-1] == min(losses):
            best = {name: value.clone() for name, value in model.state_dict().items()}
    return losses, best
