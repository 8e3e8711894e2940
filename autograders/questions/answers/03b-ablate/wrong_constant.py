# points: 0
# misconception: constant-answer
def ablate_one(run, base, change, seeds):
    return 2.1, 0.86, 3.34, "likely useful"
