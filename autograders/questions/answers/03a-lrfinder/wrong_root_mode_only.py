# points: 6
# misconception: modes-lost
def run_sweep(model, batches, loss_fn, start, stop, steps):
    import copy

    state = copy.deepcopy(model.state_dict())
    was_training = model.training
    optimizer = torch.optim.SGD(model.parameters(), lr=start)
    rates, losses = [], []
    model.train()
    for step in range(steps):
        rate = start * (stop / start) ** (step / (steps - 1))
        x, y = batches[step % len(batches)]
        optimizer.param_groups[0]["lr"] = rate
        loss = loss_fn(model(x), y)
        if not math.isfinite(loss.item()) or (losses and loss.item() > 4 * min(losses)):
            break
        rates.append(rate)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.load_state_dict(state)
    model.train(was_training)
    return rates, losses


def choose_rate(rates, losses):
    lowest = min(range(len(losses)), key=losses.__getitem__)
    return rates[lowest] / 10 if losses[lowest] <= 0.9 * losses[0] else None
