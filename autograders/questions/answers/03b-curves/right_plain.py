# points: 8
# about: Python lists, sorted values for the median, a table of actions, a list returned
def diagnose_curves(train_loss, val_loss):
    train, val = train_loss.tolist(), val_loss.tolist()

    def label():
        if not all(math.isfinite(loss) for loss in train + val):
            return "diverging"
        a, b = sorted(train[-5:])[2], sorted(val[-5:])[2]
        if a > train[0] * 2:
            return "diverging"
        if a / train[0] >= 0.98:
            return "dead"
        rises = sum(after / before > 1.1 for before, after in zip(train, train[1:]))
        if 4 * rises >= len(train) - 1:
            return "oscillating"
        if a / train[0] > 0.5:
            return "under"
        if b / a <= 1.02:
            return "leak"
        return "over" if b > max(0, min(2 * a, 1.2 * min(val))) else "sweet spot"

    table = dict.fromkeys(["diverging", "oscillating"], "lower-rate") | {
        "dead": "overfit-one-batch",
        "under": "larger-model",
        "leak": "check-split",
        "over": "regularise",
        "sweet spot": "error-analysis",
    }
    found = label()
    return [found, table[found]]
