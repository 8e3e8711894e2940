"""Whether a program's metric says more than chance would: the same outputs with the targets of other examples."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..program import Program
from .run_data import Examples, RecordedRun

DRAWS = 20  # of other examples' targets, and as many examples at least
FEW = 5  # of them for an evaluation of the author's, which may take long
# Numbers that are called so are the better the higher; of others it is not known.
SCORES = re.compile(r"acc|auc|roc|f1|r2|r\u00b2|precision|recall|kappa|mcc|dice|iou|score", re.IGNORECASE)
AREA = re.compile(r"auc|roc", re.IGNORECASE)  # under a ROC curve: a half is chance


def _shuffled(y: Tensor, count: int) -> list[Tensor]:
    # A generator of its own: the program's random stream must not advance.
    generator = torch.Generator().manual_seed(0)
    return [y[torch.randperm(len(y), generator=generator)] for _ in range(count)]


def scores_by_chance(program: Program, val: Examples | None, reported: dict[str, float]) -> list[dict[str, float]]:
    """What the author's evaluation reports with targets of other examples; nothing where it cannot be asked."""
    if program.evaluate is None or val is None or len(val.y) < DRAWS or not any(map(SCORES.search, reported)):
        return []
    loader, scores = program.val_loader, []
    try:
        for y in _shuffled(val.y, FEW):
            shuffled = Examples(val.x, y, val.batch_size, val.device)
            program.val_loader = DataLoader(shuffled.dataset(), val.batch_size)
            scores.append(program.run_evaluation())
    except Exception:  # it wants other batches than (inputs, targets)
        return []
    finally:
        program.val_loader = loader
    return scores


def no_better_than_chance(program: Program, val: Examples | None, run: RecordedRun) -> str:
    """What speaks against the validation metrics, in words; '' where they are above chance, or nothing is known."""
    outputs = run.outputs[1]
    if program.metric is not None and val is not None and outputs is not None and len(val.y) >= DRAWS:
        y = val.y[: len(outputs)]
        try:
            own = float(program.metric(outputs, y))
            doubt = _doubt("metric", own, [float(program.metric(outputs, targets)) for targets in _shuffled(y, DRAWS)])
        except Exception:  # such as a metric that moves what it is given; the run has asked it in the program's own way
            doubt = ""
        if doubt:
            return doubt
    for name, own in (run.rows[-1].reported if run.rows else {}).items():
        if not SCORES.search(name):
            continue
        by_chance = [scores.get(name, math.nan) for scores in run.by_chance]
        doubt = _doubt(name, own, by_chance)
        if not doubt and AREA.search(name) and own < 0.5:
            doubt = f"The validation {name} is {own:.3g}, worse than chance, which is 0.5."
        if doubt:
            return doubt
    return ""


def _doubt(name: str, own: float, random: Sequence[float]) -> str:
    # The same number for all draws means that the metric does not depend on the targets.
    if not random or not all(map(math.isfinite, (own, *random))) or own > max(random) or min(random) == max(random):
        return ""
    how = "worse than" if own < min(random) else "no better than"
    chance = f"chance: with targets of other examples it is up to {max(random):.3g}"
    return f"The validation {name} is {own:.3g}, {how} {chance}."
