# points: 9
# about: every epoch's weights are kept as arrays, the best is picked at the end; losses as a tensor; gradients by hand
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    states, losses = [], torch.zeros(epochs)
    for epoch in range(epochs):
        model.train(True)
        for x, y in batches:
            gradients = torch.autograd.grad(loss_fn(model(x), y), list(model.parameters()), allow_unused=True)
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter.grad = gradient
            optimizer.step()
        model.train(False)
        losses[epoch] = torch.stack([loss_fn(model(x), y).detach() for x, y in val_batches]).mean()
        states.append({name: value.numpy().copy() for name, value in model.state_dict().items()})
    return losses, states[int(losses.argmin())]
