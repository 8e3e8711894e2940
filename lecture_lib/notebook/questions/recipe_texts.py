"""The known mistakes of 03a-recipe in words."""

from __future__ import annotations

from ..question import Misconception

MISCONCEPTIONS = {
    "untrained": Misconception(
        "the weights do no better than chance: they are not the trained ones",
        "which of your objects holds the weights when training has ended",
    ),
    "trained-on-validation": Misconception(
        "the model knows even the wrong labels of the validation rows by heart: it was trained on them",
        "which rows the training loader holds",
    ),
    "metrics-missing": Misconception(
        "the record has no row with val_loss and val_metric for the epochs",
        "who tells the record about an epoch when it ends",
    ),
    "metrics-once": Misconception(
        "the record has one row of metrics: the end of the run without the way to it",
        "how often the record is told, once or once an epoch",
    ),
    "last-not-best": Misconception(
        "the weights that were returned are not those of the lowest validation loss in the record",
        "what the history keeps besides its rows",
    ),
    "config-missing": Misconception(
        "the record does not hold the settings that the run used", "what the record was started with"
    ),
    "seed-missing": Misconception("the record does not say the seed", "the arguments of the record besides config"),
    "data-id-missing": Misconception(
        "the record does not say on which data the run was made", "what names data by their content"
    ),
    "environment-missing": Misconception(
        "the record does not say with which versions of Python and torch the run was made",
        "the entry `hardware` of a record",
    ),
    "code-missing": Misconception(
        "the record does not say by which code the run was made, not even that this is unknown",
        "the entry `code` of a record",
    ),
    "unfinished": Misconception(
        "the record still says 'running': it reads like the record of a run that was killed",
        "how a record learns that its run has ended",
    ),
    "unseeded": Misconception(
        "two runs with the same seed gave different weights",
        "everything in the run that draws at random, the first weights included",
    ),
    "seed-ignored": Misconception(
        "another seed gave the same weights", "whether the seed that the settings name is the one that is used"
    ),
}
