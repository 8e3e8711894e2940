# points: 8
# about: loops, two stable sorts, tensors of no dimension
def rank_buckets(mistakes, accuracy):
    table = [
        ("blur", "augment"),
        ("rare class", "collect-or-reweight"),
        ("ambiguous label", "clean-labels"),
        ("background shortcut", "change-backgrounds"),
        ("threshold", "tune-threshold"),
    ]
    rows = []
    for name in sorted(set(mistakes)):
        fixed = mistakes.count(name) * torch.tensor(100 - accuracy) / len(mistakes)
        actions = [action for bucket, action in table if bucket == name] or ["look-at-ten"]
        rows.append((name, accuracy + fixed, actions[0]))
    rows.sort(key=lambda row: float(row[1]), reverse=True)
    return rows


def best_component(base, alone):
    best, gain = None, -math.inf
    for name, accuracy in alone.items():
        if accuracy - base > gain:
            best, gain = name, accuracy - base
    return best, torch.tensor(gain)
