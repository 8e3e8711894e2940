# points: 9
# misconception: train-mode
# about: measures while units are dropped
def overfit_rung(model, step, loss_fn, x, y, floor):
    if len(y.unique()) < 2:
        return "one class"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(100):
        step(x, y)
    model.train()
    with torch.no_grad():
        gap = loss_fn(model(x), y).item() - floor
    model.train()
    model.load_state_dict(before)
    return "holds" if abs(gap) <= 0.15 else "fails"
