# points: 6
# misconception: share-for-ceiling
# about: the share in percent
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
        ceiling = 100 * counts[name] / len(mistakes)
        rows.append((name, ceiling, actions.get(name, "look-at-ten")))
    return rows


def best_component(base, alone):
    name = max(alone, key=alone.get)
    return name, alone[name] - base
