"""03a-train: the weights after training, the validation losses, and the best epoch's weights and buffers, copied.

The reference is least squares with momentum by hand in NumPy. The network is a sum of linear branches, of which
training sees the first only: the second is behind a dropout that drops everything, and back in eval mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..description import Case, Description, Graded, Mistake, Simulation
from ..judges.common import draw_until

Array = np.ndarray
LAST, LOSSES, BEST, BUFFERS = "run.last", "run.losses", "run.best", "run.best buffers"


@dataclass(frozen=True)
class Epoch:
    """What is there after an epoch: validation loss, weights [2, F], and the buffer [1, F]."""

    loss: float
    weights: Array
    buffer: Array


def run(
    case: Case,
    zero: Literal["before backward", "never", "before the step"] = "before backward",
    step: Literal["after backward", "before backward", "before forward"] = "after backward",
    train: Literal["every epoch", "first epoch"] = "every epoch",
    validate: Literal["eval", "train"] = "eval",
    mean: Literal["examples", "batches", "last batch"] = "examples",
    exchanged: tuple[str, ...] = (),
) -> list[Epoch]:
    """The epochs of a run done as the arguments say."""
    inputs = case.inputs
    weights = np.array(inputs["weights"], dtype=np.float64)
    gradient, velocity = np.zeros_like(weights), np.zeros_like(weights)
    buffer, epochs = np.zeros((1, weights.shape[1])), []

    def errors(at: Array, x: Array, y: Array, phase: str) -> tuple[Array, Array]:
        """The errors of examples, and how much each counts."""
        error = x @ at.sum(axis=0) - y[:, 0]
        return error, np.where((error < 0) if phase in exchanged else (error > 0), inputs["above"], 1.0)

    for number in range(inputs["epochs"]):
        left_in_eval = train == "first epoch" and (number > 0 or not inputs["training"])
        # The branch behind dropout learns only where the model was left in eval mode.
        seen = np.array([1.0, float(left_in_eval)])[:, None]
        for x, y in zip(inputs["x"], inputs["y"], strict=True):
            before = weights
            if step != "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
            buffer = buffer if left_in_eval else (buffer + x.mean(axis=0)) / 2
            error, counts = errors(seen * (before if step == "before backward" else weights), x, y, "training")
            new = seen * (2 / len(x)) * (counts * error) @ x
            gradient = {"before backward": new, "never": gradient + new, "before the step": np.zeros_like(new)}[zero]
            if step == "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
        losses = []
        for x, y in zip(inputs["x_val"], inputs["y_val"], strict=True):
            error, counts = errors(np.array([1.0, float(validate == "eval")])[:, None] * weights, x, y, "validation")
            losses.append(counts * error**2)
            buffer = buffer if validate == "eval" else (buffer + x.mean(axis=0)) / 2
        by_batch = [float(part.mean()) for part in losses]
        means = {"examples": np.concatenate(losses).mean(), "batches": np.mean(by_batch), "last batch": by_batch[-1]}
        epochs.append(Epoch(float(means[mean]), weights, buffer))
    return epochs


def best(epochs: list[Epoch]) -> Epoch:
    return min(epochs, key=lambda epoch: epoch.loss)


def worst(epochs: list[Epoch]) -> Epoch:
    return max(epochs, key=lambda epoch: epoch.loss)


def kept(epoch: Epoch) -> dict[str, Array]:
    return {BEST: epoch.weights, BUFFERS: epoch.buffer}


def done(**how: Any) -> Simulation:
    """All that is observed of a run done so."""

    def simulate(case: Case) -> dict[str, Any]:
        epochs = run(case, **how)
        return {LOSSES: [epoch.loss for epoch in epochs], LAST: epochs[-1].weights, **kept(best(epochs))}

    return simulate


def keeping(choose: Callable[[list[Epoch]], Epoch], **how: Any) -> Simulation:
    return lambda case: dict(kept(choose(run(case, **how))))


def alias(case: Case) -> dict[str, Any]:
    features = np.asarray(case.inputs["weights"]).shape[1]
    return {name: np.full((rows, features), case.inputs["afterwards"]) for name, rows in ((BEST, 2), (BUFFERS, 1))}


MIDDLE, AGAIN, OTHER, ONE = "best in the middle", "the loss falls again", "best at an end", "one epoch"


def drawn(rng: np.random.Generator, kind: str, sizes: Any, momentum: float = 0.0, **how: Any) -> Case:
    """A run whose largest validation batch suits the epoch number `fits`, and the others the last epoch."""
    epochs, fits = how.pop("epochs", 6), how.pop("fits", 0)
    true_weight = rng.normal(size=3)
    x = [rng.normal(size=(size, 3)) for size in rng.integers(2, 8, size=3)]
    x_val = [rng.normal(size=(size, 3)) for size in sizes]
    inputs: dict[str, Any] = {
        "x": x,
        "y": [(rows @ true_weight)[:, None] + 0.1 * rng.normal(size=(len(rows), 1)) for rows in x],
        "weights": rng.normal(size=(2, 3)),
        "training": True,
        "learning_rate": float(rng.uniform(0.02, 0.05)),
        "momentum": momentum,
        "above": 2.0,
        "afterwards": float(rng.uniform(5.0, 9.0)),
        "epochs": epochs,
        "x_val": x_val,
        "y_val": [np.zeros((len(rows), 1)) for rows in x_val],
        **how,
    }
    after = [epoch.weights.sum(axis=0) for epoch in run(Case(kind, inputs))]
    noise = 2.0 if kind == OTHER else 0.1
    inputs["y_val"] = [
        (rows @ after[fits if len(rows) == max(sizes) else -1])[:, None] + noise * rng.normal(size=(len(rows), 1))
        for rows in x_val
    ]
    return Case(kind, inputs)


def lowest(epochs: list[Epoch]) -> int:
    return epochs.index(best(epochs))


def by_margin(case: Case) -> bool:
    """Whether one epoch is clearly the best, also where the loss was given its arguments in the wrong order."""
    losses = sorted(epoch.loss for epoch in run(case))
    wrongly = run(case, exchanged=("validation",))
    return lowest(wrongly) == lowest(run(case)) and (len(losses) < 2 or losses[1] - losses[0] > 1e-2)


def above_one(case: Case) -> bool:
    return by_margin(case) and best(run(case)).loss > 1.1


def last_fall(case: Case) -> int:
    """The last epoch whose loss is clearly below that of the epoch before."""
    return int(np.flatnonzero(np.diff([epoch.loss for epoch in run(case)]) < -1e-2).max(initial=-1)) + 1


def worse_at_four(epochs: list[Epoch]) -> bool:
    """Whether the fifth epoch is clearly worse than one before, so that training until then misses the best one."""
    return epochs[4].loss > best(epochs[:4]).loss + 1e-2


def tells_apart(case: Case) -> bool:
    """Whether the best epoch is in the middle by a margin, and every mistake shows."""
    epochs = run(case)
    at, highest = lowest(epochs), epochs.index(worst(epochs))
    if not by_margin(case) or at in (0, len(epochs) - 1) or highest == len(epochs) - 1:
        return False
    for how in VALIDATION:
        seen = run(case, **how)
        first, second = sorted(epoch.loss for epoch in seen)[:2]
        if lowest(seen) in (at, highest) or second - first < 1e-3:
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
    {"train": "first epoch"},
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
            lambda case: by_margin(case) and lowest(run(case)) > 4 and worse_at_four(run(case)),
        ),
        (lambda: drawn(rng, OTHER, [6, 6]), lambda case: above_one(case) and lowest(run(case)) == 0),
        (lambda: drawn(rng, OTHER, [9, 2], 0.5, fits=-1), lambda case: above_one(case) and lowest(run(case)) == 5),
    ]
    cases = [draw_until(plan, clear, 2000) for plan, clear in plans]
    cases.append(drawn(rng, ONE, [4, 1], 0.5, epochs=1, training=False))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to six epochs, one to four validation batches of any sizes, a model in either mode."""
    sizes = [int(size) for size in rng.integers(1, 6, rng.integers(1, 5))]
    how = {"epochs": int(rng.integers(1, 7)), "training": bool(rng.integers(2)), "above": float(rng.integers(1, 3))}
    return draw_until(lambda: drawn(rng, "domain", sizes, [0.0, 0.5][rng.integers(2)], **how), by_margin)


def column(*values: float) -> Array:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def visible(name: str, x_val: list[Array], y_val: list[Array], **how: Any) -> Case:
    """One batch (1, 1), whose first branch learns 1/2, 3/4, 7/8."""
    settings = {"learning_rate": 0.25, "momentum": 0.0, "above": 1.0, "afterwards": 9.0, "epochs": 3, "training": True}
    data = {"x": [column(1)], "y": [column(1)], "x_val": x_val, "y_val": y_val, "weights": np.array([[0.0], [1.0]])}
    return Case(name, {**data, **settings, **how})


QUESTION = Description(
    id="03a-train",
    parts=(
        Graded("weights", 4, (LAST,)),
        Graded("validation losses", 2, (LOSSES,)),
        Graded("best weights", 2, (BEST,)),
        Graded("best buffers", 1, (BUFFERS,), needs="best weights"),
    ),
    reference=done(),
    mistakes=(
        Mistake(
            "never-zeroed",
            "every step used the gradients of all the batches before it as well",
            "what backward() does to a .grad that is not empty",
            done(zero="never"),
        ),
        Mistake(
            "never-moves",
            "the weights are those that the model came with",
            "what is in .grad at the moment of the step",
            lambda case: {LAST: np.asarray(case.inputs["weights"])},
        ),
        Mistake(
            "step-before-backward",
            "each step used the gradient of the batch before, and the last gradient was never used",
            "which of backward() and step() comes first",
            done(step="before forward"),
            also=(done(step="before backward"),),
        ),
        Mistake(
            "stays-in-eval",
            "after the first evaluation the model was trained in eval mode, with dropout switched off",
            "the model's mode when the second epoch begins",
            done(train="first epoch"),
        ),
        Mistake(
            "ended-with-best",
            "the best weights were put back into the model, which should keep its last ones",
            "what the model should end with, and what is returned beside it",
            lambda case: {LAST: best(run(case)).weights},
        ),
        Mistake(
            "arguments-exchanged",
            "the loss was given its two arguments in the wrong order; only a symmetric loss forgives that",
            "the order of arguments in loss_fn(model(x), y)",
            done(exchanged=("training", "validation")),
            also=(done(exchanged=("training",)), done(exchanged=("validation",))),
        ),
        Mistake(
            "validated-in-train-mode",
            "the validation losses were measured in train mode, with dropout dropping",
            "the mode in which the model sees the validation batches",
            done(validate="train"),
        ),
        Mistake(
            "last-batch-only",
            "only the last validation batch is in the validation losses",
            "what is carried from one pass of the loop over the validation batches to the next",
            done(mean="last batch"),
        ),
        Mistake(
            "mean-of-batches",
            "the batches' means were averaged, so an example of a short validation batch counts more than another",
            "how many examples each batch's mean stands for",
            done(mean="batches"),
            also=(keeping(best, mean="batches"),),
        ),
        Mistake(
            "alias",
            "the best weights that you returned are the model's own tensors: they changed when the model changed",
            "whether state_dict() copies anything",
            alias,
        ),
        Mistake(
            "last-kept",
            "the weights that you returned are those of the last epoch, which is not the best one",
            "when the copy is made, and what is compared before it",
            keeping(lambda epochs: epochs[-1]),
        ),
        Mistake(
            "worst-kept",
            "the weights that you returned are those of the epoch with the highest validation loss",
            "in which direction the comparison goes",
            keeping(worst),
        ),
        Mistake(
            "buffers-left-out",
            "the best weights that you returned have no buffers: state_dict() has more than the parameters",
            "which names model.state_dict() has",
            lambda case: {BUFFERS: "a dict without running_mean"},
        ),
    ),
    visible=(
        visible("one batch (1, 1), three epochs, validation (1, 1.7)", [column(1)], [column(1.7)]),
        visible(
            "the same with momentum 0.5, the model in eval mode when it comes",
            [column(1)],
            [column(1.7)],
            momentum=0.5,
            training=False,
        ),
        visible(
            "validation batches of three and of one; errors above the target count 3 times",
            [column(1, 1, 1), column(1)],
            [column(1.5, 1.5, 1.5), column(2.2)],
            above=3.0,
        ),
        visible(
            "two training batches, momentum 0.9: the loss falls below 2.3 and rises, twice",
            [column(1, 1)],
            [column(0.5, 3.5)],
            x=[column(1)] * 2,
            y=[column(1)] * 2,
            momentum=0.9,
            epochs=6,
        ),
    ),
    draw=draw,
    domain=domain,
)
