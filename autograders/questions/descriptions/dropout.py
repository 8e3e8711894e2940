"""03d-dropout: outputs and gradients for given random numbers, in both modes, at p = 0 and 1 and at the border."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

OUTPUT, GRADIENT = "output.value", "gradient.value"
TRAINING, ONE, EVALUATION = "training", "p = 1", "evaluation"
NAMES = {OUTPUT: "x", GRADIENT: "gradient"}


@np.errstate(all="ignore")  # mistakes divide by p, which may be 0, and by 1 - p
def value(case: Case, field: str, slip: str = "") -> Any:
    x, p, uniform = case.inputs[NAMES[field]], np.float64(case.inputs["p"]), case.inputs["uniform"]
    training = case.inputs["training"] or slip == "always"
    if not training or slip == "never":
        scales = {"scaled in evaluation": 1 - p, "divided in evaluation": 1 / (1 - p)}
        return x * scales.get(slip, np.float64(1))
    masks = {"p for keep": uniform < p, "border dropped": uniform > p, "no mask": np.ones_like(uniform, bool)}
    kept = masks.get(slip, uniform >= p)
    scales = {"p for keep": 1 / p, "divided by p": 1 / p, "no scale": np.float64(1), "multiplied": 1 - p}
    scale = scales.get(slip, 1 / (1 - p))
    # Zero times the infinite scale of p = 1 is nan; what is not computed there stays 0.
    return (
        np.where(kept, x, 0.0) * scale if slip == "nan at one" else np.where(kept & np.isfinite(scale), x * scale, 0.0)
    )


def fields(case: Case, slip: str = "", only: tuple[str, ...] = (OUTPUT, GRADIENT)) -> dict[str, Any]:
    return {field: value(case, field, slip) for field in only}


def slipped(slip: str, *only: str) -> Simulation:
    return partial(fields, slip=slip, only=only)


def both(slip: str) -> dict[str, Any]:
    """A mistake in both functions, or in one of them."""
    return {
        "simulate": slipped(slip, OUTPUT, GRADIENT),
        "also": (slipped(slip, OUTPUT), slipped(slip, GRADIENT)),
    }


def made(kind: str, x: Any, gradient: Any, p: float, uniform: Any) -> Case:
    arrays = {"x": x, "gradient": gradient, "uniform": uniform}
    return Case(
        kind,
        {name: np.asarray(values, np.float64) for name, values in arrays.items()}
        | {"p": p, "training": kind != EVALUATION},
    )


def case(rng: np.random.Generator, kind: str, shape: tuple[int, ...], p: float) -> Case:
    """Random numbers on both sides of p and of 1 - p, with an entry at p itself."""
    uniform = rng.random(shape)
    flat = uniform.reshape(-1)
    low, high = sorted((p, 1 - p))
    places = rng.permutation(flat.size)
    for place, number in zip(places, (low / 2, (low + high) / 2, (1 + high) / 2, p), strict=False):
        flat[place] = min(number, 0.999)
    x, gradient = (rng.uniform(0.5, 3.0, shape) * rng.choice([-1.0, 1.0], shape) for _ in range(2))
    return made(kind, x, gradient, p, uniform)


def draw(rng: np.random.Generator) -> list[Case]:
    """p below and above a half, where dropping and keeping differ, and its two ends; one to three axes."""
    small, large = float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.6, 0.9))
    return [
        case(rng, TRAINING, (4, 3), small),
        case(rng, TRAINING, (7,), large),
        case(rng, TRAINING, (2, 3, 2), small),
        case(rng, TRAINING, (3, 2), 0.0),
        case(rng, ONE, (2, 4), 1.0),
        case(rng, EVALUATION, (3, 3), small),
        case(rng, EVALUATION, (5,), large),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Any p from 0 to 1, in either mode; one to three axes of one to four entries or twelve, zeros among them."""
    shape = tuple(int(size) for size in rng.integers(1, 5, rng.integers(1, 4)))
    if rng.integers(8) == 0:
        shape = (12, *shape[1:])
    p = float(rng.choice([0.0, 1.0, 0.5, 1e-4, 0.999, rng.uniform()], p=[0.12, 0.12, 0.16, 0.08, 0.08, 0.44]))
    drawn = case(rng, (TRAINING, EVALUATION)[rng.integers(2)], shape, p)
    if rng.integers(4) == 0:
        for name in ("x", "gradient", "uniform"):
            drawn.inputs[name][rng.random(shape) < 0.3] = 0.0
    return drawn


QUESTION = Description(
    id="03d-dropout",
    parts=(
        Graded("training", 3, (OUTPUT,), on=(TRAINING,)),
        Graded("evaluation", 2, (OUTPUT,), on=(EVALUATION,)),
        Graded("gradient", 3, (GRADIENT,), on=(TRAINING,)),
        Graded("gradient in evaluation", 1, (GRADIENT,), on=(EVALUATION,)),
        # Zeros for everything are right here, so one of the others must be right, too.
        Graded("p of one", 1, (OUTPUT, GRADIENT), on=(ONE,), after=1),
    ),
    reference=fields,
    mistakes=(
        Mistake(
            "not-scaled",
            "what is kept was not divided by 1 - p, so training sees smaller sums than evaluation",
            "the mean of an output over many draws: it must be x",
            **both("no scale"),
        ),
        Mistake(
            "p-for-keep",
            "p was taken for the share that is kept; in PyTorch p is the share that is dropped",
            "what p = 0 must do: nothing",
            **both("p for keep"),
        ),
        Mistake(
            "divided-by-p",
            "what is kept was divided by p and not by the share that is kept",
            "the factor for p = 0.1: slightly above 1",
            **both("divided by p"),
        ),
        Mistake(
            "multiplied",
            "what is kept was multiplied by 1 - p",
            "the mean of an output over many draws: it must be x",
            **both("multiplied"),
        ),
        Mistake(
            "dropped-in-evaluation",
            "entries were dropped in evaluation",
            "what `training=False` changes",
            **both("always"),
        ),
        Mistake(
            "never-dropped",
            "nothing was dropped in training",
            "what `training=True` changes",
            **both("never"),
        ),
        Mistake(
            "scaled-in-evaluation",
            "the output of evaluation was scaled; with the scale in training, evaluation changes nothing",
            "the mode in which the scale belongs",
            **both("scaled in evaluation"),
        ),
        Mistake(
            "divided-in-evaluation",
            "the output of evaluation was divided by 1 - p as well",
            "the mode in which the scale belongs",
            **both("divided in evaluation"),
        ),
        Mistake(
            "zero-by-zero",
            "p = 1 gives 0 divided by 0",
            "what is left when everything is dropped",
            **both("nan at one"),
        ),
        Mistake(
            "border-dropped",
            "an entry whose random number equals p was dropped; the question drops those below p",
            "`<` and `<=`",
            **both("border dropped"),
        ),
        Mistake(
            "gradient-without-mask",
            "gradients flow into entries that were dropped",
            "how the loss depends on an entry that was multiplied by 0",
            slipped("no mask", GRADIENT),
        ),
    ),
    visible=(
        made(TRAINING, [[1, 2, 3], [4, 5, 6]], [[1, 1, 2], [2, -1, 3]], 0.25, [[0.1, 0.5, 0.9], [0.25, 0.2, 0.7]]),
        made("training, p = 0", [1, 2], [3, 4], 0.0, [0.0, 0.5]),
        made(ONE, [1, 2], [3, 4], 1.0, [0.3, 0.9]),
        made(EVALUATION, [[1, -2], [3, 4]], [[1, 2], [3, -4]], 0.25, [[0.1, 0.5], [0.9, 0.2]]),
    ),
    draw=draw,
    domain=domain,
)
