# points: 8
# about: sums of losses, and the gradient divided by the count just before the step
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    seen, count = 0, 0

    def step():
        nonlocal seen, count
        for parameter in model.parameters():
            parameter.grad.div_(count)
        optimizer.step()
        optimizer.zero_grad()
        seen, count = 0, 0

    for x, y in micro_batches:
        (loss_fn(model(x), y) * x.shape[0]).backward()
        seen, count = seen + 1, count + x.shape[0]
        if seen == accumulate:
            step()
    if seen:
        step()
