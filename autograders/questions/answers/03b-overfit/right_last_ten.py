# points: 10
# about: three times the steps, a deep copy of the state, every one of the last ten losses
def overfit_rung(model, step, loss_fn, x, y, floor):
    import copy

    import numpy as np

    if np.unique(y.numpy()).size == 1:
        return "one class"
    state = copy.deepcopy(model.state_dict())
    gaps = []
    for number in range(300):
        model.train()
        step(x, y)
        if number >= 290:
            model.eval()
            with torch.inference_mode():
                gaps.append(loss_fn(model(x), y).item() - floor)
    model.load_state_dict(state)
    model.train()
    return "holds" if bool(np.all(np.abs(gaps) < 0.15)) else "fails"
