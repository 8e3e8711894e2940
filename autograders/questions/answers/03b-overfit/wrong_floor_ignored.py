# points: 7
# misconception: floor-ignored
# about: compares with zero
def overfit_rung(model, step, loss_fn, x, y, floor):
    if len(y.unique()) < 2:
        return "one class"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(100):
        step(x, y)
    model.eval()
    with torch.no_grad():
        gap = loss_fn(model(x), y).item()
    model.train()
    model.load_state_dict(before)
    return "holds" if abs(gap) <= 0.15 else "fails"
