"""Rungs 5 and 6, by comparison: learning rate, length of the run, memorising."""

from __future__ import annotations

import math
from statistics import median

from .._engine.assumptions import NotAskedError
from .._engine.changes import learning_rate_of, learning_rate_times
from .._engine.comparing import confirmed, nothing, room, trials
from .._engine.events import Step
from .._engine.evidence import Evidence
from .._engine.trials import SEEDS, Gain
from .finding import Finding
from .loop_rules import always_clipped, looked

FACTORS = (0.1, 0.01, 10.0, 100.0, 1e4, 1e6)  # of the learning rate
CURVE = 4  # epochs; of fewer no curve shows whether it still falls
LONGER = 0.2  # smallest gain of a longer run, as a share of a constant answer's loss; a little it always brings


def rate(evidence: Evidence) -> float:
    """The median rate of the run."""
    rates = [step.learning_rates[0] for step in evidence.run.recording.of(Step) if step.learning_rates]
    return median(rates) if rates else math.nan


def learning_rate(evidence: Evidence) -> Finding | None:
    """H01, H02, G15: another rate, tenfold at least, learns better; always clipped steps are too short ones."""
    steps = looked(evidence.run.recording)
    if not room(evidence) or not steps:
        return None
    best: tuple[float, float] | None = None
    for factor in FACTORS:
        loss = trials(evidence).loss(0, learning_rate_times(factor))
        if best is None or loss < best[1]:
            best = (factor, loss)
    assert best is not None
    factor = best[0]
    if not trials(evidence).worth(learning_rate_times(factor)):
        return None
    gain = trials(evidence).gain(learning_rate_times(factor))
    if not gain.real:
        return None
    if factor > 1 and _only_short(evidence, gain):
        return None
    if factor > 1 and (left := always_clipped(evidence.run.recording)):
        sign = f"gradients are clipped to {left:.2g} of their length in every step"
        return Finding("G15", f"{sign}; steps {factor:g} times as long: {gain}", {"gain": gain.share}, False)
    fault = "H01" if factor < 1 else "H02"
    new = rate(evidence) * factor
    return Finding(
        fault,
        f"with a rate of {new:.2g} in place of {rate(evidence):.2g}: {gain}",
        {"rate": new, "gain": gain.share},
        False,
    )


def _only_short(evidence: Evidence, gain: Gain) -> bool:
    """Whether the run as it is does as well when it is merely longer: then the rate is not to blame."""
    longer = trials(evidence).loss(0, epochs=5 * trials(evidence).epochs)
    return longer < gain.after + 0.05 * trials(evidence).constant


def too_short(evidence: Evidence) -> Finding | None:
    """H04: both losses still fall at the end, and a longer run is clearly better in validation."""
    rows = evidence.run.rows
    if len(rows) < 2 or evidence.val is None or not room(evidence):
        return None
    losses = [row.val_loss for row in rows]
    third = max(1, len(losses) // 3)
    fall = median(losses[-2 * third : -third] or losses[:1]) - median(losses[-third:])
    if not (fall > 0.02 * trials(evidence).constant or len(rows) < CURVE):
        return None
    rates = [step.learning_rates[0] for step in evidence.run.recording.of(Step) if step.learning_rates]
    if not rates:
        raise NotAskedError("no step of an optimizer is seen")
    sign, longer = f"after {len(rows)} epochs", 4 * trials(evidence).epochs
    same = learning_rate_of(max(rates))
    return confirmed(evidence, "H04", sign, nothing, same, validation=True, longer=longer, effect=LONGER)


def memorised(evidence: Evidence) -> Finding | None:
    """A21: validation loss turned, and rose beyond what chance does, while training loss went on falling."""
    rows, val = evidence.run.rows, evidence.val
    losses = [row.val_loss for row in rows]
    if len(losses) < 4 or val is None or not all(map(math.isfinite, losses)):
        return None
    best = min(range(len(losses)), key=losses.__getitem__)
    rise = (losses[-1] - losses[best]) / evidence.constant_loss
    falling = rows[-1].train_loss < rows[best].train_loss
    # Where training examples are known by heart, nothing more can come of it, and a small rise is enough.
    smallest = 0.05 if rows[-1].train_loss < 0.01 * evidence.constant_loss else 0.15
    if best > 0.7 * len(losses) or rise < smallest or not falling or losses[-1] < 1.2 * losses[best]:
        return None
    if evidence.cooled(evidence.run.outputs[1], val.y) < 0.6 * losses[best]:
        return None  # it is the confidence that is off
    others = [
        (trials(evidence).plain(seed, True), trials(evidence).plain(seed, True, best + 1)) for seed in range(1, SEEDS)
    ]
    if any(end - then < smallest / 2 * evidence.constant_loss for end, then in others):
        return None
    return Finding(
        "A21",
        f"validation loss is lowest after epoch {best + 1}, {losses[best]:.3g}, and {losses[-1]:.3g} at the end, while "
        f"training loss falls to {rows[-1].train_loss:.3g}; stopping there saves {losses[-1] - losses[best]:.3g}",
        {"best_epoch": best + 1, "rise": rise},
        False,
    )
