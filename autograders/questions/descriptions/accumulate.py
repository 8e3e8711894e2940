"""03a-accumulate: each step equals the big batch's, in even, uneven and short windows, one micro-batch at a time.

The reference is least squares by hand in NumPy: no autograd, no optimizer, nothing that the student's code used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Share = Literal["n/N", "n", "1/K", "1/window", "1"]


def run(
    case: Case,
    epochs: int,
    share: Share = "n/N",
    last: Literal["stepped", "dropped"] = "stepped",
    zero: Literal["window", "full windows", "never", "micro-batch"] = "window",
    step: Literal["window", "micro-batch", "never"] = "window",
    momentum: bool = True,
    exchanged: bool = False,
) -> np.ndarray:
    """The weights after some epochs of SGD with momentum, done as the arguments say. [outputs, features (+ 1)]"""
    inputs = case.inputs
    w = inputs["weight"].astype(np.float64)
    gradient, velocity = np.zeros_like(w), np.zeros_like(w)
    size, friction = inputs["accumulate"], inputs["momentum"] * momentum
    batches = list(zip(inputs["x"], inputs["y"], strict=True))
    for start in [*range(0, len(batches), size)] * epochs:
        window = batches[start : start + size]
        if len(window) < size and last == "dropped":
            continue
        for x, y in window:
            shares = {
                "n/N": len(x) / sum(len(x) for x, _ in window),
                "n": len(x),
                "1/K": 1 / size,
                "1/window": 1 / len(window),
                "1": 1.0,
            }
            if zero == "micro-batch":
                gradient = np.zeros_like(w)
            gradient = gradient + shares[share] * gradient_of(w, x, y, inputs, exchanged)
            if step == "micro-batch":
                w = w - inputs["learning_rate"] * (velocity := friction * velocity + gradient)
        if step == "window":
            w = w - inputs["learning_rate"] * (velocity := friction * velocity + gradient)
        if zero == "window" or (zero == "full windows" and len(window) == size):
            gradient = np.zeros_like(w)
    return w


def gradient_of(w: np.ndarray, x: np.ndarray, y: np.ndarray, inputs: Inputs, exchanged: bool) -> np.ndarray:
    """The gradient of one micro-batch's mean loss, in which errors above the target count `above` times."""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1) if inputs["bias"] else x
    error = x.astype(np.float64) @ w.T - y
    above = error < 0 if exchanged else error > 0
    return np.asarray((2 * np.where(above, inputs["above"], 1.0) * error / error.size).T @ x)


FIRST, SECOND, AT_ONCE = "epoch.weight", "second epoch.weight", "epoch.given to the model at once"


def done(**how: Any) -> Simulation:
    """Both epochs' weights when training is done so."""
    return lambda case: {FIRST: run(case, 1, **how), SECOND: run(case, 2, **how)}


def all_at_once(case: Case) -> dict[str, str]:
    """What is observed when each window is joined to one batch."""
    sizes = list(map(len, case.inputs["x"]))
    windows = [
        sum(sizes[start:][: case.inputs["accumulate"]]) for start in range(0, len(sizes), case.inputs["accumulate"])
    ]
    return {AT_ONCE: "one micro-batch" if max(windows) <= max(sizes) else "more than the largest micro-batch"}


def epoch(rng: np.random.Generator, sizes: list[int], accumulate: int, **how: Any) -> dict[str, Any]:
    """Inputs of one epoch on random rows; `how` sets what is not drawn."""
    drawn = {"dtype": "float64", "outputs": 1, "features": 3, "bias": True, "momentum": 0.0, "above": 3.0, **how}
    dtype, outputs, features = (drawn.pop(name) for name in ("dtype", "outputs", "features"))
    return {
        "x": [rng.normal(size=(size, features)).astype(dtype) for size in sizes],
        "y": [rng.normal(size=(size, outputs)).astype(dtype) for size in sizes],
        "weight": rng.normal(size=(outputs, features + drawn["bias"])).astype(dtype),
        "learning_rate": 0.05,
        "accumulate": accumulate,
        **drawn,
    }


def uneven(rng: np.random.Generator, *windows: list[int]) -> list[int]:
    """The sizes in the windows, and the windows, in a random order. Each window is uneven and has its own total."""
    shuffled = [windows[index] for index in rng.permutation(len(windows))]
    return [int(size) for window in shuffled for size in rng.permutation(window)]


EVEN, UNEVEN, SHORT, BOTH = "even", "uneven", "short last window", "uneven short last window"


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has windows of one micro-batch, one window only, both precisions and momentum."""
    single = {"dtype": "float32", "bias": False}
    cases = [
        Case(EVEN, epoch(rng, [4] * 6, 3, momentum=0.5)),
        Case(EVEN, epoch(rng, [5] * 4, 2, outputs=2)),
        Case(EVEN, epoch(rng, [2] * 4, 4, **single)),
        Case(EVEN, epoch(rng, [1] * 6, 2)),
        Case(UNEVEN, epoch(rng, uneven(rng, [1, 4, 7], [2, 3, 2]), 3, momentum=0.5)),
        Case(UNEVEN, epoch(rng, uneven(rng, [1, 7], [4, 2], [2, 3]), 2, outputs=2)),
        Case(UNEVEN, epoch(rng, uneven(rng, [6, 1, 2, 1]), 4, **single)),
        Case(UNEVEN, epoch(rng, uneven(rng, [5], [1], [3]), 1)),
        Case(BOTH, epoch(rng, [3, 3, 3, *uneven(rng, [1, 5])], 3, momentum=0.5)),
        Case(BOTH, epoch(rng, uneven(rng, [1, 4, 2]), 4, outputs=2)),
        Case(SHORT, epoch(rng, [4] * 7, 3, momentum=0.5)),
        Case(SHORT, epoch(rng, [4] * 5, 3, outputs=2)),
        Case(SHORT, epoch(rng, [3] * 3, 5, **single)),
        Case(SHORT, epoch(rng, [1], 2)),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to seven micro-batches or thirteen of one to five examples, in windows of up to eight or of a thousand.

    Some have one micro-batch of many examples.
    """
    sizes = [int(size) for size in rng.integers(1, 6, 13 if rng.integers(7) == 0 else rng.integers(1, 8))]
    if rng.integers(7) == 0:
        sizes[rng.integers(len(sizes))] = 1200
    accumulate = [11, 1001][rng.integers(2)] if rng.integers(4) == 0 else int(rng.integers(1, 9))
    how = {
        "dtype": ["float32", "float64"][rng.integers(2)],
        "outputs": int(rng.integers(1, 3)),
        "features": int(rng.integers(1, 5)),
        "bias": bool(rng.integers(2)),
        "momentum": [0.0, 0.5, 0.9][rng.integers(3)],
        "learning_rate": [0.05, 0.01][rng.integers(2)],
        "above": [1.0, 3.0][rng.integers(2)],
    }
    return Case("domain", epoch(rng, sizes, accumulate, **how))


def visible(name: str, accumulate: int, *batches: Sequence[tuple[float, float]], **how: float) -> Case:
    """The lecture's example: w = 0, learning rate 0.1, squared error."""
    plain = {"bias": False, "momentum": 0.0, "above": 1.0, "accumulate": accumulate, "learning_rate": 0.1, **how}
    x, y = ([np.array([[float(pair[place])] for pair in batch]) for batch in batches] for place in (0, 1))
    return Case(name, {"x": x, "y": y, "weight": np.array([[0.0]]), **plain})


QUESTION = Description(
    id="03a-accumulate",
    parts=(
        Graded("even", 1, (FIRST,), on=(EVEN,)),
        Graded("one micro-batch at a time", 2, (AT_ONCE,), needs="even"),
        Graded("uneven", 3, (FIRST,), on=(UNEVEN, BOTH), forgives=("last-window-dropped",)),
        Graded("short last window", 1, (FIRST,), on=(SHORT,)),
        Graded("second epoch", 1, (SECOND,), on=(SHORT,)),
    ),
    reference=lambda case: {**done()(case), AT_ONCE: "one micro-batch"},
    mistakes=(
        Mistake(
            "no-division",
            "the gradients were summed without a weight, so the step is K times too long",
            "what one big batch's loss divides by",
            done(share="1"),
            also=(done(share="n"),),
        ),
        Mistake(
            "divide-by-k",
            "the loss was divided by the K that was asked for, also where the window holds fewer micro-batches or "
            "micro-batches of unequal size",
            "how many examples are in this window, and how many of them are in this micro-batch",
            done(share="1/K"),
            also=(done(share="1/K", last="dropped"), done(share="1/K", zero="full windows")),
        ),
        Mistake(
            "mean-of-means",
            "every micro-batch counts the same, whether it holds two examples or one",
            "the weight of one example in the big batch's mean",
            done(share="1/window"),
        ),
        Mistake(
            "last-window-dropped",
            "the last, shorter window was never stepped: its examples are lost every epoch",
            "what is left in .grad when the loop ends",
            done(last="dropped"),
        ),
        Mistake(
            "never-zeroed",
            "the gradients of the first window are still in .grad in the second",
            "when the gradients are cleared",
            done(zero="never"),
            also=(done(zero="never", share="1/K"), done(zero="never", share="1")),
        ),
        Mistake(
            "left-for-the-next-epoch",
            "the gradients of a short last window stay in .grad and count again in the first step of the next epoch",
            "whether .grad is empty when your function is called again",
            done(zero="full windows"),
        ),
        Mistake(
            "zeroed-too-often",
            "the gradients were cleared at every micro-batch, so only the last one of a window counts",
            "at which of the two levels, micro-batch or window, the gradients are cleared",
            done(zero="micro-batch"),
            also=(done(zero="micro-batch", share="1/K"), done(zero="micro-batch", share="1")),
        ),
        Mistake(
            "step-every-batch",
            "the optimizer stepped after every micro-batch: that is training with small batches",
            "how many steps the worked example takes",
            done(step="micro-batch", zero="micro-batch", share="1"),
            also=(done(step="micro-batch", zero="micro-batch"), done(step="micro-batch")),
        ),
        Mistake("never-steps", "the weights did not move", "whether optimizer.step() is reached", done(step="never")),
        Mistake(
            "arguments-exchanged",
            "the loss was given its two arguments in the wrong order; only a symmetric loss forgives that",
            "the order of arguments in loss_fn(model(x), y)",
            done(exchanged=True),
        ),
        Mistake(
            "optimizer-replaced",
            "the weights moved as in plain SGD: the optimizer's momentum had no effect",
            "what optimizer.step() does beside subtracting the gradient",
            done(momentum=False),
        ),
        Mistake(
            "all-at-once",
            "the micro-batches of a window were joined: the model was given the big batch, which does not fit",
            "how many examples the model is given in one call",
            all_at_once,
        ),
    ),
    visible=(
        visible("the worked example: K = 2, (x, y) = (2, 1), (3, 2)", 2, [(2, 1)], [(3, 2)], momentum=0.5),
        visible("uneven: two examples (2, 1), (2, 1), then one (3, 2), K = 2", 2, [(2, 1), (2, 1)], [(3, 2)]),
        visible("an incomplete last window: three micro-batches, K = 2", 2, [(2, 1)], [(3, 2)], [(1, 2)]),
        visible(
            "momentum 0.5, errors above the target count 3 times, a short last window, K = 3",
            3,
            *([(2, 1)], [(3, 2), (1, -1)], [(1, -2)], [(2, -1), (3, 1)]),
            momentum=0.5,
            above=3.0,
        ),
    ),
    draw=draw,
    domain=domain,
    added=4,  # a case trains on several windows
)
