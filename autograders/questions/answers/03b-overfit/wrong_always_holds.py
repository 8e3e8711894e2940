# points: 0
# misconception: constant-answer
# about: every program holds
def overfit_rung(model, step, loss_fn, x, y, floor):
    return "holds"
