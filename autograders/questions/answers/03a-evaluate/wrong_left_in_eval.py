# points: 6
# misconception: left-in-eval
def evaluate_outputs(model, batches, loss_fn):
    stream = torch.get_rng_state()
    model.eval()
    total, count, outputs = 0.0, 0, []
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            total += loss_fn(output, y).item() * len(x)
            count += len(x)
            outputs.append(output)
    torch.set_rng_state(stream)
    return total / count, torch.cat(outputs)
