# points: 8
# about: bincount, cross-entropy on log-frequencies
def baselines(y_train, y_val, classes):
    frequency = torch.bincount(y_train, minlength=classes).double() / len(y_train)
    accuracy = (y_val == frequency.argmax()).double().mean()
    loss = torch.nn.functional.nll_loss(frequency.log().expand(len(y_val), -1), y_val)
    return accuracy, loss, math.log(classes)
