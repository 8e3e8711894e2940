# points: 8
# about: NumPy: np.unique sorts by name, a stable sort by count keeps that; rounded ceilings; a generator of lists
def rank_buckets(mistakes, accuracy):
    names, counts = np.unique(mistakes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    ceilings = np.round(100 - (100 - accuracy) * (1 - counts / counts.sum()), 2)
    for name, ceiling in zip(names[order], ceilings[order]):
        match name:
            case "blur":
                action = "augment"
            case "rare class":
                action = "collect-or-reweight"
            case "ambiguous label":
                action = "clean-labels"
            case "background shortcut":
                action = "change-backgrounds"
            case "threshold":
                action = "tune-threshold"
            case _:
                action = "look-at-ten"
        yield [name, ceiling, action]


def best_component(base, alone):
    gains = np.array(list(alone.values())) - base
    best = gains.argmax()
    return list(alone)[best], gains[best]
