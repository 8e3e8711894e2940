# points: 8
# about: the decorator form of no_grad, train(mode) for each module, a running mean, outputs as a NumPy array
@torch.no_grad()
def evaluate_outputs(model, batches, loss_fn):
    before = [(module, module.training) for module in model.modules()]
    stream = torch.random.get_rng_state()
    model.train(False)
    mean, seen, collected = torch.tensor(0.0), 0, []
    for x, y in batches:
        predicted = model(x)
        seen += x.shape[0]
        mean = mean + (loss_fn(predicted, y) - mean) * x.shape[0] / seen
        collected.extend(predicted.tolist())
    for module, mode in before:
        module.train(mode)
    torch.random.set_rng_state(stream)
    import numpy as np

    return mean, np.array(collected)
