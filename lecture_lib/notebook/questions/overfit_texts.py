"""What is said to the known mistakes of 03b-overfit."""

from ..question import Misconception

MISCONCEPTIONS = {
    "constant-answer": Misconception(
        "every program got the same verdict",
        "what of your function's arguments the verdict depends on",
    ),
    "few-steps": Misconception(
        "healthy programs fail: they were stopped before they had learned the batch",
        "the number of steps that the question grants",
    ),
    "any-fall": Misconception(
        "a loss that falls was taken for a loss that arrives; a second softmax lowers it too",
        "how far the last loss is from the floor",
    ),
    "floor-ignored": Misconception(
        "the loss was compared with zero, which a loss with smoothed labels cannot reach",
        "what the argument `floor` is for",
    ),
    "below-floor": Misconception(
        "a loss far below the floor was let through: such a program computes another loss than its author believes",
        "both sides of the floor",
    ),
    "best-loss": Misconception(
        "the lowest loss on the way was taken; this program reached the floor and lost it again",
        "which step's loss says that the batch is known by heart now",
    ),
    "nan-holds": Misconception(
        "a loss that is nan was let through: every comparison with nan is False",
        "what your condition gives for nan, and which verdict that leads to",
    ),
    "train-mode": Misconception(
        "a healthy program with dropout fails: its loss was measured while units were being dropped",
        "the mode of the model when the loss is measured",
    ),
    "one-class": Misconception(
        "a batch of one class was tried; the last bias can learn it without any input",
        "the labels, before the first step",
    ),
    "weights-left": Misconception(
        "the verdict is right, and the model has been trained: its weights are not those that it came with",
        "what is kept before the first step, and whether it is a copy",
    ),
    "mode-left": Misconception(
        "the verdict is right, and the model is left in evaluation mode",
        "`model.training` when your function returns",
    ),
}
