# points: 1
# misconception: any-fall
# about: a lower loss than at the start is enough
def overfit_rung(model, step, loss_fn, x, y, floor):
    if len(y.unique()) < 2:
        return "one class"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        first = loss_fn(model.eval()(x), y).item()
    model.train()
    for _ in range(100):
        step(x, y)
    with torch.no_grad():
        last = loss_fn(model.eval()(x), y).item()
    model.train()
    model.load_state_dict(before)
    return "holds" if last < first else "fails"
