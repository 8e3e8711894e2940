# points: 6
# misconception: last-batch-only
# about: nothing is carried over the loop
def evaluate_outputs(model, batches, loss_fn):
    modes = [(module, module.training) for module in model.modules()]
    stream = torch.get_rng_state()
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            loss = loss_fn(output, y).item()
    for module, mode in modes:
        module.training = mode
    torch.set_rng_state(stream)
    return loss, output
