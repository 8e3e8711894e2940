# points: 0
# misconception: no-division
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(micro_batches):
        loss_fn(model(x), y).backward()
        if (i + 1) % accumulate == 0 or i + 1 == len(micro_batches):
            optimizer.step()
            optimizer.zero_grad()
