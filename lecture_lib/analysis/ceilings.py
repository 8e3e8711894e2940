"""Ceiling analysis: which stage of a pipeline limits the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Stage(NamedTuple):
    """A stage of a pipeline: accuracy with it and all before it perfect, what that adds, and with it alone perfect."""

    name: str
    accuracy: float
    gain: float
    alone: float


def ceiling_analysis(evaluate: Callable[[tuple[str, ...]], float], stages: Sequence[str]) -> list[Stage]:
    """Replace the stages of a pipeline by the truth, one after another, and see what each is worth.

    The gains add up to what all stages together leave undone. A stage alone may bring less than in its turn, when
    later stages cannot make use of it.
    Source: lecture part 5, ceiling analysis.

    Args:
        evaluate: names of the stages that give the truth instead of their output -> accuracy of the whole.
        stages: in the order of the pipeline, each once.

    Returns:
        A row for each stage, in order.

    Raises:
        ValueError: no stages, one named twice, or an accuracy that is not finite.

    """
    if not stages or len(set(stages)) != len(stages):
        raise ValueError(f"stages are {list(stages)}; name one or more, each once, in the order of the pipeline.")
    steps = [tuple(stages[:count]) for count in range(len(stages) + 1)]
    # Each combination is evaluated once: the first stage alone is also the first step.
    replacements = dict.fromkeys([*steps, *((name,) for name in stages)])
    scores = {replaced: float(evaluate(replaced)) for replaced in replacements}
    wrong = [replaced for replaced, accuracy in scores.items() if not math.isfinite(accuracy)]
    if wrong:
        raise ValueError(f"with {wrong[0] or 'nothing'} replaced the accuracy is {scores[wrong[0]]}; it is a number.")
    return [
        Stage(name, scores[after], scores[after] - scores[before], scores[name,])
        for name, before, after in zip(stages, steps, steps[1:], strict=False)
    ]
