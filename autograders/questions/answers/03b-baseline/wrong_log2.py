# points: 2
# misconception: log-base-2
def baselines(y_train, y_val, classes):
    frequency = torch.bincount(y_train, minlength=classes).double() / len(y_train)
    accuracy = (y_val == frequency.argmax()).double().mean()
    return accuracy, -frequency[y_val].log2().mean(), math.log2(classes)
