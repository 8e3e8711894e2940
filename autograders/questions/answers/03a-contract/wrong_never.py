# points: 0
# misconception: never-alarm
# about: asserts that stop nothing, and an empty set
def check_batch(x, y):
    assert x is not None and y is not None
    return set()
