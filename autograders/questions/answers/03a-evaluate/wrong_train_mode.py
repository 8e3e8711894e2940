# points: 6
# misconception: train-mode
# about: no_grad taken for the whole of it
def evaluate_outputs(model, batches, loss_fn):
    modes = [(module, module.training) for module in model.modules()]
    stream = torch.get_rng_state()
    total, count, outputs = 0.0, 0, []
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            total += loss_fn(output, y).item() * len(x)
            count += len(x)
            outputs.append(output)
    for module, mode in modes:
        module.training = mode
    torch.set_rng_state(stream)
    return total / count, torch.cat(outputs)
