# points: 5
# misconception: mean-of-means
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    for start in range(0, len(micro_batches), accumulate):
        window = micro_batches[start : start + accumulate]
        optimizer.zero_grad()
        torch.stack([loss_fn(model(x), y) for x, y in window]).mean().backward()
        optimizer.step()
