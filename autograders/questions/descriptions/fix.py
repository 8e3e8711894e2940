"""03b-fix: what six repaired programs do, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

CLASSES, FEATURES = 3, 4
Data = Mapping[str, Any]


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def cross_entropy(logits: np.ndarray, y: np.ndarray) -> float:
    highest = logits.max(axis=1)
    sums = np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return float((highest + sums - logits[np.arange(len(y)), y]).mean())


def gradient(weight: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray((softmax(x @ weight.T) - np.eye(len(weight))[y]).T @ x / len(y))


def logits(data: Data) -> np.ndarray:
    return np.asarray(data["x"] @ data["weight"].T)


def loss(data: Data) -> dict[str, Any]:
    """The mean cross-entropy of a linear model, and its gradient."""
    return {
        "loss": cross_entropy(logits(data), data["y"]),
        "gradient": gradient(data["weight"], data["x"], data["y"]),
    }


def train(data: Data, halved: str = "never", cleared: bool = True, left: float = 0.0) -> dict[str, Any]:
    """Weights after a case's epochs, with gradients `left` from before them.

    The rate is halved 'never', after each 'batch', 'before' or 'after' each epoch.
    """
    weight, rate = data["weight"].copy(), data["rate"]
    total = np.full_like(weight, left)
    for _ in range(data.get("epochs", 1)):
        rate *= 0.5 if halved == "before" else 1.0
        for x, y in zip(data["x"], data["y"], strict=True):
            total = total + gradient(weight, x, y)
            weight = weight - rate * total
            total = 0.0 * total if cleared else total
            rate *= 0.5 if halved == "batch" else 1.0
        rate *= 0.5 if halved == "after" else 1.0
    return {"weight": weight}


def split(data: Data) -> dict[str, Any]:
    few = len(data["y"]) // 5
    facts = dict.fromkeys(("rows with their labels", "every row once", "the same for the same seed"), True)
    sizes = {"sizes": [len(data["y"]) - few, few], "in both parts": 0}
    return {**sizes, **facts, "another one for another seed": few > 0}


def overlapping(data: Data) -> dict[str, Any]:
    """The two parts by two orders, the same generator's."""
    n, few = len(data["y"]), len(data["y"]) // 5
    shared, missing = [], []
    for seed in data["seeds"]:
        stream = torch.Generator().manual_seed(seed)
        first, second = (torch.randperm(n, generator=stream).tolist() for _ in range(2))
        shared.append(len(set(first[few:]) & set(second[:few])))
        missing.append(n - len({*first[few:], *second[:few]}))
    return {"in both parts": max(shared), "every row once": not any(missing)}


def no_training(data: Data) -> dict[str, Any]:
    n = len(data["y"])
    return {"sizes": [0, n]} if n < 5 else {}


def labelled(data: Data, keep: Any = lambda y: y >= 0) -> dict[str, Any]:
    kept = keep(data["y"])
    return {"x": data["x"][kept], "y": data["y"][kept]}


def shifted(data: Data) -> dict[str, Any]:
    return {"x": data["x"][: int((data["y"] >= 0).sum())]}


def evaluated(data: Data) -> dict[str, Any]:
    return {"loss": cross_entropy(logits(data), data["y"])}


def noisy(data: Data) -> dict[str, Any]:
    """The loss with all inputs dropped."""
    return evaluated({**data, "x": 0.0 * data["x"]})


RIGHT: dict[str, Callable[[Any], dict[str, Any]]] = {
    "loss": loss,
    "step": train,
    "split": split,
    "labels": labelled,
    "evaluation": evaluated,
    "schedule": lambda data: train(data, halved="after"),
}


def reference(case: Case) -> Mapping[str, Any]:
    return {f"{name}.{field}": right for name, run in RIGHT.items() for field, right in run(case.inputs[name]).items()}


def of(name: str, mistaken: Callable[[Any], dict[str, Any]]) -> Simulation:
    """What a mistake in one program gives."""
    return lambda case: {f"{name}.{field}": wrong for field, wrong in mistaken(case.inputs[name]).items()}


def examples(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.normal(size=(n, FEATURES)), "y": rng.permutation(np.arange(n) % CLASSES)}


def data(
    rng: np.random.Generator,
    n: int,
    batches: tuple[int, ...],
    unlabelled: Any,
    rows: int | None = None,
    apart: float = 1.0,
) -> dict[str, Any]:
    """Inputs of all six programs.

    `unlabelled` are the places of the examples without a label, of 12. `rows` are those of the split. `apart` scales
    the logits of `loss` and `evaluation`: float64 has no exponential of -1000.
    """
    weight = {"weight": rng.normal(size=(CLASSES, FEATURES))}
    steep = {"weight": apart * weight["weight"]}
    each = [examples(rng, size) for size in batches]
    several = {"x": [batch["x"] for batch in each], "y": [batch["y"] for batch in each], "rate": 0.5, **weight}
    labels = examples(rng, 12)
    labels["y"][unlabelled] = -1
    return {
        "loss": {**examples(rng, n), **steep},
        "step": several,
        "split": {
            **examples(rng, 3 * n + 20 + 5 * int(rng.integers(40)) if rows is None else rows),
            "seeds": [int(seed) for seed in rng.choice(10_000, 3, replace=False)],
        },
        "labels": labels,
        "evaluation": {**examples(rng, n + 20), **steep},
        "schedule": {**several, "epochs": len(batches)},
    }


def draw(rng: np.random.Generator) -> list[Case]:
    """Uneven batches, a batch of one, fifths that are rounded down, also to nothing, logits far apart.

    Labels are missing at both ends, nowhere, everywhere, and everywhere but once.
    """
    middle = rng.choice(np.arange(1, 9), 4, replace=False)
    alone = rng.integers(12)
    plans: tuple[tuple[Any, ...], ...] = (
        (8, (6, 6, 3, 5), [0, 11, *middle]),
        (7, (4, 1, 6), middle),
        (1, (3, 2), []),
        (5, (2, 4), np.arange(12) != alone, int(rng.integers(1, 5)), 3000.0),
        (2, (1, 1), np.arange(12), 29),
    )
    return [Case("programs", data(rng, *plan)) for plan in plans]


def domain(rng: np.random.Generator) -> Case:
    """Any sizes, and any places of missing labels."""
    sizes = tuple(int(size) for size in rng.integers(1, 8, rng.integers(2, 5)))
    rows, apart = [None, int(rng.integers(1, 5))][rng.integers(2)], [1.0, 3000.0][rng.integers(2)]
    unlabelled = rng.random(12) < rng.uniform(0, 1.1)
    return Case("domain", data(rng, int(rng.integers(1, 12)), sizes, unlabelled, rows, apart))


ONE = {"x": np.array([[1.0]]), "y": np.array([0]), "weight": np.array([[1.0], [-1.0]])}
TWO = {
    "x": [np.array([[1.0]]), np.array([[2.0]])],
    "y": [np.array([0]), np.array([1])],
    "weight": np.zeros((2, 1)),
    "rate": 1.0,
}
BY_HAND: dict[str, Any] = {
    "loss": ONE,
    "step": TWO,
    "split": {"x": np.arange(20.0)[:, None], "y": np.arange(20) % 2, "seeds": [0, 1]},
    "labels": {"x": np.array([[0.0], [1.0], [2.0], [3.0]]), "y": np.array([0, -1, 1, 2])},
    "evaluation": ONE,
    "schedule": {**TWO, "epochs": 2},
}

REPAIRED = {
    "loss": ("loss", "gradient"),
    "step": ("weight",),
    "split": tuple(split(BY_HAND["split"])),
    "labels": ("x", "y"),
    "evaluation": ("loss",),
    "schedule": ("weight",),
}
QUESTION = Description(
    id="03b-fix",
    parts=tuple(Graded(name, 2, tuple(f"{name}.{field}" for field in fields)) for name, fields in REPAIRED.items()),
    reference=reference,
    mistakes=(
        Mistake(
            "softmax-left",
            "the loss still goes through two softmaxes",
            "what cross_entropy does to its first argument",
            of("loss", lambda data: {"loss": cross_entropy(softmax(logits(data)), data["y"])}),
        ),
        Mistake(
            "loss-summed",
            "the losses of the examples were added: the program asks for their mean",
            "the loss of a batch that holds the same example twice",
            of("loss", lambda data: {field: right * len(data["y"]) for field, right in loss(data).items()}),
        ),
        Mistake(
            "never-cleared",
            "the second step still contains the first one's gradient",
            "what backward does to a .grad that is not empty",
            of("step", lambda data: train(data, cleared=False, left=1.0)),
        ),
        Mistake(
            "old-gradient",
            "the first step still contains a gradient that was left from before it",
            "what is in .grad before the first backward",
            of("step", lambda data: train(data, left=1.0)),
        ),
        Mistake(
            "cleared-too-early",
            "the weights do not move: the gradient was gone before it was used",
            "the order of backward, step and zero_grad",
            of("step", lambda data: {"weight": data["weight"]}),
        ),
        Mistake(
            "split-overlaps",
            "some rows are in both parts",
            "how often an order is drawn",
            of("split", overlapping),
        ),
        Mistake(
            "empty-fifth",
            "of fewer than five examples, all went into the validation part: a fifth of four, rounded down, is 0",
            "what order[-0:] gives",
            of("split", no_training),
        ),
        Mistake(
            "shuffle-removed",
            "the parts no longer overlap, and no longer depend on the generator: data that come sorted would be split "
            "by class",
            "what the generator is for",
            of("split", lambda data: {"another one for another seed": False}),
        ),
        Mistake(
            "generator-ignored",
            "the same generator gives another split the second time",
            "which random stream your order is drawn from",
            of("split", lambda data: {"the same for the same seed": len(data["y"]) < 5}),
        ),
        Mistake(
            "labels-shifted",
            "inputs and labels are still paired wrongly once a label is missing",
            "which rows leave x, and which leave y",
            of("labels", shifted),
        ),
        Mistake(
            "class-0-dropped",
            "the examples of class 0 were left out with those that have no label",
            "the smallest label that there is",
            of("labels", lambda data: labelled(data, lambda y: y > 0)),
        ),
        Mistake(
            "still-noisy",
            "the loss is still measured while units are being dropped",
            "the mode of the model",
            of("evaluation", noisy),
        ),
        Mistake(
            "stepped-per-batch",
            "the rate is still halved after every batch",
            "in which of the two, batch or epoch, the schedule is counted",
            of("schedule", lambda data: train(data, halved="batch")),
        ),
        Mistake(
            "stepped-first",
            "the rate is halved before the first epoch already",
            "whether the schedule moves on before the batches or behind them",
            of("schedule", lambda data: train(data, halved="before")),
        ),
        Mistake(
            "never-stepped",
            "the rate is never halved now",
            "where the schedule moves on",
            of("schedule", train),
        ),
    ),
    visible=(
        Case("one or two examples, by hand", BY_HAND),
        Case("small batches", {**data(np.random.default_rng(0), 4, (3, 2), [0, 5])}),
        Case(
            "one label, a split of four, logits far apart",
            {**data(np.random.default_rng(1), 4, (1, 1), np.arange(12) != 7, 4, 3000.0)},
        ),
    ),
    draw=draw,
    domain=domain,
    added=8,
)
