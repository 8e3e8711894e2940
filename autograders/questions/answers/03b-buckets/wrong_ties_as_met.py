# points: 6
# misconception: ties-as-met
# about: most_common keeps the order of first meeting
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
    for name, _ in counts.most_common():
        ceiling = accuracy + counts[name] / len(mistakes) * (100 - accuracy)
        rows.append((name, ceiling, actions.get(name, "look-at-ten")))
    return rows


def best_component(base, alone):
    name = max(alone, key=alone.get)
    return name, alone[name] - base
