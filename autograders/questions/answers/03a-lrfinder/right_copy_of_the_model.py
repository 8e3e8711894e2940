# points: 8
# about: trains a copy, so that nothing has to be put back; steps by hand; arrays given back
def run_sweep(model, batches, loss_fn, start, stop, steps):
    import copy
    import itertools

    import numpy as np

    copied = copy.deepcopy(model).train()
    losses, lowest = [], float("inf")
    all_rates = np.geomspace(start, stop, steps)
    for rate, (x, y) in zip(all_rates, itertools.cycle(batches)):
        loss = loss_fn(copied(x), y)
        if not loss <= 4 * lowest or loss.isinf():
            break
        losses.append(loss.detach())
        lowest = min(lowest, loss.item())
        gradients = torch.autograd.grad(loss, list(copied.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(copied.parameters(), gradients):
                parameter -= rate * gradient
    return all_rates[: len(losses)], np.array([loss.numpy() for loss in losses])


def choose_rate(rates, losses):
    import numpy as np

    if np.min(losses) > 0.9 * losses[0]:
        return None
    return np.asarray(rates)[np.argmin(losses)] / 10
