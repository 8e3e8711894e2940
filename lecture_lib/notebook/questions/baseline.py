"""03b-baseline: the numbers that any model has to beat, before there is a model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

FIELDS = ("majority_accuracy", "constant_loss", "initial_loss")


def _field(name: str) -> Any:
    def run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        y_train, y_val = torch.tensor(inputs["y_train"]), torch.tensor(inputs["y_val"])
        return {name: functions["baselines"](y_train, y_val, inputs["classes"])[FIELDS.index(name)]}

    return run


# Three of class 0 and one of class 1 to learn from; one of class 0 and three of class 1 to be measured on.
_SKEWED = {"y_train": np.array([0, 0, 0, 1]), "y_val": np.array([0, 1, 1, 1]), "classes": 2}
_CONSTANT = -(math.log(0.75) + 3 * math.log(0.25)) / 4
_ENTROPY = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))


def _values(**fields: float) -> dict[str, dict[str, float]]:
    return {name: {name: value} for name, value in fields.items()}


QUESTION = PublicQuestion(
    id="03b-baseline",
    title="three baselines",
    functions=("baselines",),
    parts={name: _field(name) for name in FIELDS},
    cases=(
        PublicCase(
            name="balanced: labels 0, 1 and 0, 1",
            inputs={"y_train": np.array([0, 1]), "y_val": np.array([0, 1]), "classes": 2},
            expected=_values(majority_accuracy=0.5, constant_loss=math.log(2), initial_loss=math.log(2)),
            mistakes={
                "log-base-2": _values(constant_loss=1.0, initial_loss=1.0),
                "log-base-10": _values(constant_loss=math.log10(2), initial_loss=math.log10(2)),
                "percent": _values(majority_accuracy=50.0),
            },
        ),
        PublicCase(
            name="skewed: labels 0, 0, 0, 1 to learn from, 0, 1, 1, 1 to be measured on",
            inputs=_SKEWED,
            expected=_values(majority_accuracy=0.25, constant_loss=_CONSTANT, initial_loss=math.log(2)),
            mistakes={
                "peeks-at-validation": _values(majority_accuracy=0.75, constant_loss=_ENTROPY),
                "chance-level": _values(majority_accuracy=0.5, constant_loss=math.log(2)),
                "log-base-2": _values(constant_loss=_CONSTANT / math.log(2), initial_loss=1.0),
                "percent": _values(majority_accuracy=25.0),
            },
        ),
        PublicCase(
            name="three outputs, two classes seen",
            inputs={**_SKEWED, "classes": 3},
            expected=_values(majority_accuracy=0.25, constant_loss=_CONSTANT, initial_loss=math.log(3)),
            mistakes={"classes-seen": _values(initial_loss=math.log(2))},
        ),
    ),
    misconceptions={
        "peeks-at-validation": Misconception(
            "the baseline was fitted on the validation labels: it knows what it is measured on",
            "from which labels the frequencies come, and on which they are scored",
        ),
        "scored-on-training": Misconception(
            "the baseline was measured on the labels that it was fitted on",
            "on which labels a baseline is scored",
        ),
        "chance-level": Misconception(
            "guessing evenly was taken for the baseline; with skewed classes a constant guess does better",
            "which class you would always predict, and how often that is right",
        ),
        "log-base-2": Misconception(
            "the losses are in bits; CrossEntropyLoss uses the natural logarithm",
            "the base of the logarithm: the loss of two even classes is 0.693",
        ),
        "log-base-10": Misconception(
            "the losses use log10; CrossEntropyLoss uses the natural logarithm",
            "the base of the logarithm: the loss of two even classes is 0.693",
        ),
        "classes-seen": Misconception(
            "the classes that occur were counted, not the network's outputs",
            "over how many outputs an untrained network spreads its probability",
        ),
        "percent": Misconception(
            "the accuracy is in percent; the question asks for a fraction",
            "the range of the accuracy: 0 to 1",
        ),
    },
)
