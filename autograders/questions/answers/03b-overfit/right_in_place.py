# points: 10
# about: parameters are written back one by one, with a condition that nan fails
def overfit_rung(model, step, loss_fn, x, y, floor):
    if (y == y[0]).all():
        return "one class"
    saved = [p.detach().clone() for p in model.parameters()]
    for _ in range(100):
        step(x, y)
    model.eval()
    loss = float(loss_fn(model(x), y).detach())
    for p, old in zip(model.parameters(), saved):
        p.data.copy_(old)
    model.train()
    if math.isnan(loss) or loss > floor + 0.15 or loss < floor - 0.15:
        return "fails"
    return "holds"
