# points: 2
# misconception: scored-on-training
def baselines(y_train, y_val, classes):
    frequency = torch.bincount(y_train, minlength=classes).double() / len(y_train)
    return frequency.max(), -frequency[y_train].log().mean(), math.log(classes)
