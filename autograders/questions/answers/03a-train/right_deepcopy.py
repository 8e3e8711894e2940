# points: 9
# about: a deep copy of the state, sums over the examples
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    from copy import deepcopy

    best_loss, best_state, losses = math.inf, None, []
    for _ in range(epochs):
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
        model.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for x, y in val_batches:
                total += loss_fn(model(x), y).item() * len(y)
                count += len(y)
        losses.append(total / count)
        if losses[-1] < best_loss:
            best_loss, best_state = losses[-1], deepcopy(model.state_dict())
    return losses, best_state
