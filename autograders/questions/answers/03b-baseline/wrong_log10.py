# points: 2
# misconception: log-base-10
def baselines(y_train, y_val, classes):
    frequency = torch.bincount(y_train, minlength=classes).double() / len(y_train)
    accuracy = (y_val == frequency.argmax()).double().mean()
    return accuracy, -frequency[y_val].log10().mean(), math.log10(classes)
