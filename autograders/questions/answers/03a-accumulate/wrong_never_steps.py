# points: 0
# misconception: never-steps
# about: the constant answer: the step is indented into a condition that never holds
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for i, (x, y) in enumerate(micro_batches):
        (loss_fn(model(x), y) / accumulate).backward()
        if i % accumulate == accumulate:
            optimizer.step()
            optimizer.zero_grad()
