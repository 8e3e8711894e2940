# points: 7
# misconception: recorded
# about: eval mode taken for the whole of it; detached only afterwards
def evaluate_outputs(model, batches, loss_fn):
    modes = [(module, module.training) for module in model.modules()]
    stream = torch.get_rng_state()
    model.eval()
    total, count, outputs = 0.0, 0, []
    for x, y in batches:
        output = model(x)
        total += loss_fn(output, y).item() * len(x)
        count += len(x)
        outputs.append(output.detach())
    for module, mode in modes:
        module.training = mode
    torch.set_rng_state(stream)
    return total / count, torch.cat(outputs)
