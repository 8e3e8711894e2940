# points: 0
# misconception: never-zeroed
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for start in range(0, len(micro_batches), accumulate):
        window = micro_batches[start : start + accumulate]
        total = sum(len(x) for x, _ in window)
        for x, y in window:
            (loss_fn(model(x), y) * len(x) / total).backward()
        optimizer.step()
