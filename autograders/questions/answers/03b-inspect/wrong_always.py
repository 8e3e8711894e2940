# points: 0
# misconception: always-alarm
def inspect_data(x_train, y_train, x_val, y_val, classes):
    return {"range", "dtype", "labels", "duplicates", "class-stacked"}
