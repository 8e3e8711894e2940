"""Rung 1: whether what was not known yet is among the inputs."""

from __future__ import annotations

import numpy as np

from .._engine.evidence import Evidence
from .._engine.run_data import Examples
from .finding import Finding

REACH = 7  # rows before and after
EXACT = 0.99  # R² of a column that is made of targets
LEFT = 0.1  # of what earlier targets leave unexplained: seasons let later ones explain a little more


def knows_the_future(evidence: Evidence) -> Finding | None:
    """D21: a column is a linear function of targets around its row, and not of those before it alone."""
    for examples, times in ((evidence.val, evidence.spec.val_times), (evidence.train, evidence.spec.train_times)):
        if examples is None or times is None or len(times) != len(examples.y) or not _in_order(examples, times):
            continue
        y = examples.y.reshape(len(examples.y), -1)
        if evidence.spec.task != "regression" or y.shape[1] != 1 or len(y) < 10 * REACH:
            return None
        target, x = np.asarray(y[:, 0].double()), examples.flat()
        rows = np.arange(REACH, len(target) - REACH)
        past = np.stack([target[rows - lag] for lag in range(1, REACH + 1)], axis=1)
        later = np.stack([target[rows + lead] for lead in range(REACH + 1)], axis=1)
        for number in np.flatnonzero(x.std(axis=0) > 0):
            before = explained(past, x[rows, number])
            both = explained(np.concatenate([past, later], axis=1), x[rows, number])
            alone = explained(later[:, :1], x[rows, number])
            if both > EXACT and alone < EXACT and 1 - both < LEFT * (1 - before):
                return Finding(
                    "D21",
                    f"column {number} is made of targets of its own and later rows (R² {both:.3f}; of earlier ones "
                    f"alone {before:.2f}): at that time they were not known",
                    {"column": int(number)},
                    # Where only rounding is left, the column is a formula of targets.
                    certain=1 - both < 1e-6,
                )
        return None
    return None


def _in_order(examples: Examples, times: object) -> bool:
    order = np.asarray(times, dtype=float)
    return bool((np.diff(order) >= 0).all())


def explained(x: np.ndarray, y: np.ndarray) -> float:
    """R² of a linear fit, the second half of the rows by the first."""
    half = len(y) // 2
    learning, held_out = (np.concatenate([part, np.ones((len(part), 1))], axis=1) for part in (x[:half], x[half:]))
    weights = np.linalg.lstsq(learning, y[:half], rcond=None)[0]
    return 1 - float(((held_out @ weights - y[half:]) ** 2).mean() / max(y[half:].var(), 1e-12))
