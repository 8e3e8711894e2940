"""What is said to the known mistakes of 03b-fix."""

from ..question import Misconception

MISCONCEPTIONS = {
    "softmax-left": Misconception(
        "the loss still goes through two softmaxes",
        "what cross_entropy does to its first argument",
    ),
    "never-cleared": Misconception(
        "the second step still contains the first one's gradient",
        "what backward does to a .grad that is not empty",
    ),
    "cleared-too-early": Misconception(
        "the weights do not move: the gradient was gone before it was used",
        "the order of backward, step and zero_grad",
    ),
    "split-overlaps": Misconception(
        "some rows are in both parts",
        "how often an order is drawn",
    ),
    "shuffle-removed": Misconception(
        "the parts no longer overlap, and no longer depend on the generator: data that come sorted would be split by "
        "class",
        "what the generator is for",
    ),
    "labels-shifted": Misconception(
        "inputs and labels are still paired wrongly once a label is missing",
        "which rows leave x, and which leave y",
    ),
    "still-noisy": Misconception(
        "the loss is still measured while units are being dropped",
        "the mode of the model",
    ),
    "stepped-per-batch": Misconception(
        "the rate is still halved after every batch",
        "in which of the two, batch or epoch, the schedule is counted",
    ),
    "never-stepped": Misconception(
        "the rate is never halved now",
        "where the schedule moves on",
    ),
    "rung-wrong": Misconception(
        "the program is right, and its fault shows on another rung",
        "the table at the top: the lowest rung whose question this program fails",
    ),
}
