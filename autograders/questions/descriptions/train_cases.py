"""What 03a-train is described by: runs of training by hand, rightly or with a known mistake, and the draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..cases import Case, draw_until

Array = np.ndarray


@dataclass(frozen=True)
class Epoch:
    """What is there after an epoch: validation loss, weights [2, F], and the buffers: a running mean and a count."""

    loss: float
    weights: Array
    buffers: Array


def run(
    case: Case,
    zero: Literal["before backward", "once an epoch", "never", "before the step"] = "before backward",
    step: Literal["after backward", "before backward", "before forward"] = "after backward",
    train: Literal["every epoch", "before the loop", "after an epoch", "never"] = "every epoch",
    calls: int = 1,
    validate: Literal["eval", "train"] = "eval",
    mean: Literal["examples", "batches", "last batch", "whole batches"] = "examples",
    exchanged: tuple[str, ...] = (),
) -> list[Epoch]:
    """The epochs of a run done as the arguments say."""
    inputs = case.inputs
    weights = np.array(inputs["weights"], dtype=np.float64)
    gradient, velocity = np.zeros_like(weights), np.zeros_like(weights)
    mean_seen, batches, epochs = np.zeros(weights.shape[1]), 0, []

    def errors(at: Array, x: Array, y: Array, phase: str) -> tuple[Array, Array]:
        """The errors of examples, and how much each counts."""
        error = x @ at.sum(axis=0) - y[:, 0]
        return error, np.where((error < 0) if phase in exchanged else (error > 0), inputs["above"], 1.0)

    for number in range(inputs["epochs"]):
        came_in_eval = not inputs["training"] and train in ("never", "after an epoch")
        left_in_eval = came_in_eval if number == 0 else train in ("never", "before the loop")
        gradient = 0.0 * gradient if zero == "once an epoch" else gradient
        # The branch behind dropout learns only where the model was left in eval mode.
        branch_gates = np.array([1.0, float(left_in_eval)])[:, None]
        for x, y in zip(inputs["x"], inputs["y"], strict=True):
            before = weights
            if step != "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
            for _ in range(0 if left_in_eval else calls):
                mean_seen, batches = (mean_seen + x.mean(axis=0)) / 2, batches + 1
            error, counts = errors(branch_gates * (before if step == "before backward" else weights), x, y, "training")
            new = branch_gates * (2 / len(x)) * (counts * error) @ x
            gradient = {"before backward": new, "before the step": np.zeros_like(new)}.get(zero, gradient + new)
            if step == "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
        losses = []
        for x, y in zip(inputs["x_val"], inputs["y_val"], strict=True):
            error, counts = errors(np.array([1.0, float(validate == "eval")])[:, None] * weights, x, y, "validation")
            losses.append(counts * error**2 - inputs["lowered"])
            if validate == "train":
                mean_seen, batches = (mean_seen + x.mean(axis=0)) / 2, batches + 1
        by_batch = [float(part.mean()) for part in losses]
        means = {"examples": np.concatenate(losses).mean(), "batches": np.mean(by_batch), "last batch": by_batch[-1]}
        means["whole batches"] = np.concatenate([part for part in losses if len(part) >= len(losses[0])]).mean()
        epochs.append(Epoch(float(means[mean]), weights, np.array([*mean_seen, batches])))
    return epochs


def best(epochs: list[Epoch]) -> Epoch:
    return min(epochs, key=lambda epoch: epoch.loss)


def worst(epochs: list[Epoch]) -> Epoch:
    return max(epochs, key=lambda epoch: epoch.loss)


MIDDLE, AGAIN, OTHER, ONE = "best in the middle", "the loss falls again", "best at an end", "one epoch"
CLOSE, ZERO = "two epochs nearly share the lowest loss", "a loss of exactly 0"


def drawn(rng: np.random.Generator, kind: str, sizes: Any, momentum: float = 0.0, **how: Any) -> Case:
    """A run whose largest validation batch suits the epoch number `fits`, and the others the last epoch."""
    epochs, fits, scale = how.pop("epochs", 6), how.pop("fits", 0), how.pop("scale", 1.0)
    features, train_sizes = how.pop("features", 3), how.pop("train_sizes", None)
    true_weight = rng.normal(size=features)
    train_sizes = rng.integers(2, 8, size=3) if train_sizes is None else train_sizes
    x = [rng.normal(size=(size, features)) for size in train_sizes]
    x_val = [scale * rng.normal(size=(size, features)) for size in sizes]
    inputs: dict[str, Any] = {
        "x": x,
        "y": [(rows @ true_weight)[:, None] + 0.1 * rng.normal(size=(len(rows), 1)) for rows in x],
        "weights": rng.normal(size=(2, features)),
        "training": True,
        "learning_rate": float(rng.uniform(0.02, 0.05)),
        "momentum": momentum,
        "above": 2.0,
        "lowered": 0.0,
        "afterwards": float(rng.uniform(5.0, 9.0)),
        "epochs": epochs,
        "x_val": x_val,
        "y_val": [np.zeros((len(rows), 1)) for rows in x_val],
        **how,
    }
    after = [epoch.weights.sum(axis=0) for epoch in run(Case(kind, inputs))]
    noise = scale * (2.0 if kind == OTHER else 0.1)
    inputs["y_val"] = [
        (rows @ after[fits if len(rows) == max(sizes) else -1])[:, None] + noise * rng.normal(size=(len(rows), 1))
        for rows in x_val
    ]
    return Case(kind, inputs)


def nearly_shared(rng: np.random.Generator, first: int, second: int, above: float) -> Case:
    """A run in which a share of 4e-6 decides which of two epochs has the lowest loss, on one validation example."""
    case = drawn(rng, CLOSE, [1], 0.9, above=1.0, learning_rate=0.1)
    (x,), epochs = case.inputs["x_val"], run(case)
    first_output, second_output = (float((x @ epochs[number].weights.sum(axis=0))[0]) for number in (first, second))
    middle = (first_output + second_output) / 2 + above * 5e-7 * (second_output - first_output)
    return Case(CLOSE, {**case.inputs, "y_val": [np.array([[middle]])]})


def is_shared(case: Case) -> bool:
    """Whether the third lowest loss is far above the two lowest, and the last epoch is neither of these."""
    losses = [epoch.loss for epoch in run(case)]
    first, second, third = np.argsort(losses)[:3]
    return (
        0.05 < losses[first] < 0.5
        and losses[second] < 1.00001 * losses[first]
        and losses[third] > losses[first] + 1e-2
        and len(losses) - 1 not in (first, second)
    )


def reaches_zero(rng: np.random.Generator) -> Case:
    """One input 1, whose weight goes half of its way to the label in each epoch: all losses are exact."""
    start, label, dropped = (float(number) / 4 for number in rng.choice(np.arange(-20, 20), 3, replace=False))
    zero_at = dropped + label + (start - label) / 4
    inputs = visible(ZERO, [column(1)], [column(zero_at)], epochs=int(rng.integers(3, 6))).inputs
    return Case(ZERO, {**inputs, "y": [column(label)], "weights": np.array([[start], [dropped]])})


def lowest(epochs: list[Epoch]) -> int:
    return epochs.index(best(epochs))


def by_margin(case: Case) -> bool:
    """Whether one epoch is clearly the best, also where the loss was given its arguments in the wrong order."""
    losses = sorted(epoch.loss for epoch in run(case))
    wrongly = run(case, exchanged=("validation",))
    return lowest(wrongly) == lowest(run(case)) and (len(losses) < 2 or losses[1] - losses[0] > 1e-2)


def above_one(case: Case) -> bool:
    return by_margin(case) and best(run(case)).loss > 1.1


def last_decides(case: Case) -> bool:
    """Whether the last epoch is the best one, and would not be without the last, shorter validation batch."""
    return above_one(case) and lowest(run(case)) == 5 and lowest(run(case, mean="whole batches")) < 5


def last_fall(case: Case) -> int:
    """The last epoch whose loss is clearly below that of the epoch before."""
    return int(np.flatnonzero(np.diff([epoch.loss for epoch in run(case)]) < -1e-2).max(initial=-1)) + 1


def long_wait(epochs: list[Epoch]) -> bool:
    """Whether the best epoch comes after three in a row that were clearly worse than one before them."""
    return lowest(epochs) > 4 and min(epoch.loss for epoch in epochs[2:5]) > best(epochs[:2]).loss + 1e-2


def tells_apart(case: Case) -> bool:
    """Whether the best epoch is in the middle by a margin, and every mistake shows."""
    epochs = run(case)
    at, highest = lowest(epochs), epochs.index(worst(epochs))
    if not by_margin(case) or at in (0, len(epochs) - 1) or highest == len(epochs) - 1:
        return False
    for how in VALIDATION:
        mistaken = run(case, **how)
        first, second = sorted(epoch.loss for epoch in mistaken)[:2]
        if lowest(mistaken) in (at, highest) or second - first < 1e-3:
            return False
    lasts = [run(case, **how)[-1].weights for how in ({}, *WEIGHTS)]
    gaps = [float(np.abs(a - b).max()) for i, a in enumerate(lasts) for b in lasts[:i]]
    return bool(np.isfinite(lasts).all()) and min(gaps) > 1e-2


VALIDATION: tuple[dict[str, Any], ...] = ({"mean": "batches"}, {"mean": "last batch"}, {"validate": "train"})
WEIGHTS: tuple[dict[str, Any], ...] = (
    {"zero": "never"},
    {"zero": "before the step"},
    {"step": "before forward"},
    {"step": "before backward"},
    {"train": "never"},
    {"exchanged": ("training",)},
)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has uneven validation batches that make another epoch look best, losses that fall again, one epoch."""
    plans: list[tuple[Callable[[], Case], Callable[[Case], bool]]] = [
        (lambda: drawn(rng, MIDDLE, [3, 8, 1], fits=1 + int(rng.integers(3))), tells_apart),
        (lambda: drawn(rng, MIDDLE, [1, 8, 3], 0.5, fits=2, training=False), tells_apart),
        (
            lambda: drawn(rng, AGAIN, [4, 4], 0.9, epochs=8, fits=1, learning_rate=0.1),
            lambda case: by_margin(case) and last_fall(case) > lowest(run(case)) + 1,
        ),
        (
            lambda: drawn(rng, AGAIN, [4, 4], 0.9, epochs=8, fits=5, learning_rate=0.1),
            lambda case: by_margin(case) and long_wait(run(case)),
        ),
        (lambda: drawn(rng, OTHER, [6, 6], scale=1e6), lambda case: by_margin(case) and lowest(run(case)) == 0),
        (lambda: drawn(rng, OTHER, [5, 4], 0.5, fits=1), last_decides),
        (lambda: drawn(rng, MIDDLE, [5, 3], 0.5, fits=2, lowered=100.0), by_margin),
        (lambda: nearly_shared(rng, 1, 3, 1.0), is_shared),
        (lambda: nearly_shared(rng, 1, 3, -1.0), is_shared),
    ]
    cases = [draw_until(plan, clear, 2000) for plan, clear in plans]
    cases += [drawn(rng, ONE, [4, 1], 0.5, epochs=1, training=False), reaches_zero(rng)]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to six epochs or eleven, one to four validation batches of any sizes, a model in either mode.

    One to four training batches or eleven, of one example and more; some have eleven validation batches, or a long one.
    """
    sizes = [int(size) for size in rng.integers(1, 6, 11 if rng.integers(7) == 0 else rng.integers(1, 5))]
    if rng.integers(7) == 0:
        sizes[-1] = 1200
    epochs = 11 if rng.integers(6) == 0 else int(rng.integers(1, 7))
    how: dict[str, Any] = {"features": int(rng.integers(1, 4))}
    how["train_sizes"] = rng.integers(1, 8, 11 if rng.integers(7) == 0 else rng.integers(1, 5))
    how |= {"epochs": epochs, "training": bool(rng.integers(2)), "above": float(rng.integers(1, 3))}
    how["lowered"] = [0.0, 100.0][rng.integers(2)]
    return draw_until(lambda: drawn(rng, "domain", sizes, [0.0, 0.5][rng.integers(2)], **how), by_margin, 2000)


def column(*values: float) -> Array:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def visible(name: str, x_val: list[Array], y_val: list[Array], **how: Any) -> Case:
    """One batch (1, 1), whose first branch learns 1/2, 3/4, 7/8."""
    settings = {"learning_rate": 0.25, "momentum": 0.0, "above": 1.0, "lowered": 0.0}
    settings |= {"afterwards": 9.0, "epochs": 3, "training": True}
    data = {"x": [column(1)], "y": [column(1)], "x_val": x_val, "y_val": y_val, "weights": np.array([[0.0], [1.0]])}
    return Case(name, {**data, **settings, **how})
