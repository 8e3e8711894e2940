"""03b-fix: repair six short programs, and name the lowest rung that shows each fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..compare import agree
from ..observe import plain
from ..question import Functions, Inputs, PublicCase, PublicQuestion
from .fix_texts import MISCONCEPTIONS

PROGRAMS = ("loss", "step", "split", "labels", "evaluation", "schedule")
SOME_RUNG = "1 to 7"
Data = dict[str, Any]


def _part(name: str, run: Callable[[Callable[..., Any], Data], Data]) -> Any:
    """Observe one program; nothing where a case has no data for it."""

    def observe(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        if name not in inputs:
            return {}
        programs = functions["repaired"]()
        if not isinstance(programs, dict) or name not in programs:
            raise KeyError(f"repaired() returned no program {name!r}")
        program, rung = programs[name]
        # Which rung is right is a part of the question, so a visible case only looks whether there is one.
        if inputs.get("visible"):
            rung = SOME_RUNG if any(agree(plain(rung), number, 0.0) for number in range(1, 8)) else repr(rung)
        return {**run(program, inputs[name]), "rung": rung}

    return observe


def _tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.tensor(data["x"]), torch.tensor(data["y"])


def linear(data: Data) -> nn.Linear:
    """The linear model without bias whose weights a case gives, [classes, features]."""
    weight = torch.tensor(data["weight"])
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    with torch.no_grad():
        model.weight.copy_(weight)
    return model


def _loss(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    loss = program(model, *_tensors(data))
    loss.backward()
    return {"loss": loss, "gradient": model.weight.grad}


def _step(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    for x, y in zip(data["x"], data["y"], strict=True):
        program(model, optimizer, torch.tensor(x), torch.tensor(y))
    return {"weight": model.weight}


def _split(program: Callable[..., Any], data: Data) -> Data:
    drawn = []
    for seed in data["seeds"]:
        (x_train, y_train), (x_val, y_val) = program(*_tensors(data), torch.Generator().manual_seed(seed))
        drawn.append([x_train, y_train, x_val, y_val])
    if "told" not in data:
        return {"drawn": drawn}
    # A visible case has one expected value, and a right split many: it tells what the split is like.
    rows = [[set(map(tuple, part.tolist())) for part in (one[0], one[2])] for one in drawn]
    return {
        "sizes": [len(drawn[0][1]), len(drawn[0][3])],
        "in both parts": len(rows[0][0] & rows[0][1]),
        "the same for every seed": all(one[1] == rows[0][1] for one in rows),
    }


def _labels(program: Callable[..., Any], data: Data) -> Data:
    x, y = program(*_tensors(data))
    return {"x": x, "y": y}


def _evaluation(program: Callable[..., Any], data: Data) -> Data:
    model = nn.Sequential(nn.Dropout(0.5), linear(data))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(data["seed"])
        return {"loss": program(model, *_tensors(data))}


def _schedule(program: Callable[..., Any], data: Data) -> Data:
    model = linear(data)
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    batches = [(torch.tensor(x), torch.tensor(y)) for x, y in zip(data["x"], data["y"], strict=True)]

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(data["epochs"]):
        program(step, scheduler, batches)
    return {"weight": model.weight}


_RUNS = (_loss, _step, _split, _labels, _evaluation, _schedule)
_ONE: Data = {"x": np.array([[1.0]]), "y": np.array([0]), "weight": np.array([[1.0], [-1.0]])}
_TWO: Data = {
    "x": [np.array([[1.0]]), np.array([[2.0]])],
    "y": [np.array([0]), np.array([1])],
    "weight": np.zeros((2, 1)),
    "rate": 1.0,
}
_RIGHT_LOSS, _RIGHT_GRADIENT = 0.1269280110429726, 0.11920292202211755


def _case(name: str, program: str, data: Data, right: Data, **mistakes: Data) -> PublicCase:
    named = {mistake.replace("_", "-"): {program: given} for mistake, given in mistakes.items()}
    return PublicCase(name, {program: data, "visible": True}, {program: {**right, "rung": SOME_RUNG}}, named)


def _weight(value: float) -> Data:
    return {"weight": np.array([[value], [-value]])}


QUESTION = PublicQuestion(
    id="03b-fix",
    title="six programs to repair",
    functions=("repaired",),
    parts={name: _part(name, run) for name, run in zip(PROGRAMS, _RUNS, strict=True)},
    relative_tolerance=1e-6,
    cases=(
        _case(
            "logits 1 and -1, label 0",
            "loss",
            _ONE,
            {"loss": _RIGHT_LOSS, "gradient": np.array([[-_RIGHT_GRADIENT], [_RIGHT_GRADIENT]])},
            softmax_left={"loss": 0.3831659787937151},
        ),
        _case(
            "two steps from zero, rate 1: x = 1 of class 0, then x = 2 of class 1",
            "step",
            _TWO,
            _weight(-1.2615941559557646),
            never_cleared=_weight(-0.7615941559557646),
            cleared_too_early=_weight(0.0),
        ),
        _case(
            "twenty rows, four for validation, two seeds",
            "split",
            {"x": np.arange(20.0)[:, None], "y": np.arange(20) % 2, "seeds": [0, 1], "told": True},
            {"sizes": [16, 4], "in both parts": 0, "the same for every seed": False},
            shuffle_removed={"the same for every seed": True},
            split_overlaps={"sizes": [16, 4], "the same for every seed": False},
        ),
        _case(
            "labels 0, none, 1, 2",
            "labels",
            {"x": np.array([[0.0], [1.0], [2.0], [3.0]]), "y": np.array([0, -1, 1, 2])},
            {"x": np.array([[0.0], [2.0], [3.0]]), "y": np.array([0, 1, 2])},
            labels_shifted={"x": np.array([[0.0], [1.0], [2.0]])},
        ),
        _case(
            "logits 1 and -1, label 0, behind dropout",
            "evaluation",
            {**_ONE, "seed": 0},
            {"loss": _RIGHT_LOSS},
            still_noisy={"loss": 0.6931471805599453},
        ),
        _case(
            "two epochs of two steps from zero, rate 1, halved after each epoch",
            "schedule",
            {**_TWO, "epochs": 2},
            _weight(-0.8380774983756152),
            stepped_per_batch=_weight(-0.2856774840944152),
            never_stepped=_weight(-0.7497552712891344),
        ),
    ),
    misconceptions=MISCONCEPTIONS,
)
