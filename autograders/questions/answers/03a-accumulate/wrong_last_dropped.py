# points: 6
# misconception: last-window-dropped
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for window_number in range(len(micro_batches) // accumulate):
        window = micro_batches[window_number * accumulate : (window_number + 1) * accumulate]
        total = sum(len(x) for x, _ in window)
        optimizer.zero_grad()
        for x, y in window:
            (loss_fn(model(x), y) * (len(x) / total)).backward()
        optimizer.step()
