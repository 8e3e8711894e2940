"""What each rung asks, and why it is where it does, in words for whoever meets the ladder first."""

from __future__ import annotations

WHY = {
    1: (
        "Look at what the model eats before looking at the model. A wrong label, a shifted validation split or an "
        "example that is in both splits makes every later number wrong, and no training repairs it."
    ),
    2: (
        "Know what no learning at all would score: the most frequent class, the mean, a straight line. A program that "
        "does not beat these, or does not change its answer when its inputs change, has learnt nothing yet."
    ),
    3: (
        "A sound program can memorise one small batch. If it cannot, no amount of data helps: the loss, the "
        "gradient or the step is not what it is meant to be. The batch must hold several classes, or one constant "
        "answer would do; and with smoothed or mixed labels the loss can only fall to its floor, not to 0."
    ),
    4: (
        "A few hundred examples are quick to train on and hard enough to need every layer. What stays bad here with "
        "several seeds is the model's or its start's fault, hardly the data's."
    ),
    5: (
        "Only now the learning rate: below this rung a wrong rate and a wrong program look the same. The finder shows "
        "which rates fall, which stall and which explode."
    ),
    6: (
        "The whole run, read by its curves: training and validation loss together say whether to train longer, to "
        "regularise, or to distrust the evaluation."
    ),
    7: (
        "A good mean hides bad parts. Look at which examples are wrong, whether one group carries the errors, what "
        "part of the input the answer rests on, and whether confidence means anything."
    ),
}
