# points: 2
# misconception: chance-level
def baselines(y_train, y_val, classes):
    return 1 / classes, math.log(classes), math.log(classes)
