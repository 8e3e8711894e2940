# points: 0
# misconception: constant-answer
# about: the same for every table
def subset_rung(losses, constant):
    return 0.5, 0.1, True
