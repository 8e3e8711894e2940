# points: 2
# misconception: any-rise
# about: every rise counts
def diagnose_curves(train_loss, val_loss):
    start, train_end, val_end = train_loss[0], np.median(train_loss[-5:]), np.median(val_loss[-5:])
    if not np.isfinite(train_loss).all() or not np.isfinite(val_loss).all() or train_end > 2 * start:
        return "diverging", "lower-rate"
    if train_end >= 0.98 * start:
        return "dead", "overfit-one-batch"
    if np.mean(train_loss[1:] > train_loss[:-1]) >= 0.25:
        return "oscillating", "lower-rate"
    if train_end > 0.5 * start:
        return "under", "larger-model"
    if val_end <= 1.02 * train_end:
        return "leak", "check-split"
    if val_end > 1.2 * val_loss.min() or val_end > 2 * train_end:
        return "over", "regularise"
    return "sweet spot", "error-analysis"
