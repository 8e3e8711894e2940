# points: 6
# misconception: frozen-thawed
# about: one flag for all modules
def evaluate_outputs(model, batches, loss_fn):
    training = model.training
    stream = torch.get_rng_state()
    model.eval()
    total, count, outputs = 0.0, 0, []
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            total += loss_fn(output, y).item() * len(x)
            count += len(x)
            outputs.append(output)
    model.train(training)
    torch.set_rng_state(stream)
    return total / count, torch.cat(outputs)
