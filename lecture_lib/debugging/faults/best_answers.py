"""Rung 6: outputs that fit the targets exactly, as training's loss tells, must get a high score."""

from __future__ import annotations

import math
import re

import torch

from .._engine.evidence import Evidence
from .._engine.yardstick import RATES, descent
from .finding import Finding
from .metric_rules import LEAST, SAME, scores

ONE_AT_BEST = re.compile(r"\b(acc|accuracy|m?iou|jaccard|dice|f1|auc|auroc|r2|m?ap\d*)\b", re.IGNORECASE)
"""Scores that are 1 for right answers. A precision among the first ten, say, is not where fewer are right."""
STEPS = 200
FITS = 0.05  # of the loss beside other examples' targets: below it the outputs say what the targets are
ENOUGH = 0.6


def evaluation_reads_outputs_otherwise(evidence: Evidence) -> Finding | None:
    """Free outputs are moved until the program's own loss is about 0, and the author's score of them is low.

    Asked only where the score of the trained model's outputs, given as answers, is the one that was reported: then the
    evaluation takes one answer for each example, in order.
    """
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.metric is not None or program.loss_fn is None or val is None or outputs is None:
        return None
    if not LEAST <= len(outputs) == len(val.y):
        return None
    reported = evidence.run.rows[-1].reported
    names = [
        name
        for name, score in scores(evidence, outputs).items()
        if ONE_AT_BEST.search(name.replace("_", " "))
        and math.isclose(score, reported.get(name, math.nan), rel_tol=SAME, abs_tol=SAME)
    ]
    if not names:
        return None
    ways = (descent(evidence.own_loss, outputs, outputs, val.y, rate, STEPS) for rate in RATES)
    lowest, best = min((step for way in ways for step in way), key=lambda step: step[0])
    shuffled = best[torch.randperm(len(best), generator=torch.Generator().manual_seed(evidence.seed))]
    beside_shuffled = float(evidence.own_loss(shuffled, val.y))
    if not lowest <= FITS * beside_shuffled:
        return None
    right, mixed = scores(evidence, best), scores(evidence, shuffled)
    for name in names:
        if mixed[name] < right[name] < ENOUGH:
            losses = f"loss {lowest:.2g}, beside other examples' {beside_shuffled:.2g}"
            text = f"outputs that fit validation's targets ({losses}) get '{name}' {right[name]:.2f}"
            text += ": it reads outputs otherwise than the loss does"
            return Finding(None, text, {"score": right[name]}, certain=False, where="metric")
    return None
