# points: 8
# about: float32 tensors; differences instead of ratios; conditions collected first
def diagnose_curves(train_loss, val_loss):
    train, val = torch.from_numpy(train_loss).float(), torch.from_numpy(val_loss).float()
    start, last, held_out = train[0], train[-5:].median(), val[-5:].median()
    steps = train.diff()
    conditions = [
        (~(train.isfinite().all() & val.isfinite().all()) | (last - start > start), "diverging", "lower-rate"),
        (start - last <= 0.02 * start, "dead", "overfit-one-batch"),
        ((steps > 0.1 * train[:-1]).float().mean() >= 0.25, "oscillating", "lower-rate"),
        (last > start / 2, "under", "larger-model"),
        (held_out - last <= 0.02 * last, "leak", "check-split"),
        ((held_out > 1.2 * val.min()) | (held_out > 2 * last), "over", "regularise"),
        (torch.tensor(True), "sweet spot", "error-analysis"),
    ]
    return next((label, action) for holds, label, action in conditions if bool(holds))
