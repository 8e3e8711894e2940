# points: 8
# about: the shares as a float32 tensor, a generator of windows
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    batches = iter(micro_batches)
    while window := [batch for _, batch in zip(range(accumulate), batches)]:
        sizes = torch.tensor([len(y) for _, y in window])
        shares = sizes / sizes.sum()
        for share, (x, y) in zip(shares, window):
            (share * loss_fn(model(x), y)).backward()
        optimizer.step()
        optimizer.zero_grad()
