# points: 0
# misconception: always-alarm
# about: the constant answer
def check_batch(x, y):
    return {"x.shape", "x.dtype", "x.range", "y.shape", "y.dtype"}
