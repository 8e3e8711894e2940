"""Rung 3: what lowers the loss must not make the score worse, once every answer is right."""

from __future__ import annotations

import math

import torch

from .._engine.evidence import Evidence
from .._engine.yardstick import MOVES, descent
from .finding import Finding
from .metric_rules import LEAST, QUALITIES, SAME, answers, refuse_unknown, scores

LOST = 0.1  # of what right answers score above random ones


def leads_away_from_right_answers(evidence: Evidence) -> Finding | None:
    """Beyond right answers the loss falls, towards outputs that the author's own metric or evaluation scores lower.

    Outputs are free here, as if the model could give any. Nothing is said where right answers do not score best.
    """
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.loss_fn is None or val is None or outputs is None or len(outputs) < LEAST:
        return None
    y = val.y[: len(outputs)]
    refuse_unknown(evidence, outputs, y)
    right, *_, random = answers(outputs, y, 0)[: len(QUALITIES)]
    rate = 0.1 * float(right.std()) if y.is_floating_point() else 0.1
    # Each output comes from its own place: where a score has a threshold, all may end up on the same side of it.
    start = right + rate * torch.randn(right.shape, generator=torch.Generator().manual_seed(0))
    before = float(evidence.own_loss(right, y))
    after, lowest = min(descent(evidence.own_loss, start, outputs, y, rate, MOVES), key=lambda step: step[0])
    if not after < before - SAME * abs(before):
        return None
    of_right, of_lowest, of_random = (scores(evidence, answer) for answer in (right, lowest, random))
    for name, best in of_right.items():
        if math.isfinite(of_lowest[name]) and best - of_lowest[name] > LOST * (best - of_random[name]) > 0:
            numbers = f"from {before:.4g} to {after:.4g}", f"from {abs(best):.3g} to {abs(of_lowest[name]):.3g}"
            text = f"beyond right answers the loss falls {numbers[0]}, and '{name}' gets worse, {numbers[1]}"
            return Finding(
                None, text, {"losses": [before, after], "scores": [best, of_lowest[name]]}, certain=False, where="loss"
            )
    return None
