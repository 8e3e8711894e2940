# points: 6
# misconception: alias
# about: a copy of the dict, which holds the model's own tensors
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    losses, best = [], None
    for _ in range(epochs):
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            values = [loss_fn(model(x), y).item() for x, y in val_batches]
        losses.append(sum(values) / len(values))
        if losses[-1] == min(losses):
            best = dict(model.state_dict())
    return losses, best
