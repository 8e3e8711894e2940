"""03b-subset: does a program beat the constant answer by more than seeds differ?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

FIELDS = ("gain", "spread", "holds")


def _field(name: str) -> Any:
    def run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        losses, constant = torch.tensor(inputs["losses"]), torch.tensor(inputs["constant"])
        return {name: list(functions["subset_rung"](losses, constant))[FIELDS.index(name)]}

    return run


def _values(**fields: float | bool) -> dict[str, dict[str, float | bool]]:
    return {name: {name: value} for name, value in fields.items()}


def _seeds(losses: list[float], constant: list[float]) -> dict[str, np.ndarray]:
    return {"losses": np.array(losses), "constant": np.array(constant)}


QUESTION = PublicQuestion(
    id="03b-subset",
    title="a small subset, over seeds",
    functions=("subset_rung",),
    parts={name: _field(name) for name in FIELDS},
    cases=(
        PublicCase(
            name="gains 0.5, 0.4, 0.6 over constants that differ by seed",
            inputs=_seeds([1.8, 1.3, 1.4], [2.3, 1.7, 2.0]),
            expected=_values(gain=0.5, spread=0.1, holds=True),
            mistakes={
                "unpaired-spread": _values(spread=math.sqrt(0.07), holds=False),
                "population-spread": _values(spread=math.sqrt(0.02 / 3)),
                "divided-by-root-n": _values(spread=0.1 / math.sqrt(3)),
                "sign-flipped": _values(gain=-0.5),
                "best-seed": _values(gain=0.6),
            },
        ),
        PublicCase(
            name="gains 0.1, 0.5, 0.6",
            inputs=_seeds([2.2, 1.8, 1.7], [2.3, 2.3, 2.3]),
            expected=_values(gain=0.4, spread=math.sqrt(0.07), holds=False),
            mistakes={"any-gain": _values(holds=True), "best-seed": _values(gain=0.6)},
        ),
        PublicCase(
            name="two seeds, gains 0.5 and 0.6",
            inputs=_seeds([1.8, 1.7], [2.3, 2.3]),
            expected=_values(gain=0.55, spread=math.sqrt(0.005), holds=False),
            mistakes={"too-few-seeds": _values(holds=True)},
        ),
        PublicCase(
            name="four seeds, one of them diverged",
            inputs=_seeds([1.8, math.nan, 1.7, 1.75], [2.3, 2.3, 2.3, 2.3]),
            expected=_values(holds=False),
            mistakes={"diverged-dropped": _values(holds=True)},
        ),
    ),
    misconceptions={
        "unpaired-spread": Misconception(
            "the spread of the losses was taken; part of it is how hard each seed's subset is, and the constant answer "
            "feels that too",
            "which number you have once for each seed and want to be sure of",
        ),
        "population-spread": Misconception(
            "the sum of squares was divided by the number of seeds; with three seeds that hides a fifth of the spread",
            "the default of the function that you called: NumPy's std divides by n, torch's by n - 1",
        ),
        "divided-by-root-n": Misconception(
            "this is the standard error of the mean, not the spread between seeds",
            "what the question calls spread",
        ),
        "sign-flipped": Misconception(
            "the gain has the wrong sign: a lower loss is better",
            "the gain of a program whose loss is 1.8 where the constant answer has 2.3",
        ),
        "best-seed": Misconception(
            "the best seed's gain was taken: it grows with the number of seeds tried",
            "what the other seeds say",
        ),
        "any-gain": Misconception(
            "a positive mean was enough, however much the seeds differ",
            "what would come out with three other seeds",
        ),
        "too-few-seeds": Misconception(
            "two seeds were enough; two numbers are close to each other too often by chance",
            "the number of seeds that the question asks for",
        ),
        "diverged-dropped": Misconception(
            "the diverged seed was left out: one run in four of this program ends with nan",
            "what your function does with a loss that is not finite",
        ),
        "constant-answer": Misconception(
            "the same three values came back for every table",
            "where each of the three comes from",
        ),
    },
)
