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
        # A tuple, a list, an array and a generator of three numbers are the same.
        return {name: list(functions["baselines"](y_train, y_val, inputs["classes"]))[FIELDS.index(name)]}

    return run


# Three of class 0 and one of class 1 to learn from; one of class 0 and four of class 1 to be measured on.
_SKEWED = {"y_train": np.array([0, 0, 0, 1]), "y_val": np.array([0, 1, 1, 1, 1]), "classes": 2}
_CONSTANT = -(math.log(0.75) + 4 * math.log(0.25)) / 5
_SKEWED_MISTAKES: dict[str, dict[str, dict[str, float]]] = {
    "peeks-at-validation": {
        "majority_accuracy": {"majority_accuracy": 0.8},
        "constant_loss": {"constant_loss": -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))},
    },
    "scored-on-training": {
        "majority_accuracy": {"majority_accuracy": 0.75},
        "constant_loss": {"constant_loss": -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))},
    },
    "percent": {"majority_accuracy": {"majority_accuracy": 20.0}},
}


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
            name="skewed: trained on 0, 0, 0, 1, measured on 0, 1, 1, 1, 1",
            inputs=_SKEWED,
            expected=_values(majority_accuracy=0.2, constant_loss=_CONSTANT, initial_loss=math.log(2)),
            mistakes={
                **_SKEWED_MISTAKES,
                "chance-level": _values(majority_accuracy=0.5, constant_loss=math.log(2)),
                "log-base-2": _values(constant_loss=_CONSTANT / math.log(2), initial_loss=1.0),
                "log-base-10": _values(constant_loss=_CONSTANT / math.log(10), initial_loss=math.log10(2)),
            },
        ),
        PublicCase(
            name="the same with three outputs, one of them never used",
            inputs={**_SKEWED, "classes": 3},
            expected=_values(majority_accuracy=0.2, constant_loss=_CONSTANT, initial_loss=math.log(3)),
            mistakes={
                **_SKEWED_MISTAKES,
                "classes-seen": _values(initial_loss=math.log(2)),
                "chance-level": _values(majority_accuracy=1 / 3, constant_loss=math.log(3)),
                "log-base-2": _values(constant_loss=_CONSTANT / math.log(2), initial_loss=math.log2(3)),
                "log-base-10": _values(constant_loss=_CONSTANT / math.log(10), initial_loss=math.log10(3)),
            },
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
        "constant-answer": Misconception(
            "the same numbers came back for every set of labels",
            "where each number comes from: all three depend on the arguments",
        ),
        "percent": Misconception(
            "the accuracy is in percent; the question asks for a fraction",
            "the range of the accuracy: 0 to 1",
        ),
    },
)
