# points: 0
# misconception: always-fine
def diagnose_curves(train_loss, val_loss):
    return "sweet spot", "error-analysis"
