# points: 8
# about: each micro-batch weighted by its share of the window's examples
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for start in range(0, len(micro_batches), accumulate):
        window = micro_batches[start : start + accumulate]
        examples = sum(len(y) for _, y in window)
        optimizer.zero_grad()
        for x, y in window:
            loss = loss_fn(model(x), y) * len(y) / examples
            loss.backward()
        optimizer.step()
