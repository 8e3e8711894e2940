# points: 0
# misconception: always-none
def find_shift(x_train, y_train, t_train, x_val, y_val, t_val):
    return "none"
