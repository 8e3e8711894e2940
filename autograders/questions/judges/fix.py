"""03b-fix: what six repaired programs do, against NumPy; a rung counts once its program is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.compare import agree, difference
from lecture_lib.notebook.questions.fix import PROGRAMS

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03b-fix"
PARTS = tuple((name, 3.0) for name in PROGRAMS)
REPAIRED, RUNG = 2.0, 1.0
# Looking at samples beside their labels is rung 1; a subset that is not learned, rung 4. A schedule belongs to the rate
# as well as to the full run.
RUNGS = {"loss": (3,), "step": (3,), "split": (1,), "labels": (1, 4), "evaluation": (6,), "schedule": (6, 5)}
TOLERANCE = 1e-6
_CLASSES, _FEATURES = 3, 4


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two cases with data for every program."""
    return [HiddenCase("programs", _data(rng)) for _ in range(2)]


def _data(rng: np.random.Generator) -> dict[str, Any]:
    def examples(n: int) -> dict[str, Any]:
        return {"x": rng.normal(size=(n, _FEATURES)), "y": rng.integers(0, _CLASSES, n)}

    def batches() -> dict[str, Any]:
        each = [examples(6) for _ in range(4)]
        return {"x": [one["x"] for one in each], "y": [one["y"] for one in each], "rate": 0.5}

    def weight() -> dict[str, Any]:
        return {"weight": rng.normal(size=(_CLASSES, _FEATURES))}

    labels = examples(20)
    # Never only at the end, where cutting off would be right.
    labels["y"][rng.choice(15, 5, replace=False)] = -1
    return {
        "loss": {**examples(8), **weight()},
        "step": {**batches(), **weight()},
        "split": {**examples(40), "seeds": [int(seed) for seed in rng.choice(10_000, 3, replace=False)]},
        "labels": labels,
        "evaluation": {**examples(30), **weight(), "seed": int(rng.integers(2**31))},
        "schedule": {**batches(), **weight(), "epochs": 3},
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Two points for what a program does on both cases, and one for its rung."""
    graded = [_grade(name, cases, observations) for name in PROGRAMS]
    parts = tuple(part for part, _ in graded)
    mistakes = [mistake for _, mistake in graded]
    return Verdict(ID, parts, misconception=next((one for one in mistakes if one is not None), None))


def _grade(name: str, cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> tuple[Part, str | None]:
    maximum = REPAIRED + RUNG
    seen = [value(observation, name) for observation in observations]
    for fields, observation in zip(seen, observations, strict=True):
        if not fields or "rung" not in fields:
            return Part(name, 0.0, maximum, why_none(observation, name)), None
    found = [dict(fields or {}) for fields in seen]
    data = [case.inputs[name] for case in cases]
    if name == "split":
        wrong = next((text for one, given in zip(data, found, strict=True) if (text := _bad_split(one, given))), None)
        mistake = {"rows in both parts": "split-overlaps", "the same parts for every seed": "shuffle-removed"}.get(
            str(wrong)
        )
    else:
        wrong, mistake = _compare(name, data, found)
    if wrong:
        return Part(name, 0.0, maximum, wrong), mistake
    if all(any(agree(given["rung"], rung, 0.0) for rung in RUNGS[name]) for given in found):
        return Part(name, maximum, maximum, "repaired, and its rung named"), None
    return Part(name, REPAIRED, maximum, "repaired; its fault shows on another rung"), "rung-wrong"


def _compare(name: str, data: list[Any], found: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    def matches(expect: Callable[[Any], dict[str, Any]]) -> bool:
        return all(
            difference({field: given.get(field) for field in right}, right, TOLERANCE) is None
            for one, given in zip(data, found, strict=True)
            for right in [expect(one)]
        )

    if matches(_RIGHT[name]):
        return None, None
    mistake = next((mistake for mistake, expect in _MISTAKES[name] if matches(expect)), None)
    return "the program does not do what it should on a hidden case", mistake


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def _cross_entropy(logits: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(_softmax(logits)[np.arange(len(y)), y]).mean())


def _gradient(weight: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray((_softmax(x @ weight.T) - np.eye(len(weight))[y]).T @ x / len(y))


def loss(data: Any, twice: bool = False) -> dict[str, Any]:
    """The mean cross-entropy of a linear model, and its gradient; of probabilities instead of logits if `twice`."""
    logits = data["x"] @ data["weight"].T
    if twice:
        return {"loss": _cross_entropy(_softmax(logits), data["y"])}
    gradient = _gradient(data["weight"], data["x"], data["y"])
    return {"loss": _cross_entropy(logits, data["y"]), "gradient": gradient}


def train(data: Any, halved: str = "never", cleared: bool = True) -> dict[str, Any]:
    """Weights after the epochs of a case; the rate halved 'never', after each 'batch' or after each 'epoch'."""
    weight, rate = data["weight"].copy(), data["rate"]
    gradient = np.zeros_like(weight)
    for _ in range(data.get("epochs", 1)):
        for x, y in zip(data["x"], data["y"], strict=True):
            gradient = _gradient(weight, x, y) + (0.0 if cleared else gradient)
            weight = weight - rate * gradient
            rate *= 0.5 if halved == "batch" else 1.0
        rate *= 0.5 if halved == "epoch" else 1.0
    return {"weight": weight}


def _kept(data: Any, shifted: bool = False) -> dict[str, Any]:
    keep = data["y"] >= 0
    return {"x": data["x"][: keep.sum()] if shifted else data["x"][keep], "y": data["y"][keep]}


def _evaluated(data: Any) -> dict[str, Any]:
    return {"loss": loss(data)["loss"]}


def noisy(data: Any) -> dict[str, Any]:
    """The loss with half of the inputs dropped, by the random stream that the program had."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(data["seed"])
        dropped = torch.dropout(torch.tensor(data["x"]), 0.5, True).numpy()
    return _evaluated({**data, "x": dropped})


_RIGHT: dict[str, Callable[[Any], dict[str, Any]]] = {
    "loss": loss,
    "step": train,
    "labels": _kept,
    "evaluation": _evaluated,
    "schedule": lambda data: train(data, halved="epoch"),
}
_MISTAKES: dict[str, list[tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    "loss": [("softmax-left", lambda data: loss(data, twice=True))],
    "step": [
        ("never-cleared", lambda data: train(data, cleared=False)),
        ("cleared-too-early", lambda data: {"weight": data["weight"]}),
    ],
    "labels": [("labels-shifted", lambda data: _kept(data, shifted=True))],
    "evaluation": [("still-noisy", noisy)],
    "schedule": [
        ("stepped-per-batch", lambda data: train(data, halved="batch")),
        ("never-stepped", train),
    ],
}


def _bad_split(data: Any, fields: dict[str, Any]) -> str | None:
    """What is wrong with a case's splits, by its three seeds; None when nothing is."""
    rows = {tuple(row): index for index, row in enumerate(data["x"].tolist())}
    validation = []
    for drawn in fields.get("drawn") or [None]:
        if not isinstance(drawn, list) or len(drawn) != 4 or not all(isinstance(one, np.ndarray) for one in drawn):
            return "what came back is not two parts of inputs and labels"
        indices = []
        for x, y in (drawn[:2], drawn[2:]):
            if x.ndim != 2 or len(x) != len(y) or x.dtype != data["x"].dtype or y.dtype != data["y"].dtype:
                return "the parts have another form than the data"
            found = [rows.get(tuple(row)) for row in x.tolist()]
            if None in found or data["y"][found].tolist() != y.tolist():
                return "the parts hold rows or labels that the data do not"
            indices.append([index for index in found if index is not None])
        if set(indices[0]) & set(indices[1]):
            return "rows in both parts"
        if sorted(indices[0] + indices[1]) != list(range(len(data["x"]))) or len(indices[1]) != len(data["x"]) // 5:
            return "a fifth for validation and the rest for training is not what came back"
        validation.append(frozenset(indices[1]))
    if len(validation) != len(data["seeds"]):
        return "the parts could not be read"
    return "the same parts for every seed" if len(set(validation)) == 1 else None
