"""03b-overfit: the verdict on broken and healthy programs, exactly 100 steps, and the model put back.

A program is trained once when it is drawn; its key is the account of that run, and is no part of what the student's
function is given. What remains forgeable: a program's settings lie in the process that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.questions.overfit import CHANGED, KEPT
from lecture_lib.notebook.questions.overfit_programs import (
    EXAMPLES,
    FEATURES,
    HIDDEN,
    build_program,
    draw_program,
    floor_of_smoothing,
)

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

STEPS, TOLERANCE = 100, 0.15
"""After how many steps a program's loss must be how near to its floor, in nats: as the question words it."""
VERDICT, COUNT, IN_TRAINING, ON_ONE_CLASS = (
    "rung.verdict",
    "rung.steps",
    "rung.in training mode",
    "rung.steps on one class",
)
WEIGHTS, BUFFERS, MODE = "rung.weights", "rung.buffers", "rung.mode"


class Account(Mapping[str, Any]):
    """A program's account, whose run is made when it is first asked for: an import trains none of the visible ones."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self._program = program

    @cached_property
    def _of_its_run(self) -> dict[str, Any]:
        return account(self._program)

    def __getitem__(self, name: str) -> Any:
        return self._of_its_run[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of_its_run)

    def __len__(self) -> int:
        return len(self._of_its_run)


def account(program: Mapping[str, Any]) -> dict[str, Any]:
    """How far the loss is above the floor: in evaluation mode from step to step, and in training mode at the end.

    No program draws random numbers, so that no verdict depends on them.
    """
    network, step, loss_of = build_program(program)
    inputs, labels = (torch.tensor(program[name]) for name in ("x", "y"))
    gaps = []
    for number in range(STEPS + 1):
        with torch.no_grad():
            gaps.append(loss_of(network.eval()(inputs), labels).item() - program["floor"])
        network.train()
        if number < STEPS:
            step(inputs, labels)
    with torch.no_grad():
        last = loss_of(network(inputs), labels).item() - program["floor"]
    return {"gaps": np.array(gaps), "in training mode": last, "floor": program["floor"]}


def one_class(case: Case) -> bool:
    return len(np.unique(case.inputs["y"])) == 1


def verdict(holds: Callable[[Mapping[str, Any]], Any], asks_for_classes: bool = True) -> Simulation:
    """The verdict by a rule on a program's account."""

    def simulate(case: Case) -> Mapping[str, Any]:
        if asks_for_classes and one_class(case):
            return {VERDICT: "one class"}
        return {VERDICT: "holds" if holds(case.key) else "fails"}

    return simulate


def near(gap: float) -> bool:
    return abs(gap) <= TOLERANCE


def at_last(key: Mapping[str, Any]) -> bool:
    return near(key["gaps"][-1])


def after(steps: int) -> Simulation:
    """The verdict after another number of steps."""
    return verdict(lambda key: near(key["gaps"][steps]))


def counting(steps: int) -> Simulation:
    return lambda case: {name: 0 if one_class(case) else steps for name in (COUNT, IN_TRAINING)}


def reference(case: Case) -> Mapping[str, Any]:
    put_back = {WEIGHTS: KEPT, BUFFERS: [], MODE: "training"}
    return {**verdict(at_last)(case), **counting(STEPS)(case), ON_ONE_CLASS: 0, **put_back}


def left(**fields: str) -> Simulation:
    """A model that is not put back, where it was trained."""
    return lambda case: {} if one_class(case) else {f"rung.{name}": state for name, state in fields.items()}


def buffers_left(case: Case, outside: bool = False) -> Mapping[str, Any]:
    """All buffers changed, or the one that is not in state_dict()."""
    if one_class(case):
        return {}
    norm = [f"4.{name}" for name in ("running_mean", "running_var", "num_batches_tracked") if case.inputs["norm"]]
    names = [f"0.0.0.{name}" for name in ("running_mean", "batches", "latest")]
    return {BUFFERS: names[2:] if outside else names + norm}


def weights_left(case: Case) -> Mapping[str, Any]:
    """Of a program whose weights do not move, they are as they came."""
    moves = not one_class(case) and case.inputs["learning_rate"] > 0
    return {**buffers_left(case), **({WEIGHTS: CHANGED} if moves else {})}


def trained(rng: np.random.Generator, kind: str, classes: int, dead: bool = False, **settings: Any) -> Case:
    program = draw_program(rng, classes, **settings)
    if dead:  # below zero for every example: no unit of the hidden layer ever fires
        program["weights"][1] = np.full(HIDDEN, -50.0, np.float32)
    return Case(kind, program, Account(program))


def contradicting(rng: np.random.Generator, classes: int) -> dict[str, np.ndarray]:
    """A batch in which four inputs occur twice, with different labels: its loss stops at ln 2 / 2."""
    x, y = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32), rng.permutation(np.arange(EXAMPLES) % classes)
    x[4:8], y[4:8] = x[:4], (y[:4] + 1) % classes
    return {"y": y, "x": x}


def is_clear(case: Case) -> bool:
    """Whether rounding cannot decide on the verdict, and the mode does where it is another one in training."""
    gap, trained = abs(case.key["gaps"][-1]), abs(case.key["in training mode"])
    tempered = min(case.inputs["temper"], case.inputs["own_temper"]) < 1
    return (not tempered or trained > 2 * TOLERANCE) and not 0.6 * TOLERANCE < gap < 1.5 * TOLERANCE


GROWING = {"smoothing": 0.1, "growth": 1.045, "momentum": 0.0, "learning_rate": 0.3}
SLOWER = {"learning_rate": 0.8, "momentum": 0.5}
NEGATIVE = {"softmax": True, "logarithm": False}
KINDS = {
    "floor": ("smoothed labels", "second softmax", "below the floor", "negative loss"),
    "wiring": (
        "healthy",
        "slow",
        "contradictions",
        "normalised",
        "not cleared",
        "broken wiring",
        "reached and lost",
        "nan",
    ),
    "noise": ("tempered", "tempered by itself", "broken wiring", "second softmax"),
    "batch": ("healthy", "two classes", "one class", "one class, broken wiring", "one class, one example"),
}


def plans(rng: np.random.Generator, classes: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Kind, verdict and settings of each program of a set. Every part has programs of both verdicts."""
    smoothing = [float(rng.uniform(0.12, 0.3)) for _ in range(2)]
    broken = ({"frozen": [0, 1, 2]}, {"scale": 0.0}, {"dead": True})[int(rng.integers(3))]
    label = int(rng.integers(1, classes))
    return [
        ("healthy", "holds", {"y": np.array([0, 0, *rng.permutation(np.arange(EXAMPLES - 3) % classes), 0])}),
        ("slow", "holds", {"learning_rate": 0.015}),
        ("contradictions", "fails", contradicting(rng, classes)),
        ("normalised", "holds", {"norm": True}),
        *[("smoothed labels", "holds", {"smoothing": share}) for share in smoothing],
        ("tempered", "holds", {"temper": 0.05, **SLOWER}),
        ("tempered by itself", "holds", {"own_temper": 0.05, **SLOWER}),
        ("second softmax", "fails", {"softmax": True, "learning_rate": 0.5}),
        ("below the floor", "fails", {"floor": floor_of_smoothing(smoothing[0], classes)}),
        ("negative loss", "fails", NEGATIVE),
        ("not cleared", "fails", {"smoothing": 0.1, "clears": False}),
        ("broken wiring", "fails", broken),
        ("reached and lost", "fails", GROWING),
        ("nan", "fails", {"learning_rate": 1e38}),
        ("two classes", "holds", {"y": rng.permutation(np.arange(EXAMPLES) % 2)}),
        ("one class", "one class", {"y": np.full(EXAMPLES, 0)}),
        ("one class, broken wiring", "one class", {"y": np.full(EXAMPLES, label), **broken}),
        ("one class, one example", "one class", {"y": np.full(1, label), "x": np.ones((1, FEATURES), np.float32)}),
    ]


def drawn(rng: np.random.Generator, classes: int, kind: str, verdict_text: str, settings: dict[str, Any]) -> Case:
    return draw_until(
        lambda: trained(rng, kind, classes, **settings),
        lambda case: is_clear(case) and reference(case)[VERDICT] == verdict_text,
    )


def draw(rng: np.random.Generator) -> list[Case]:
    """Every kind, in a random order."""
    classes = int(rng.integers(3, 6))
    cases = [drawn(rng, classes, *plan) for plan in plans(rng, classes)]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """A program of any of these kinds, or a healthy one of other settings, of two to six classes."""
    classes = int(rng.integers(2, 7))
    if rng.integers(3):
        chosen = plans(rng, classes := max(classes, 3))
        return drawn(rng, classes, *chosen[rng.integers(len(chosen))])
    settings: dict[str, Any] = {
        "momentum": 0.9,
        "smoothing": float(rng.choice([0.0, 0.1, 0.3])),
        "norm": bool(rng.integers(2)),
    }
    return draw_until(
        lambda: trained(rng, "domain", classes, learning_rate=float(10 ** rng.uniform(-2.5, 0)), **settings), is_clear
    )


def visible(kind: str, **settings: Any) -> Case:
    return trained(np.random.default_rng(3), kind, 4, **settings)


TRAINED = tuple(dict.fromkeys(kind for kinds in KINDS.values() for kind in kinds if not kind.startswith("one ")))
QUESTION = Description(
    id="03b-overfit",
    parts=(
        Graded("floor", 3, (VERDICT,), on=KINDS["floor"]),
        Graded("wiring", 2, (VERDICT,), on=KINDS["wiring"]),
        Graded("steps", 1, (COUNT, IN_TRAINING), on=TRAINED, needs="wiring"),
        Graded("noise", 1, (VERDICT,), on=KINDS["noise"]),
        Graded("batch", 1, (VERDICT, ON_ONE_CLASS), on=KINDS["batch"]),
        Graded("put back", 2, (WEIGHTS, BUFFERS, MODE), needs="wiring"),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "constant-answer",
            "every program got the same verdict",
            "what of your function's arguments the verdict depends on",
            constant=(VERDICT,),
        ),
        Mistake(
            "few-steps",
            "healthy programs fail: they were stopped before they had learned the batch",
            "the number of steps that the question grants",
            after(5),
            also=tuple(after(steps) for steps in (1, 3, 20)),
            hidden_only=True,
        ),
        Mistake(
            "put-back-when-it-holds",
            "the model was put back only when its program holds",
            "what happens to the model on each way out of your function",
            lambda case: {} if near(case.key["gaps"][-1]) else weights_left(case),
            hidden_only=True,
        ),
        Mistake(
            "any-fall",
            "a loss that falls was taken for a loss that arrives; a second softmax lowers it too",
            "how far the last loss is from the floor",
            verdict(lambda key: key["gaps"][-1] < key["gaps"][0]),
        ),
        Mistake(
            "floor-ignored",
            "the loss was compared with zero, which a loss with smoothed labels cannot reach",
            "what the argument `floor` is for",
            verdict(lambda key: near(key["gaps"][-1] + key["floor"])),
        ),
        Mistake(
            "below-floor",
            "a loss far below the floor was let through: such a program computes another loss than its author believes",
            "both sides of the floor",
            verdict(lambda key: key["gaps"][-1] <= TOLERANCE),
            also=(verdict(lambda key: at_last(key) or (key["floor"] == 0 and key["gaps"][-1] < 0)),),
        ),
        Mistake(
            "best-loss",
            "the lowest loss on the way was taken; this program reached the floor and lost it again",
            "which step's loss says that the batch is memorised now",
            verdict(lambda key: np.nanmin(np.abs(key["gaps"])) <= TOLERANCE),
        ),
        Mistake(
            "nan-holds",
            "a loss that is nan was let through: every comparison with nan is False",
            "what your condition gives for nan, and which verdict that leads to",
            verdict(lambda key: not abs(key["gaps"][-1]) > TOLERANCE),
        ),
        Mistake(
            "train-mode",
            "a healthy program fails: its loss was measured in training mode",
            "the mode of the model when the loss is measured",
            verdict(lambda key: near(key["in training mode"])),
        ),
        Mistake(
            "one-class",
            "a batch of one class was tried; the last bias can learn it without any input",
            "the labels, before the first step",
            verdict(at_last, asks_for_classes=False),
            also=(
                lambda case: verdict(at_last, asks_for_classes=len(case.inputs["y"]) > 1)(case),
                lambda case: verdict(at_last, asks_for_classes=len(case.inputs["y"]) == 1)(case),
            ),
        ),
        Mistake(
            "classes-asked-late",
            "a batch of one class was trained on: such a batch is told before any step",
            "the order of the question about the classes and of the steps",
            lambda case: {ON_ONE_CLASS: STEPS} if one_class(case) else {},
        ),
        Mistake(
            "step-count",
            "the batch was not tried for exactly 100 steps",
            "how often `step` is called, and how often in all before the loss is measured",
            counting(300),
            also=tuple(counting(steps) for steps in (50, 99, 101, 200, 500, 1000)),
        ),
        Mistake(
            "steps-in-evaluation-mode",
            "steps were made while the model was in evaluation mode",
            "the mode of the model when `step` is called",
            lambda case: {IN_TRAINING: 0},
            also=(lambda case: {IN_TRAINING: 0 if one_class(case) else 1},),
        ),
        Mistake(
            "left-on-nan",
            "the model was not put back where its loss became nan",
            "whether your function returns before it puts the model back",
            lambda case: {**weights_left(case), MODE: "evaluation"} if np.isnan(case.key["gaps"][-1]) else {},
            also=(lambda case: weights_left(case) if np.isnan(case.key["gaps"][-1]) else {},),
        ),
        Mistake(
            "weights-left",
            "the model has been trained: its weights are not those that it came with",
            "what is kept before the first step, and whether it is a copy",
            weights_left,
            also=(lambda case: {**weights_left(case), BUFFERS: []},),
        ),
        Mistake(
            "buffers-left",
            "the weights are put back, and the buffers are not: a normalisation layer keeps statistics in them",
            "what the model holds besides its parameters",
            buffers_left,
        ),
        Mistake(
            "buffer-outside-left",
            "a buffer that is not in `state_dict()` was not put back",
            "what `register_buffer(…, persistent=False)` does, and what `buffers()` holds",
            lambda case: buffers_left(case, outside=True),
        ),
        Mistake(
            "mode-left",
            "the model, or a part of it, is left in evaluation mode",
            "the mode of every module when your function returns",
            left(mode="evaluation"),
        ),
    ),
    visible=(
        visible("healthy"),
        visible("healthy and slow: rate 0.015", learning_rate=0.015),
        visible("healthy with label smoothing", smoothing=0.1),
        visible("healthy with batch normalisation", norm=True),
        visible("healthy with a layer that divides by 20 in training mode", temper=0.05, **SLOWER),
        visible("healthy, and the model divides its own outputs by 20 in training mode", own_temper=0.05, **SLOWER),
        visible("four inputs occur twice, with different labels", **contradicting(np.random.default_rng(3), 4)),
        visible("a second softmax", softmax=True, learning_rate=0.5),
        visible("the inputs are multiplied by 0", scale=0.0),
        visible("gradients are never cleared", smoothing=0.1, clears=False),
        visible("the floor of label smoothing, and no smoothing in the loss", floor=floor_of_smoothing(0.1, 4)),
        visible("the rate grows by 4.5 % with every step", **GROWING),
        visible("the rate is 1e38: the loss becomes nan", learning_rate=1e38),
        visible("minus the probability as the loss: no logarithm", **NEGATIVE),
        visible("a batch of one example", x=np.ones((1, FEATURES), np.float32), y=np.full(1, 2)),
        visible("a batch of one class, inputs multiplied by 0", scale=0.0, y=np.full(EXAMPLES, 2)),
    ),
    draw=draw,
    domain=domain,
    added=0,  # they hold networks
    practice=None,  # the visible programs are of every kind already, and large
)
