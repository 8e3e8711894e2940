# points: 9
# about: a closure for the step, zeroed after it; the best state is overwritten in place; one big validation batch
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    x_val, y_val = (torch.cat(parts) for parts in zip(*val_batches))
    best = {name: torch.empty_like(value) for name, value in model.state_dict().items()}
    losses = []
    for epoch in range(epochs):
        model.train()
        for batch in batches:
            def closure():
                optimizer.zero_grad(set_to_none=False)
                loss = loss_fn(model(batch[0]), batch[1])
                loss.backward()
                return loss

            optimizer.step(closure)
        with torch.inference_mode():
            loss = loss_fn(model.eval()(x_val), y_val)
        if not losses or loss < min(losses):
            for name, value in model.state_dict().items():
                best[name].copy_(value)
        losses.append(loss)
    return losses, best
