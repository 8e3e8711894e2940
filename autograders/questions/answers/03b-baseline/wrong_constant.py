# points: 0
# misconception: constant-answer
# about: the numbers of the first visible case, written down
def baselines(y_train, y_val, classes):
    return 0.5, math.log(2), math.log(2)
