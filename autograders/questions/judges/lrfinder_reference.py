"""What 03a-lrfinder is judged by: problems and curves, and a sweep done by hand, rightly or with a known mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

Inputs = Any  # a case's inputs; see the public half
_FEATURES = 3
_MODES = {"train": [True] * 4, "eval": [False] * 4, "mixed": [True, True, True, False]}
DIVERGED = 4.0
LEAST_FALL = 0.1


def problem(rng: np.random.Generator, kind: str, modes: str) -> dict[str, Any]:
    """A sweep that goes to its end or ends early, far from the threshold at every step."""
    for _ in range(1000):
        inputs = _draw(rng, kind, modes)
        ratios = _ratios(sweep(inputs, stop="not finite")["losses"])
        ended = np.flatnonzero(ratios > 0.9 * DIVERGED)
        if kind == "a diverging loss":
            # Where an unstopped sweep overflows or a mistaken one stops elsewhere, that is its own business.
            fits = 6 <= (first := int(ended[0]) if len(ended) else 0) < inputs["steps"] - 2 and ratios[first] > 4.4
        else:
            # Nor do the mistakes that concern the losses end it early: they cost no points for the rates.
            variants: list[dict[str, Any]] = [{"zero": False}, {"mode": "eval"}, {"record": "after"}]
            lengths = {len(sweep(inputs, **how)["losses"]) for how in variants}
            fits = not len(ended) and lengths == {len(ratios)}
        if fits:
            return inputs
    raise RuntimeError(f"no sweep of the kind {kind!r} in 1,000 draws")


def _draw(rng: np.random.Generator, kind: str, modes: str) -> dict[str, Any]:
    batches, steps = int(rng.integers(4, 7)), int(rng.integers(18, 27))
    true_weight, centre = 2 * rng.normal(size=(1, _FEATURES)), rng.uniform(1.0, 2.0, _FEATURES)
    x = [rng.normal(size=(int(rng.integers(6, 10)), _FEATURES)) + centre for _ in range(batches)]
    y = [(rows - centre) @ true_weight.T + 2 + rng.normal(size=(len(rows), 1)) for rows in x]
    if kind == "a loss that is not finite":
        x[-1][0, 0] = np.nan
    return {
        "x": x,
        "y": y,
        "weight": rng.normal(size=(1, _FEATURES)),
        "bias": rng.normal(size=1),
        "running_mean": centre + rng.normal(size=_FEATURES),
        "modes": list(_MODES[modes]),
        "start": float(10 ** rng.uniform(-6, -4)),
        "stop": float(rng.uniform(5.0, 20.0) if kind == "a diverging loss" else rng.uniform(0.01, 0.03)),
        "steps": steps,
    }


def _ratios(losses: np.ndarray) -> np.ndarray:
    """Each loss as a multiple of the lowest before it, 0 for the first."""
    lowest = np.minimum.accumulate(losses)
    return np.concatenate([[0.0], losses[1:] / lowest[:-1]])


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
    zero: bool = True,
    mode: str = "train",
    learn: bool = True,
    stop: str = "both",
    keep_end: bool = False,
) -> dict[str, Any]:
    """The curve and the final state of a sweep, done as the arguments say: log10_rates, losses [N], weights, mean."""
    w, b, mean = inputs["weight"].copy(), inputs["bias"].copy(), inputs["running_mean"].copy()
    training = mode == "train"
    gradient = [np.zeros_like(w), np.zeros_like(b)]
    recorded, losses, lowest = [], [], np.inf
    for step, rate in enumerate(rates_of(inputs, spacing)):
        x, y = (inputs[name][step % len(inputs["x"])] for name in ("x", "y"))
        if training:
            mean = 0.9 * mean + 0.1 * x.mean(0)
        centred = x - (x.mean(0) if training else mean)
        with np.errstate(over="ignore", invalid="ignore"):
            error = centred @ w.T + b - y
            loss = float((error**2).mean())
            fresh = [2 * error.T @ centred / len(x), 2 * error.mean(0)]
            gradient = fresh if zero else [old + new for old, new in zip(gradient, fresh, strict=True)]
            new_w, new_b = w - learn * rate * gradient[0], b - learn * rate * gradient[1]
            shown = loss if record == "before" else float(((centred @ new_w.T + new_b - y) ** 2).mean())
        ends = {"never": False, "divergence": shown > DIVERGED * lowest, "not finite": not np.isfinite(shown)}
        if ends.get(stop, ends["divergence"] or ends["not finite"]):
            if keep_end:
                recorded.append(rate)
                losses.append(shown)
            break
        w, b, lowest = new_w, new_b, min(lowest, shown)
        recorded.append(rate)
        losses.append(shown)
    return {"log10_rates": np.log10(recorded), "losses": np.asarray(losses), "weights": [w, b], "mean": mean}


def finals(inputs: Inputs, *, weights: bool = False, buffers: bool = False, modes: str = "") -> dict[str, Any]:
    """The model's state after a sweep that put everything back except what the arguments say."""
    after = sweep(inputs)
    left = {"train": [True] * 4, "eval": [False] * 4, "root": [inputs["modes"][0]] * 4}
    return {
        "weights": after["weights"] if weights else [inputs["weight"], inputs["bias"]],
        "running_mean": after["mean"] if buffers else inputs["running_mean"],
        "modes": [np.asarray(flag) for flag in left.get(modes, inputs["modes"])],
    }


def curve(rng: np.random.Generator, shape: str) -> dict[str, Any]:
    """A finder's curve of that shape, on which the known rules disagree by a fifth of a decade or more."""
    while True:
        inputs = _curve(rng, shape)
        if shape in ("never falls", "only rises"):
            return inputs
        chosen = [choose(inputs, rule=rule) for rule in ("decade", "minimum", "step before", "steepest")]
        if None not in chosen and min(abs(a - b) for i, a in enumerate(chosen) for b in chosen[:i]) > 0.2:
            return inputs


def _curve(rng: np.random.Generator, shape: str) -> dict[str, Any]:
    count, top = int(rng.integers(12, 24)), rng.uniform(2.0, 4.0)
    logs = np.linspace(rng.uniform(-7, -6), rng.uniform(-1, 1), count)
    noise = 1 + 0.01 * rng.uniform(-1, 1, count)
    way = np.linspace(0, 1, count)
    fall = rng.uniform(0.4, 0.8) / (1 + np.exp(-20 * (way - rng.uniform(0.3, 0.5))))
    losses = top * (1 - fall) * noise
    if shape == "falls, then diverges":
        late = way > (edge := rng.uniform(0.75, 0.9))
        losses[late] *= 1 + (way[late] - edge) / (1 - edge) * 12
        losses[-1] = top * rng.uniform(1.5, 3.0)
    elif shape == "falls":  # the end is above the minimum and below the start
        losses[-1] = 0.5 * (losses.min() + top)
    elif shape == "still falls at the end":
        losses = top * (1 - rng.uniform(0.5, 0.7) * (1 - np.exp(-3 * way))) * noise
        losses[-1] = 0.97 * losses.min()
    elif shape == "never falls":
        losses = top * (1 + 0.025 * rng.uniform(-1, 1, count))
        losses[-1] = 0.98 * losses[0]
    else:  # only rises
        losses = top * (1 + rng.uniform(0.5, 2.0) * way**3) * noise
    return {"curve_rates": [float(rate) for rate in 10**logs], "curve_losses": [float(loss) for loss in losses]}


def choose(inputs: Inputs, *, rule: str = "decade", always: bool = False, fall: str = "lowest") -> Any:
    """log10 of the chosen rate, or None; as the arguments say."""
    logs, losses = np.log10(inputs["curve_rates"]), np.asarray(inputs["curve_losses"])
    lowest = int(losses.argmin())
    level = losses[lowest] > (1 - LEAST_FALL) * losses[0] if fall == "lowest" else losses[-1] >= losses[0]
    if level and not always:
        return None
    at = {
        "minimum": lowest,
        "step before": max(lowest - 1, 0),
        "steepest": 1 + int(np.diff(losses).argmin()),
    }
    return float(logs[lowest] - 1) if rule == "decade" else float(logs[at[rule]])
