# points: 0
# misconception: constant-result
# about: the constant answer: nothing is touched, so nothing has to be put back
def evaluate_outputs(model, batches, loss_fn):
    return 0.0, torch.zeros(len(batches), 1)
