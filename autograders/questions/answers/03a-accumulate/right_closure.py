# points: 8
# about: a closure handed to optimizer.step, a running mean of losses
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    pending = list(micro_batches)
    while pending:
        window, pending = pending[:accumulate], pending[accumulate:]
        sizes = [y.numel() // y.shape[-1] for _, y in window]

        def closure():
            optimizer.zero_grad()
            for size, (x, y) in zip(sizes, window):
                (loss_fn(model(x), y) * size).div(sum(sizes)).backward()

        optimizer.step(closure)
