# points: 2
# misconception: peeks-at-validation
def baselines(y_train, y_val, classes):
    counts = torch.bincount(y_val, minlength=classes)
    frequency = counts / counts.sum()
    accuracy = counts.max() / counts.sum()
    constant = -(frequency[y_val].log()).mean()
    return accuracy.item(), constant.item(), math.log(classes)
