# points: 8
# about: float32 tensors, a rate that is multiplied, copies of parameters and buffers, in a finally
def run_sweep(model, batches, loss_fn, start, stop, steps):
    factor = (stop / start) ** (1 / (steps - 1))
    kept = [tensor.detach().clone() for tensor in [*model.parameters(), *model.buffers()]]
    modes = [module.training for module in model.modules()]
    curve, rate = [], start
    try:
        model.train()
        for step in range(steps):
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            x, y = batches[step % len(batches)]
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            if not torch.isfinite(loss) or any(loss > 4 * old for _, old in curve):
                break
            loss.backward()
            optimizer.step()
            curve.append((rate, loss.detach()))
            rate *= factor
    finally:
        with torch.no_grad():
            for tensor, old in zip([*model.parameters(), *model.buffers()], kept):
                tensor.copy_(old)
        for module, mode in zip(model.modules(), modes):
            module.training = mode
    return torch.tensor([rate for rate, _ in curve]), torch.stack([loss for _, loss in curve]).float()


def choose_rate(rates, losses):
    rates, losses = torch.tensor(rates), torch.tensor(losses)
    if losses.min() > 0.9 * losses[0]:
        return None
    return 10 ** (torch.log10(rates[losses.argmin()]) - 1)
