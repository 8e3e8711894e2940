# points: 6
# misconception: percent
def baselines(y_train, y_val, classes):
    counts = torch.bincount(y_train, minlength=classes)
    accuracy = 100 * (y_val == counts.argmax()).double().mean()
    constant = -(counts[y_val] / len(y_train)).double().log().mean()
    return accuracy, constant, math.log(classes)
