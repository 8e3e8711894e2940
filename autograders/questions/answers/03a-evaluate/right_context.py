# points: 8
# about: flags put back one by one, the stream's state put back, sums over the examples
def evaluate_outputs(model, batches, loss_fn):
    modes = {module: module.training for module in model.modules()}
    state = torch.get_rng_state()
    model.eval()
    total, outputs = 0.0, []
    try:
        with torch.no_grad():
            for x, y in batches:
                out = model(x)
                total += loss_fn(out, y).item() * len(y)
                outputs.append(out)
    finally:
        for module, mode in modes.items():
            module.training = mode
        torch.set_rng_state(state)
    return total / sum(len(out) for out in outputs), torch.cat(outputs)
