# points: 0
# misconception: empty-curve
# about: the constant answer: an empty curve, the same rate always, nothing touched
def run_sweep(model, batches, loss_fn, start, stop, steps):
    return [], []


def choose_rate(rates, losses):
    return 0.01
