"""03a-recipe: the whole recipe on data that were never seen, with the record of the run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...experiments import content_id
from ..question import Functions, Inputs, PublicCase, PublicQuestion
from .recipe_texts import MISCONCEPTIONS

HIDDEN = 24
CHANCE_FREE, LEARNED_BY_HEART = 0.6, 0.9
FIELDS = ("seed", "data_id", "split_id", "precision", "status")


def _build(inputs: Inputs) -> Callable[[], nn.Module]:
    features, classes = inputs["x"].shape[1], inputs["classes"]
    return lambda: nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def _train(functions: Functions, inputs: Inputs, seed: int) -> tuple[list[Tensor], dict[str, Any]]:
    """The weights that the recipe returns, layer by layer, and its record as a dict."""
    torch.rand(1)  # an ambient stream that differs between two calls, whatever was drawn before
    data = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
    split = tuple(torch.tensor(rows) for rows in inputs["split"])
    model, record = functions["run_recipe"](_build(inputs), *data, split, dict(inputs["config"]) | {"seed": seed})
    state = model.state_dict() if isinstance(model, nn.Module) else model
    if not isinstance(state, Mapping):
        raise TypeError(f"the first thing returned is a {type(model).__name__}, not the model")
    if is_dataclass(record) and not isinstance(record, type):
        record = asdict(record)
    if not isinstance(record, Mapping):
        raise TypeError(f"the record is a {type(record).__name__}, neither a RunRecord nor a dict")
    return [tensor.detach().clone() for tensor in state.values()], dict(record)


def _run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """One run in full: for the judge, which computes everything else from it."""
    weights, record = _train(functions, inputs, inputs["config"]["seed"])
    return {
        "weights": weights,
        "record": {name: record.get(name) for name in (*FIELDS, "config", "code", "hardware")},
        "val_loss": _column(record, "val_loss"),
        "val_metric": _column(record, "val_metric"),
        "here": {"python": platform.python_version(), "torch": torch.__version__},
    }


def _again(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """The weights of the same seed once more and of the next one."""
    if not inputs["repeat"]:
        return {}
    seed = inputs["config"]["seed"]
    return {"same": _train(functions, inputs, seed)[0], "next": _train(functions, inputs, seed + 1)[0]}


def _learned(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    weights, record = _train(functions, inputs, inputs["config"]["seed"])
    loss, share = validation(weights, inputs)
    recorded = _column(record, "val_loss")
    return {
        "more right than chance": share > CHANCE_FREE,
        "wrong labels learned by heart": share > LEARNED_BY_HEART,
        "rows of metrics": len(recorded),
        "the weights have the lowest recorded val_loss": bool(
            len(recorded) and abs(loss - recorded.min()) < 1e-3 * max(1.0, loss)
        ),
    }


def _record(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    _, record = _train(functions, inputs, inputs["config"]["seed"])
    config, code, machine = (_mapping(record.get(name)) for name in ("config", "code", "hardware"))
    found = {name: record.get(name) for name in FIELDS}
    versions = {name: machine.get(name) for name in ("python", "torch")}
    return found | {
        "config": {name: config.get(name) for name in inputs["config"]},
        "code": "commit" in code,
        "hardware": versions == {"python": platform.python_version(), "torch": torch.__version__},
    }


def _repeated(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    seed = inputs["config"]["seed"]
    first, same, other = (_train(functions, inputs, number)[0] for number in (seed, seed, seed + 1))
    return {"same seed, same weights": _equal(first, same), "other seed, other weights": not _equal(first, other)}


def _mapping(entry: Any) -> Mapping[str, Any]:
    return entry if isinstance(entry, Mapping) else {}


def _equal(left: list[Tensor], right: list[Tensor]) -> bool:
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def _column(record: Mapping[str, Any], name: str) -> np.ndarray:
    rows = record.get("metrics") or []
    return np.asarray([float(row[name]) for row in rows if isinstance(row, Mapping) and name in row])


def validation(weights: list[Tensor], inputs: Inputs) -> tuple[float, float]:
    """Mean cross-entropy (nats) and share right on the validation rows, with the labels as they are."""
    rows = inputs["split"][1]
    x, y = torch.tensor(inputs["x"][rows]), torch.tensor(inputs["y"][rows])
    first_weight, first_bias, last_weight, last_bias = weights
    scores = (x @ first_weight.T + first_bias).relu() @ last_weight.T + last_bias
    return nn.functional.cross_entropy(scores, y).item(), (scores.argmax(1) == y).float().mean().item()


def _part(run: Callable[[Functions, Inputs], dict[str, Any]], *, visible: bool) -> Callable[..., dict[str, Any]]:
    """What is only shown is not trained for while grading, and what only the judge reads is not while checking."""

    def part(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        functions["run_recipe"]  # asked for in every part, so that a stub is unanswered in each
        return run(functions, inputs) if inputs.get("visible", False) == visible else {}

    return part


def _visible() -> dict[str, Any]:
    """120 points around three centres; every fifth label says another class."""
    rng = np.random.default_rng(7)
    truth = np.arange(120) % 3
    centres = 4 * np.eye(3, 32)
    x = (centres[truth] + rng.uniform(-1.5, 1.5, (120, 32))).astype(np.float32)
    y = np.where(np.arange(120) % 5 == 0, (truth + 1) % 3, truth)
    rows = rng.permutation(120)
    return {
        "visible": True,
        "x": x,
        "y": y,
        "split": [rows[:80], rows[80:]],
        "classes": 3,
        "config": {"epochs": 30, "batch_size": 16, "learning_rate": 0.03, "seed": 5},
    }


_CASE = _visible()
_WORKS = {
    "more right than chance": True,
    "wrong labels learned by heart": False,
    "rows of metrics": 30,
    "the weights have the lowest recorded val_loss": True,
}
_COMPLETE = {
    "seed": 5,
    "data_id": content_id(_CASE["x"], _CASE["y"]),
    "split_id": content_id(*_CASE["split"]),
    "precision": "fp32",
    "status": "finished",
    "config": _CASE["config"],
    "code": True,
    "hardware": True,
}


QUESTION = PublicQuestion(
    id="03a-recipe",
    title="the whole recipe and its run record",
    functions=("run_recipe",),
    parts={
        "run": _part(_run, visible=False),
        "again": _part(_again, visible=False),
        "learned": _part(_learned, visible=True),
        "record": _part(_record, visible=True),
        "repeated": _part(_repeated, visible=True),
    },
    relative_tolerance=1e-6,
    cases=(
        PublicCase(
            name="120 points in three classes",
            inputs=_CASE,
            expected={
                "learned": _WORKS,
                "record": _COMPLETE,
                "repeated": {"same seed, same weights": True, "other seed, other weights": True},
            },
            mistakes={
                "untrained": {"learned": {"more right than chance": False}},
                "trained-on-validation": {"learned": {"wrong labels learned by heart": True}},
                "metrics-missing": {"learned": {"rows of metrics": 0}},
                "metrics-once": {"learned": {"rows of metrics": 1}},
                "last-not-best": {"learned": {"the weights have the lowest recorded val_loss": False}},
                "config-missing": {"record": {"config": dict.fromkeys(_CASE["config"])}},
                "seed-missing": {"record": {"seed": None}},
                "data-id-missing": {"record": {"data_id": None}},
                "environment-missing": {"record": {"hardware": False}},
                "code-missing": {"record": {"code": False}},
                "unfinished": {"record": {"status": "running"}},
                "unseeded": {"repeated": {"same seed, same weights": False}},
                "seed-ignored": {"repeated": {"other seed, other weights": False}},
            },
        ),
    ),
    misconceptions=MISCONCEPTIONS,
)
