# points: 8
# about: a deep copy is evaluated, so that the model itself is never touched; inference mode; the loss as a tensor
def evaluate_outputs(model, batches, loss_fn):
    from copy import deepcopy

    twin = deepcopy(model).eval()
    with torch.random.fork_rng(), torch.inference_mode():
        pairs = [(twin(x), y) for x, y in batches]
        outputs = torch.cat([output for output, _ in pairs])
        labels = torch.cat([y for _, y in pairs])
        return loss_fn(outputs, labels), outputs
