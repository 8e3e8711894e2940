# points: 0
# misconception: constant-answer
def rank_buckets(mistakes, accuracy):
    return [("blur", 90.0, "augment")]


def best_component(base, alone):
    return "align", 9.0
