"""03b-overfit: run a program on one batch, compare its loss with the lowest that it can have, put the model back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, PublicCase, PublicQuestion
from .overfit_programs import build_program, draw_program, floor_of_smoothing
from .overfit_texts import MISCONCEPTIONS

VERDICTS = ("holds", "fails", "one class")
_CLASSES = 4


def _rung(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model, step, loss_fn = build_program(inputs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(inputs["seed"])
        batch = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
        verdict = functions["overfit_rung"](model, step, loss_fn, *batch, inputs["floor"])
    if not isinstance(verdict, str):
        raise TypeError(f"overfit_rung returned a {type(verdict).__name__}; return one of {', '.join(VERDICTS)}")
    return {"verdict": verdict, "weights": list(model.parameters()), "training": model.training}


def _case(name: str, verdict: str, mistakes: dict[str, str], **settings: Any) -> PublicCase:
    """One program; `mistakes` maps a misconception to the verdict that it gives."""
    inputs = draw_program(np.random.default_rng(3), _CLASSES, **settings)
    put_back = {"weights": inputs["weights"], "training": True}
    return PublicCase(
        name=name,
        inputs=inputs,
        expected={"rung": {"verdict": verdict, **put_back}},
        mistakes={
            **{mistake: {"rung": {"verdict": given}} for mistake, given in mistakes.items()},
            "mode-left": {"rung": {"verdict": verdict, "training": False}},
            "weights-left": {"rung": {"verdict": verdict}},
        },
    )


_ONE_CLASS = np.full(16, 2)

QUESTION = PublicQuestion(
    id="03b-overfit",
    title="overfit one batch",
    functions=("overfit_rung",),
    parts={"rung": _rung},
    cases=(
        _case("healthy", "holds", {"few-steps": "fails"}),
        _case("healthy and slow: rate 0.015", "holds", {"few-steps": "fails"}, learning_rate=0.015),
        _case("healthy with label smoothing", "holds", {"floor-ignored": "fails"}, smoothing=0.1),
        _case("healthy with dropout", "holds", {"train-mode": "fails"}, dropout=0.65, learning_rate=0.05, seed=7),
        _case("a second softmax", "fails", {"any-fall": "holds"}, softmax=True, learning_rate=0.5),
        _case("the inputs are multiplied by 0", "fails", {"any-fall": "holds"}, scale=0.0),
        _case("gradients are never cleared", "fails", {"any-fall": "holds"}, smoothing=0.1, clears=False),
        _case(
            "the floor of label smoothing, and no smoothing in the loss",
            "fails",
            {"below-floor": "holds", "floor-ignored": "holds"},
            floor=floor_of_smoothing(0.1, _CLASSES),
        ),
        _case(
            "the rate grows by 4.5 % with every step",
            "fails",
            {"best-loss": "holds"},
            **{"smoothing": 0.1, "growth": 1.045, "momentum": 0.0, "learning_rate": 0.3},
        ),
        _case("the rate is 1e38: the loss becomes nan", "fails", {"nan-holds": "holds"}, learning_rate=1e38),
        _case(
            "a batch of one class, inputs multiplied by 0", "one class", {"one-class": "holds"}, scale=0, y=_ONE_CLASS
        ),
    ),
    misconceptions=MISCONCEPTIONS,
)
