# points: 0
# misconception: constant-answer
def autocast_step(model, optimizer, loss_fn, x, y):
    return dict.fromkeys(["parameter", "output", "loss", "gradient", "momentum"], "bfloat16")


def fate(number, dtype):
    return "exact"
