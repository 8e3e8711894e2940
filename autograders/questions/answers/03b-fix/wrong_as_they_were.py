# points: 0
# misconception: softmax-left
# about: the broken programs with all rungs right
def repaired():
    return {
        "loss": (batch_loss, 3),
        "step": (train_step, 3),
        "split": (split_data, 1),
        "labels": (labelled_only, 1),
        "evaluation": (mean_loss, 6),
        "schedule": (train_epoch, 6),
    }
