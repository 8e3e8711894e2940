# points: 8
# about: the tape is kept off by switching the parameters off and on again; outputs put into a float32 tensor
def evaluate_outputs(model, batches, loss_fn):
    with torch.random.fork_rng(devices=[]):
        batches = list(batches)
    wanted = [p.requires_grad for p in model.parameters()]
    flags = [m.training for m in model.modules()]
    for p in model.parameters():
        p.requires_grad_(False)
    model.eval()
    sizes = [x.size(0) for x, _ in batches]
    outputs = torch.zeros(sum(sizes), 1)
    start, weighted = 0, []
    for n, (x, y) in zip(sizes, batches):
        outputs[start : start + n] = model(x)
        weighted.append(float(loss_fn(model(x), y)) * n)
        start += n
    for p, flag in zip(model.parameters(), wanted):
        p.requires_grad_(flag)
    for m, flag in zip(model.modules(), flags):
        m.training = flag
    return sum(weighted) / sum(sizes), outputs
