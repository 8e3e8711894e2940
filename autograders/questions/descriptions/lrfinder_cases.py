"""What 03a-lrfinder is described by: problems, and a sweep done by hand, rightly or with a known mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import draw_until

DIVERGED = 4.0
MODULES = ("the model", "track", "track.0", "track.0.0", "linear")
MODES = {"train": [True] * 5, "eval": [False] * 5, "mixed": [True, False, True, False, True]}


def rates_of(inputs: Inputs, spacing: str = "exponential") -> np.ndarray:
    """The rates of a sweep, [steps]."""
    start, stop, steps = inputs["start"], inputs["stop"], inputs["steps"]
    if spacing == "linear":
        return np.linspace(start, stop, steps)
    factor = {"exponential": (stop / start) ** (1 / (steps - 1)), "one step short": (stop / start) ** (1 / steps)}
    return np.asarray(start * factor.get(spacing, 1.05) ** np.arange(steps))


def sweep(
    inputs: Inputs,
    *,
    spacing: str = "exponential",
    record: str = "before",
    zero: str = "before backward",
    mode: str = "train",
    learn: bool = True,
    stop: str = "both",
    than: str = "lowest",
    keep_end: bool = False,
    runs: str = "again",
    frozen: str = "by its gradient",
) -> dict[str, Any]:
    """The curve of a sweep that is done as the arguments say: log10_rates and losses, [N]."""
    w, b, mean = inputs["weight"].copy(), inputs["bias"].copy(), inputs["running_mean"].copy()
    training = {"train": True, "eval": False}.get(mode, all(inputs["modes"]))
    rounded = max(1, round(inputs["steps"] / len(inputs["x"])))
    most = len(inputs["x"]) * {"again": inputs["steps"], "once": 1, "rounded": rounded}[runs]
    gradient = [np.ones_like(w), np.ones_like(b)] if zero != "before backward" else [0.0 * w, 0.0 * b]
    # The frozen parameter has the gradient 1 from before the sweep, and gets no other.
    shift, slides = 0.0, {"stays": 0, "always": most, "by its gradient": {"never": most, "after": 1}.get(zero, 0)}
    recorded: list[float] = []
    losses: list[float] = []
    for step, rate in enumerate(rates_of(inputs, spacing)[:most]):
        x, y = (inputs[name][step % len(inputs["x"])] for name in ("x", "y"))
        with np.errstate(over="ignore", invalid="ignore"):
            if training:
                mean = 0.9 * mean + 0.1 * x.mean(0)
            centred = x - (x.mean(0) if training else mean)
            loss, slope = loss_of(centred @ w.T + b + shift, y, inputs["penalty"])
            fresh = [slope.T @ centred, slope.sum(0)]
            gradient = [old + new for old, new in zip(gradient, fresh, strict=True)]
            new_w, new_b = w - learn * rate * gradient[0], b - learn * rate * gradient[1]
            shift -= learn * rate * (step < slides[frozen])
            loss_to_record = (
                loss if record == "before" else loss_of(centred @ new_w.T + new_b + shift, y, inputs["penalty"])[0]
            )
            limit = DIVERGED * compared(losses, than)
        gradient = gradient if zero == "never" else [0.0 * w, 0.0 * b]
        ends = {"never": False, "divergence": loss_to_record > limit, "not finite": not np.isfinite(loss_to_record)}
        ends["equal"] = loss_to_record >= limit or ends["not finite"]
        ended = ends.get(stop, ends["divergence"] or ends["not finite"])
        if not ended or keep_end:
            recorded.append(rate)
            losses.append(loss_to_record)
        if ended:
            break
        w, b = new_w, new_b
    # A loss that is not finite is observed as -1.
    return {"log10_rates": np.log10(recorded), "losses": np.where(np.isfinite(losses), losses, -1.0)}


def compared(losses: Sequence[float], than: str) -> float:
    """The loss before the next one that decides whether the sweep has diverged."""
    return {"lowest": min(losses), "first": losses[0], "last": losses[-1]}[than] if losses else np.inf


def loss_of(outputs: np.ndarray, labels: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """The loss and its slope in the outputs [B, 1]."""
    error = outputs - labels
    loss = float((error**2).mean() + penalty * (outputs**2).mean())
    return loss, 2 * (error + penalty * outputs) / len(outputs)


FULL, DIVERGING, NOT_FINITE = "to the upper end", "a diverging loss", "a loss that is not finite"
EXACT, ZERO = "a loss of exactly 4 times the lowest", "two losses of 0"


def by_hand(targets: Sequence[float], flat: Sequence[int] = (), **how: Any) -> dict[str, Any]:
    """One weight on inputs 2 and 4, whose mean the model takes away: with labels ±t the loss is (w - t)².

    A step at rate r multiplies w - t by 1 - 2r. The batches named in `flat` have the input 3 twice: their loss is t²
    and their gradient 0. A target that is NaN gives a NaN among the inputs.
    """
    x = [[3.0, 3.0] if at in flat else [2.0, np.nan if np.isnan(target) else 4.0] for at, target in enumerate(targets)]
    return {
        "x": [np.array(rows).reshape(-1, 1) for rows in x],
        "y": [np.array([[-1.0], [1.0]]) * np.nan_to_num(target, nan=1.0) for target in targets],
        "penalty": 0.0,
        "weight": np.zeros((1, 1)),
        "bias": np.zeros(1),
        "running_mean": np.zeros(1),
        **how,
    }


def exact(rng: np.random.Generator, sweeps: str, modes: str) -> dict[str, Any]:
    """A sweep whose losses decide by hand: exactly 4 times the lowest, a thousandth less, a thousandth more at the end.

    Or a loss of 0, twice, before one that is larger.
    """
    unit, start = float(rng.integers(2, 20)) / 8, float(rng.uniform(0.003, 0.005))
    how = {"modes": list(MODES[modes]), "start": start, "stop": 5 * start}
    if sweeps == ZERO:
        return by_hand([unit, unit, 0.0, 0.0, unit], (2, 3), steps=8, **how)
    below, above = (2 * unit * np.sqrt(share) for share in (0.999, 1.001))
    targets = [1.5 * unit, 1.5 * unit, unit, 2 * unit, below, *[1.5 * unit] * 8, above]  # the lowest is long past
    return by_hand(targets, range(2, 14), steps=14, **how)


def problem(
    rng: np.random.Generator, sweeps: str, modes: str, batches: int | None = None, steps: int | None = None
) -> dict[str, Any]:
    """A sweep that goes to its end or ends early, far from the threshold at every step.

    Where a sweep with more batches than steps diverges, a loss is 3.4 times the lowest before it, and a later one, 4.6
    times as large, ends the sweep.
    """
    if sweeps in (EXACT, ZERO):
        return exact(rng, sweeps, modes)
    fits = ends_apart if sweeps == DIVERGING else goes_to_its_end

    def one() -> dict[str, Any]:
        inputs = any_problem(rng, sweeps, modes, batches, steps)
        if sweeps != DIVERGING or batches is None:
            return inputs
        return with_multiple(with_multiple(inputs, int(rng.integers(4, 7)), 3.4), int(rng.integers(8, 13)), 4.6)

    return draw_until(one, fits, most=3000)


def with_multiple(inputs: dict[str, Any], step: int, multiple: float) -> dict[str, Any]:
    """The labels of one step's batch moved until its loss is so many times the lowest before it."""

    def moved(by: float) -> dict[str, Any]:
        y = list(inputs["y"])
        y[step] = y[step] + by
        return {**inputs, "y": y}

    losses, further = (sweep(moved(by), stop="never")["losses"] for by in (0.0, 1.0))
    slope, gap = further[step] - losses[step] - 1, losses[step] - multiple * min(losses[:step])
    return moved(float(-slope + np.sqrt(max(slope**2 - 4 * gap, 0.0))) / 2)


def any_problem(
    rng: np.random.Generator, sweeps: str, modes: str, batches: int | None, steps: int | None
) -> dict[str, Any]:
    features, count = 3, batches or int(rng.integers(3, 7))
    true_weight, centre = 2 * rng.normal(size=(1, features)), rng.uniform(1.0, 2.0, features)
    x = [rng.normal(size=(int(rng.integers(11, 16)), features)) + centre for _ in range(count)]
    y = [(rows - centre) @ true_weight.T + 2 + rng.normal(size=(len(rows), 1)) for rows in x]
    if sweeps == NOT_FINITE:
        x[-1][0, 0] = np.nan
    diverges = sweeps == DIVERGING and batches is None
    return {
        "x": x,
        "y": y,
        "penalty": float(rng.uniform(0.05, 0.2)),
        "weight": rng.normal(size=(1, features)),
        "bias": rng.normal(size=1),
        "running_mean": centre + rng.normal(size=features),
        "modes": list(MODES[modes]),
        "start": float(10 ** rng.uniform(*((-2.0, -1.3) if diverges else (-3.3, -2.5)))),
        "stop": float(rng.uniform(*((5.0, 20.0) if diverges else (0.004, 0.012)))),
        "steps": steps or int(rng.integers(18, 27)),
    }


def ratios(losses: np.ndarray) -> np.ndarray:
    """Each loss as a multiple of the lowest before it, 0 for the first."""
    return np.concatenate([[0.0], losses[1:] / np.minimum.accumulate(losses)[:-1]])


def ends_apart(inputs: Inputs) -> bool:
    """Whether the loss diverges clearly, and at another step than by another comparison."""
    multiples = ratios(sweep(inputs, stop="not finite")["losses"])
    ended = np.flatnonzero(multiples > 0.91 * DIVERGED)
    first = int(ended[0]) if len(ended) else 0
    if not 4 <= first < inputs["steps"] - 2 or multiples[first] < 1.1 * DIVERGED:
        return False
    return all(len(sweep(inputs, than=than)["losses"]) != first for than in ("first", "last"))


def goes_to_its_end(inputs: Inputs) -> bool:
    """Whether the right sweep and those whose losses are wrong are equally long, so that they lose no points for rates.

    The losses of the others must differ clearly.
    """
    right, full = sweep(inputs)["losses"], sweep(inputs, stop="not finite")["losses"]
    variants: list[dict[str, Any]] = [{"zero": "never"}, {"zero": "after"}, {"mode": "eval"}, {"record": "after"}]
    variants.append({"frozen": "always"})
    variant_losses = [sweep(inputs, **how)["losses"] for how in variants]
    return not (ratios(full) > 0.91 * DIVERGED).any() and all(
        len(losses) == len(right) and np.abs(losses - right).max() > 1e-4 * max(right) for losses in variant_losses
    )
