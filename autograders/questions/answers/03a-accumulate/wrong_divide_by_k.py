# points: 3
# misconception: divide-by-k
# about: the lecture's loop as it is often taught, with the last window stepped
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for i, (x, y) in enumerate(micro_batches):
        loss = loss_fn(model(x), y) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0 or i + 1 == len(micro_batches):
            optimizer.step()
            optimizer.zero_grad()
