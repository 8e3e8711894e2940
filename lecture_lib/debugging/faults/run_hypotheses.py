"""Rung 6, by comparison: memorising."""

from __future__ import annotations

import math

from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .finding import Finding

BETTER = 0.1  # relative; a metric that has risen by so much since the lowest validation loss


def memorised(evidence: Evidence) -> Finding | None:
    """A21: validation loss turned, and rose beyond what chance does, while training loss went on falling."""
    rows, val = evidence.run.rows, evidence.val
    losses = [row.val_loss for row in rows]
    if len(losses) < 4 or val is None or not all(map(math.isfinite, losses)):
        return None
    best = min(range(len(losses)), key=losses.__getitem__)
    rise = (losses[-1] - losses[best]) / evidence.constant_loss
    falling = rows[-1].train_loss < rows[best].train_loss
    # Where training examples are memorised, nothing more can come of it, and a small rise is enough.
    smallest = 0.05 if rows[-1].train_loss < 0.01 * evidence.constant_loss else 0.15
    if best > 0.7 * len(losses) or rise < smallest or not falling or losses[-1] < 1.2 * losses[best]:
        return None
    scores = [row.val_metric for row in rows]
    if scores[-1] - scores[best] > BETTER * max(abs(scores[-1]), abs(scores[best])):
        return None  # what counts went on getting better
    if evidence.cooled(evidence.run.outputs[1], val.y) < 0.6 * losses[best]:
        return None  # it is the confidence that is off
    # The rise must come with other seeds too: which epoch is best was chosen on this one.
    if any(_rise(evidence, seed, best + 1) < smallest / 2 * evidence.constant_loss for seed in (1, 2)):
        return None
    return Finding(
        "A21",
        f"validation loss is lowest after epoch {best + 1}, {losses[best]:.3g}, and {losses[-1]:.3g} at the end, while "
        f"training loss falls to {rows[-1].train_loss:.3g}; stopping there saves {losses[-1] - losses[best]:.3g}",
        {"best_epoch": best + 1, "rise": rise},
        False,
    )


def _rise(evidence: Evidence, seed: int, best: int) -> float:
    """How much validation loss rises from the epoch that is best with the first seed up to the end, with another."""
    with untouched(evidence.program, evidence.seed + seed) as program:
        for _ in range(best):
            program.run_epoch()
        then = evidence.measure(evidence.val)[0]
        for _ in range(len(evidence.run.rows) - best):
            program.run_epoch()
        return evidence.measure(evidence.val)[0] - then
