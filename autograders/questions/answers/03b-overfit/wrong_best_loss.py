# points: 2
# misconception: best-loss
# about: the lowest loss on the way decides
def overfit_rung(model, step, loss_fn, x, y, floor):
    if len(y.unique()) < 2:
        return "one class"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gaps = []
    for _ in range(100):
        model.train()
        step(x, y)
        model.eval()
        with torch.no_grad():
            gaps.append(abs(loss_fn(model(x), y).item() - floor))
    model.train()
    model.load_state_dict(before)
    return "holds" if min(gaps) <= 0.15 else "fails"
