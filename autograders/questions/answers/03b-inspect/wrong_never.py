# points: 0
# misconception: never-alarm
def inspect_data(x_train, y_train, x_val, y_val, classes):
    return set()
