# points: 7
# misconception: stream-moved
def evaluate_outputs(model, batches, loss_fn):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    total, count, outputs = 0.0, 0, []
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            total += loss_fn(output, y).item() * len(x)
            count += len(x)
            outputs.append(output)
    for module, mode in modes:
        module.training = mode
    return total / count, torch.cat(outputs)
