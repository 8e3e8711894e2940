# points: 0
# misconception: step-every-batch
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for x, y in micro_batches:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
