# points: 6
# misconception: one-for-all
# about: augment everything
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
        rows.append((name, ceiling, "augment"))
    return rows


def best_component(base, alone):
    name = max(alone, key=alone.get)
    return name, alone[name] - base
