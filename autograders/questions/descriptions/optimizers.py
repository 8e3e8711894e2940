"""03c-optimizers: parameters after every step; rates that change, a first step, eps, and decay tell conventions apart.

The reference and the mistakes are two loops with switches, in float64.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

SGD, NESTEROV, RMSPROP, ADAM, ADAMW = (f"{name}.path" for name in ("sgd", "nesterov", "rmsprop", "adam", "adamw"))
Path = list[np.ndarray]


def sgd(inputs: Inputs, nesterov: bool, slip: str = "") -> Path:
    """Parameters after each step of SGD; `slip` names what is done wrong."""
    parameter, velocity, path = inputs["parameter"], np.zeros_like(inputs["parameter"]), []
    momentum, decay = inputs["momentum"], inputs["weight_decay"]
    for step, (gradient, rate) in enumerate(zip(inputs["gradients"], inputs["rates"], strict=True)):
        share = 1.0 - (0.0 if nesterov else inputs["dampening"])
        share = {"averaged": 1 - momentum, "dampening ignored": 1.0}.get(slip, share)
        is_first = not velocity.any() if slip == "first by velocity" else step == 0
        if is_first and slip not in ("averaged", "first dampened"):
            share = 1.0
        pull = decay * parameter if slip not in ("decoupled", "no decay") else 0.0
        pull = -pull if slip == "decay reversed" else pull
        gradient = gradient + pull
        scale = rate if slip == "rate inside" else 1.0
        velocity = (0.0 if slip == "no momentum" else momentum) * velocity + share * scale * gradient
        ahead = gradient * scale + momentum * velocity
        direction = ahead if nesterov and slip != "no look-ahead" else velocity
        if slip == "look-ahead from momentum":
            direction = velocity + momentum * velocity
        step_size = 1.0 if slip == "rate inside" else rate
        shrunk = parameter * (1 - rate * decay) if slip == "decoupled" else parameter
        parameter = shrunk + step_size * direction if slip == "uphill" else shrunk - step_size * direction
        path.append(parameter)
    return [path[-1]] * len(path) if slip == "aliased" else path


def adaptive(inputs: Inputs, kind: str, slip: str = "") -> Path:
    """Parameters after each step of RMSprop, Adam or AdamW."""
    parameter, path = inputs["parameter"], []
    first, second = np.zeros_like(parameter), np.zeros_like(parameter)
    beta1, beta2 = (0.0, inputs["alpha"]) if kind == RMSPROP else inputs["betas"]
    decay, eps = 0.0 if kind == RMSPROP else inputs["weight_decay"], inputs["eps"]
    decoupled = (kind == ADAMW) != (slip == "other decay")
    for step, (gradient, rate) in enumerate(zip(inputs["gradients"], inputs["rates"], strict=True), 1):
        if not decoupled:
            gradient = gradient + decay * parameter
        shrink = rate * decay if decoupled and slip != "no decay" else 0.0
        shrink = decay if decoupled and slip == "decay without rate" else shrink
        first = beta1 * first + (1 - beta1) * gradient
        second = beta2 * second + (gradient**2 if slip == "summed" else (1 - beta2) * gradient**2)
        corrected = (kind != RMSPROP) != (slip == "correction")
        exponent = step - 1 + (slip != "from zero") if corrected else np.inf
        fix1, fix2 = (1 - beta**exponent if exponent else 1.0 for beta in (beta1, beta2))
        fix2 = 1.0 if slip == "second uncorrected" else fix2
        root = np.sqrt(second / fix2) + eps
        if slip == "eps inside":
            root = np.sqrt(second / fix2 + eps)
        elif slip == "eps before correction":
            root = (np.sqrt(second) + eps) / np.sqrt(fix2)
        elif slip == "no root":
            root = second / fix2 + eps
        elif slip == "no eps":
            root = np.where(second > 0, np.sqrt(second / fix2), np.inf)
        update = rate * first / fix1 / root
        if slip == "decay last" and decoupled:
            parameter = (parameter - update) * (1 - shrink)
        else:
            parameter = parameter * (1 - shrink) - update
        path.append(parameter)
    return [path[-1]] * len(path) if slip == "aliased" else path


def paths(case: Case, slip: str = "", only: tuple[str, ...] = (SGD, NESTEROV, RMSPROP, ADAM, ADAMW)) -> dict[str, Any]:
    rules = {SGD: partial(sgd, nesterov=False), NESTEROV: partial(sgd, nesterov=True)}
    rules |= {kind: partial(adaptive, kind=kind) for kind in (RMSPROP, ADAM, ADAMW)}
    return {name: rules[name](case.inputs, slip=slip) for name in only}


def slipped(slip: str, *only: str) -> Simulation:
    return partial(paths, slip=slip, only=only)


def case(rng: np.random.Generator, kind: str, shape: tuple[int, ...], steps: int, **settings: Any) -> Case:
    """Rates that change, decay, dampening and an eps that shows, unless `settings` say otherwise."""
    inputs = {
        "parameter": np.asarray(rng.uniform(0.5, 3.0, shape) * rng.choice([-1.0, 1.0], shape)),
        "gradients": [np.asarray(rng.normal(size=shape) * rng.uniform(0.2, 2.0)) for _ in range(steps)],
        "rates": [float(rate) for rate in rng.uniform(0.05, 0.4, steps)],
        "momentum": rng.uniform(0.5, 0.95),
        "dampening": rng.uniform(0.2, 0.8),
        "weight_decay": rng.uniform(0.1, 0.4),
        "alpha": rng.uniform(0.8, 0.99),
        "betas": [rng.uniform(0.6, 0.9), rng.uniform(0.92, 0.999)],
        "eps": 10 ** rng.uniform(-2.5, -1.0),
    }
    return Case(kind, {**inputs, **settings})


def starting_at_zero(case: Case, where: np.ndarray) -> Case:
    """The same case with a first gradient of 0 where this is 0: the first step is the first one, whatever it moves."""
    first, *rest = case.inputs["gradients"]
    return replace(case, inputs={**case.inputs, "gradients": [first * where, *rest]})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has a number alone, a matrix, one step and eight, and settings of zero."""
    zeros = [np.zeros(3), np.array([0.0, rng.uniform(0.5, 2.0), 0.0]), np.array([rng.uniform(-2, -0.5), 0.0, 0.0])]
    return [
        case(rng, "eight steps", (), 8),
        case(rng, "a matrix", (2, 3), int(rng.integers(3, 6))),
        case(rng, "one step", (4,), 1),
        starting_at_zero(case(rng, "zero at first", (2,), 3, weight_decay=0.0), np.zeros(2)),
        starting_at_zero(case(rng, "an entry that is zero at first", (2,), 3, weight_decay=0.0), np.array([0.0, 1.0])),
        case(rng, "an empty axis", (0, 2), 3),
        case(rng, "zero gradients", (3,), 3, gradients=zeros, eps=1e-8),
        case(
            rng, "settings of zero", (2,), 4, momentum=0.0, dampening=0.0, weight_decay=0.0, alpha=0.0, betas=[0.0] * 2
        ),
        case(rng, "usual settings", (3, 1), 5, dampening=0.0, betas=[0.9, 0.999], eps=1e-8, rates=[0.1] * 5),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Any of these settings, zero or not or as large as they may be, and any small shape of up to three axes.

    Parameters of zero, gradients that are zero throughout a step, small or large ones, and one rate for all steps are
    not rare.
    """
    shape = tuple(int(size) for size in rng.integers(0 if rng.integers(8) == 0 else 1, 4, rng.integers(0, 4)))
    if rng.integers(8) == 0:
        shape = (12,)
    largest = {"momentum": 0.99, "dampening": 0.99, "weight_decay": 0.5, "alpha": 0.99}
    settings: dict[str, Any] = {
        name: 0.0 if chosen < 0.25 else largest[name] for name in largest if (chosen := rng.random()) < 0.4
    }
    if settings.get("momentum") == 0.0:
        settings["dampening"] = 0.0  # PyTorch ignores it then; the question leaves this case out
    settings["eps"] = float(rng.choice([1e-8, 0.1, 10 ** rng.uniform(-8, -1)], p=[0.12, 0.12, 0.76]))
    settings["betas"] = [float(rng.choice([0.0, 0.999, rng.uniform(0, 0.999)])) for _ in range(2)]
    starts_at_zero = rng.integers(4) == 0
    if starts_at_zero:
        settings["weight_decay"] = 0.0  # which would move the parameter in the first step
    steps = int(rng.integers(1, 9))
    if rng.integers(6) == 0:
        settings["parameter"] = np.zeros(shape)
    if rng.integers(6) == 0:
        settings["rates"] = [float(rng.choice([0.001, 0.5]))] * steps
    drawn = case(rng, "domain", shape, steps, **settings)
    if rng.integers(6) == 0:
        drawn.inputs["gradients"][rng.integers(steps)][...] = 0.0
    size = float(rng.choice([1e-4, 1.0, 1e3], p=[0.15, 0.7, 0.15]))
    drawn.inputs["gradients"][:] = [size * gradient for gradient in drawn.inputs["gradients"]]
    return starting_at_zero(drawn, rng.integers(2, size=shape)) if starts_at_zero else drawn


def visible(name: str, parameter: Any, gradients: Any, rates: list[float], **settings: Any) -> Case:
    usual = {"momentum": 0.5, "dampening": 0.0, "weight_decay": 0.0, "alpha": 0.75, "betas": [0.5, 0.75], "eps": 0.1}
    arrays = {"parameter": np.array(parameter, float), "gradients": [np.array(each, float) for each in gradients]}
    return Case(name, {**arrays, "rates": rates, **usual, **settings})


QUESTION = Description(
    id="03c-optimizers",
    parts=(
        Graded("sgd", 5, (SGD,)),
        Graded("nesterov", 3, (NESTEROV,)),
        Graded("rmsprop", 3, (RMSPROP,)),
        Graded("adam", 4, (ADAM,)),
        Graded("adamw", 3, (ADAMW,)),
    ),
    reference=paths,
    mistakes=(
        Mistake(
            "same-tensor",
            "all entries of the returned list are one tensor, which holds the parameter after the last step",
            "what an in-place operation does to a tensor that is already in the list",
            slipped("aliased", SGD, NESTEROV, RMSPROP, ADAM, ADAMW),
            also=(slipped("aliased", SGD, NESTEROV), slipped("aliased", RMSPROP), slipped("aliased", ADAM, ADAMW)),
        ),
        Mistake(
            "momentum-averages",
            "the momentum was an average, μ v + (1 - μ) g: the gradient is damped",
            "the factor of the gradient in the velocity, with dampening 0",
            slipped("averaged", SGD, NESTEROV),
        ),
        Mistake(
            "first-step-dampened",
            "dampening also reduced the first gradient; PyTorch starts with the whole first gradient as velocity",
            "the velocity after the first step",
            slipped("first dampened", SGD),
        ),
        Mistake(
            "first-step-by-velocity",
            "a velocity of zero was taken for the first step; a first gradient of 0 leaves it zero, too",
            "how your code knows that a step is the first one",
            slipped("first by velocity", SGD),
        ),
        Mistake(
            "dampening-ignored",
            "dampening changed nothing",
            "the factor of the gradient in the velocity after the first step",
            slipped("dampening ignored", SGD),
        ),
        Mistake(
            "no-velocity",
            "no step depends on earlier gradients: the momentum is not used",
            "what the second step takes over from the first",
            slipped("no momentum", SGD),
        ),
        Mistake(
            "rate-inside-velocity",
            "the velocity contains the rate, so an old rate still acts after the rate has changed",
            "whether the rate multiplies the gradient or the whole velocity",
            slipped("rate inside", SGD, NESTEROV),
        ),
        Mistake(
            "sgd-decay-decoupled",
            "SGD's weight decay shrank the parameter and did not pass through the velocity",
            "to what PyTorch's SGD adds weight_decay · θ",
            slipped("decoupled", SGD, NESTEROV),
        ),
        Mistake(
            "sgd-without-decay",
            "SGD ignored weight_decay",
            "a case with weight_decay above 0",
            slipped("no decay", SGD, NESTEROV),
        ),
        Mistake(
            "no-look-ahead",
            "nesterov=True gave the same steps as nesterov=False",
            "the direction of the step: g + μ v with the new velocity v",
            slipped("no look-ahead", NESTEROV),
        ),
        Mistake(
            "velocity-twice",
            "Nesterov's direction was v + μ v; the first term should be the gradient",
            "the two terms of the direction",
            slipped("look-ahead from momentum", NESTEROV),
        ),
        Mistake(
            "uphill",
            "the step followed the gradient and not its negative",
            "the sign of the step",
            slipped("uphill", SGD, NESTEROV),
        ),
        Mistake(
            "eps-inside-root",
            "eps was added under the root; with small gradients the step then becomes far too short",
            "the order of the root and of adding eps",
            slipped("eps inside", RMSPROP, ADAM, ADAMW),
            also=(slipped("eps inside", RMSPROP), slipped("eps inside", ADAM, ADAMW)),
        ),
        Mistake(
            "eps-before-correction",
            "eps was added to √v before the bias correction and divided along with it",
            "what is corrected first: v, or √v + eps",
            slipped("eps before correction", ADAM, ADAMW),
        ),
        Mistake(
            "no-eps",
            "eps was left out",
            "the denominator of the update",
            slipped("no eps", RMSPROP, ADAM, ADAMW),
            also=(slipped("no eps", ADAM, ADAMW), slipped("no eps", RMSPROP)),
        ),
        Mistake(
            "no-root",
            "the gradient was divided by v and not by its square root",
            "the unit of the denominator: it must be that of a gradient",
            slipped("no root", RMSPROP),
            also=(slipped("no root", ADAM, ADAMW),),
        ),
        Mistake(
            "squares-summed",
            "the squares were added up with weight 1; RMSprop takes an average with weight 1 - α",
            "the factor of g² in v",
            slipped("summed", RMSPROP),
        ),
        Mistake(
            "rmsprop-corrected",
            "RMSprop's v was bias-corrected; only Adam does that",
            "the formula of RMSprop: v starts at 0 and is used unchanged",
            slipped("correction", RMSPROP),
        ),
        Mistake(
            "no-bias-correction",
            "Adam's averages were not corrected for their start at 0",
            "the first step: its length should be close to the rate",
            slipped("correction", ADAM, ADAMW),
        ),
        Mistake(
            "counted-from-zero",
            "the bias correction used a step count that is one too small",
            "the value of t in the first step",
            slipped("from zero", ADAM, ADAMW),
        ),
        Mistake(
            "second-not-corrected",
            "the average of the squares was not bias-corrected, while that of the gradients was",
            "both averages start at 0",
            slipped("second uncorrected", ADAM, ADAMW),
        ),
        Mistake(
            "l2-in-adamw",
            "with decoupled=True the decay still went through the gradient, so Adam divided it by √v",
            "where weight_decay enters when decoupled is True",
            slipped("other decay", ADAMW),
        ),
        Mistake(
            "decoupled-adam",
            "with decoupled=False the parameter itself was shrunk; Adam adds weight_decay · θ to the gradient",
            "where weight_decay enters when decoupled is False",
            slipped("other decay", ADAM),
        ),
        Mistake(
            "decay-without-rate",
            "AdamW's decay was not multiplied by the rate",
            "the factor 1 - rate · weight_decay",
            slipped("decay without rate", ADAMW),
        ),
        Mistake(
            "decay-last",
            "AdamW shrank the parameter after the update, and so shrank the update too",
            "the order of shrinking and updating",
            slipped("decay last", ADAMW),
        ),
        Mistake(
            "adamw-without-decay",
            "AdamW ignored weight_decay",
            "a case with weight_decay above 0 and decoupled=True",
            slipped("no decay", ADAMW),
        ),
    ),
    visible=(
        visible("θ = 1, gradients 1, 1, rate 0.1", 1.0, [1.0, 1.0], [0.1, 0.1]),
        visible(
            "the rate falls from 0.4 to 0.1: θ = [1, -2]", [1.0, -2.0], [[1, 0.5], [1, -1], [0, 2]], [0.4, 0.1, 0.1]
        ),
        visible("dampening 0.5: θ = 0", 0.0, [1.0, 2.0, 4.0], [0.1, 0.1, 0.1], dampening=0.5),
        visible("dampening 0.5, a first gradient of 0: θ = 1", 1.0, [0.0, 2.0, 4.0], [0.1, 0.1, 0.1], dampening=0.5),
        visible("weight decay 0.5: θ = [[2, -4]]", [[2, -4]], [[[1, 1]], [[1, 0]]], [0.2, 0.2], weight_decay=0.5),
        visible(
            "all settings 0, and eps 1e-8", [1, 2], [[3, 0]], [0.1], momentum=0.0, alpha=0.0, betas=[0, 0], eps=1e-8
        ),
    ),
    draw=draw,
    domain=domain,
)
