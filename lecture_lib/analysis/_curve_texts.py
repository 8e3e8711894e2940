"""What each pattern of training curves means, and what to do next: the lecture's table."""

from __future__ import annotations

# Pattern -> its meaning, and actions in the order of what they cost.
PATTERNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "exploding": (
        "The steps are so large, or the numbers so extreme, that the loss grows without bound.",
        (
            "lower the rate (find_lr shows its range), or warm up",
            "look for NaN and extreme values in the inputs, and for log or a division at 0 in the loss",
            "clip the gradient: max_norm=1.0",
        ),
    ),
    "oscillating": (
        "The rate is too high: steps jump over the valley instead of going down into it.",
        (
            "lower the rate by a factor of 3 to 10, or let a schedule lower it",
            "clip the gradient: max_norm=1.0",
            "take larger batches, whose gradients are less noisy",
        ),
    ),
    "flat": (
        "Nothing is learned: the rate is far too small, or the gradient does not reach the weights, or the inputs tell "
        "nothing about the labels.",
        (
            "overfit one batch, then again with a rate a hundred times larger: if both fail, the wiring is broken "
            "(zero_grad, frozen or unregistered parameters, dead ReLUs, double softmax)",
            "look at a batch as the model gets it: inputs, and labels beside them",
            "raise the rate (find_lr shows its range)",
        ),
    ),
    "leakage-like": (
        "Validation is better than held-out data can well be: examples, or the answer itself, may be known from "
        "training. A very easy task looks the same.",
        (
            "look for duplicates between the parts, and split by patient, video, user, document or time",
            "look for the label among the inputs, and for preprocessing that was fitted on all data",
            "train the simplest baseline: if it is as good, the task is easy",
        ),
    ),
    "validation below training": (
        "Training is measured under harder conditions: with dropout or augmentation switched on. This is no fault as "
        "such.",
        (
            "evaluate the training data in eval mode without augmentation: the gap should turn round",
            "if it does not, compare the parts: validation may be easier, or leak",
            "if training stays high, use less dropout or augmentation",
        ),
    ),
    "improves then worsens": (
        "Classic overfitting: from some epoch on, the model memorises its training examples.",
        (
            "take the best epoch's weights: history.best_state, and stop early: patience=5",
            "add augmentation or more data",
            "add weight decay or dropout, or take a smaller model",
        ),
    ),
    "overfit": (
        "The model knows its training examples and does much worse on others.",
        (
            "stop early, or add weight decay or dropout",
            "add augmentation, or take a smaller model",
            "collect more data",
        ),
    ),
    "underfit": (
        "Both losses have settled far above 0: the model cannot, or may not, express what the labels ask for. Labels "
        "with much noise look the same.",
        (
            "use less weight decay, dropout or augmentation",
            "take a larger model, or better features",
            "train with a higher rate or another schedule; ask how well a person does on these labels",
        ),
    ),
    "healthy": (
        "Both losses fall together.",
        ("go on while validation falls", "then look at the errors that are left"),
    ),
}
