# points: 6
# misconception: never-negative
# about: the search for the largest gain starts at 0
def rank_buckets(mistakes, accuracy):
    from collections import Counter

    actions = {
        "blur": "augment",
        "rare class": "collect-or-reweight",
        "ambiguous label": "clean-labels",
        "background shortcut": "change-backgrounds",
        "threshold": "tune-threshold",
    }
    counts = Counter(mistakes)
    rows = []
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        ceiling = accuracy + counts[name] / len(mistakes) * (100 - accuracy)
        rows.append((name, ceiling, actions.get(name, "look-at-ten")))
    return rows


def best_component(base, alone):
    best = None, 0
    for name, accuracy in alone.items():
        if accuracy - base > best[1]:
            best = name, accuracy - base
    return best
