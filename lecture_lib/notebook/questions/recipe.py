"""03a-recipe: the whole recipe on data that were never seen, with the record of the run."""

from __future__ import annotations

import contextlib
import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from ..observe import plain
from ..question import Functions, Inputs, PublicQuestion

HIDDEN, ENOUGH = 24, 0.55
NEAR_PEAK = 0.8
"""A schedule's highest rate may fall between two steps."""
ENTRIES = ("seed", "data_id", "split_id", "precision", "status")
OTHER_ROW, NO_ROW = "no: that of another row", "no: that of no row"
Weights = Sequence[np.ndarray]


class _Watch:
    """What each optimizer step of a run learned from, and at which rate."""

    def __init__(self, x: np.ndarray, classes: int) -> None:
        self.rows: list[int] = []
        """Of `x`, in the order in which a loss was propagated back to them; -1 for a point that is no row of it."""
        self.sizes: list[int] = []
        self.rates: list[float] = []
        self.left: list[bool] = []
        """For the first backward pass after each step: whether gradients of the step before are still there."""
        self._features, self._classes, self._stepped = x.shape[1], classes, False
        # By its bytes: a batch holds copies of the rows, in an order that only they tell.
        self._row_of = {row.tobytes(): number for number, row in enumerate(x)}

    def forward(self, module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        # register_hook refuses an output that needs no gradient, as validation under no_grad gives.
        if isinstance(module, nn.Linear) and module.in_features == self._features and output.requires_grad:
            points = arguments[0].detach().float().cpu().numpy()
            rows = [self._row_of.get(point.tobytes(), -1) for point in points.reshape(-1, self._features)]
            output.register_hook(lambda gradient: self.rows.extend(rows))

        if isinstance(module, nn.Linear) and module.out_features == self._classes and output.requires_grad:
            # Called before this pass adds anything to a gradient: the last layer is the first that it reaches.
            output.register_hook(lambda _: self._look_at(module.weight.grad))

    def _look_at(self, gradient: Tensor | None) -> None:
        if self._stepped:
            self.left.append(gradient is not None and bool(gradient.any()))
        self._stepped = False

    def step(self, optimizer: Optimizer, *_: Any) -> None:
        self._stepped = True
        self.sizes.append(len(self.rows) - sum(self.sizes))
        self.rates.append(max(float(group["lr"]) for group in optimizer.param_groups))


@contextlib.contextmanager
def _watching(x: np.ndarray, classes: int) -> Iterator[_Watch]:
    watch = _Watch(x, classes)
    hooks = register_module_forward_hook(watch.forward), register_optimizer_step_pre_hook(watch.step)
    try:
        yield watch
    finally:
        for hook in hooks:
            hook.remove()


def _arguments(inputs: Inputs) -> tuple[Any, ...]:
    return torch.tensor(inputs["x"]), torch.tensor(inputs["y"]), tuple(torch.tensor(rows) for rows in inputs["split"])


def _run(functions: Functions, inputs: Inputs, seed: int, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
    """What a run trained on, its first and last weights layer by layer, and its record as a dict."""
    for draw in (torch.rand, np.random.rand, lambda _: random.random()):
        draw(1)  # ambient streams that differ between two calls, whatever was drawn before
    classes, features, share = inputs["classes"], inputs["x"].shape[1], inputs["dropout"]
    start: list[Tensor] = []

    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Dropout(share), nn.Linear(HIDDEN, classes))
        start[:] = [tensor.detach().clone() for tensor in model.parameters()]
        return model

    with _watching(inputs["x"], classes) as watch:
        model, record = functions["run_recipe"](build, *arguments, {**inputs["config"], "seed": seed})
    state = model.state_dict() if isinstance(model, nn.Module) else model
    if not isinstance(state, Mapping) or [tensor.shape for tensor in state.values()] != [t.shape for t in start]:
        raise TypeError(f"the first thing returned is a {type(model).__name__}, not the network of build_model")
    if is_dataclass(record) and not isinstance(record, type):
        record = asdict(record)
    if not isinstance(record, Mapping):
        raise TypeError(f"the record is a {type(record).__name__}, neither a RunRecord nor a dict")
    run: dict[str, Any] = {name: np.array(getattr(watch, name)) for name in ("rows", "sizes", "rates", "left")}
    run |= {"start": start, "weights": [tensor.detach().clone() for tensor in state.values()]}
    return run | {name: _column(record, name) for name in ("val_loss", "val_metric")}, record


def _column(record: Mapping[str, Any], name: str) -> np.ndarray:
    rows = record.get("metrics") or []
    return np.array([float(row[name]) for row in rows if isinstance(row, Mapping) and name in row])


def _training(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """A run, the same once more, and one with another seed, all on the same tensors."""
    seed, arguments = inputs["config"]["seed"], _arguments(inputs)
    first, again, other_seed = (_run(functions, inputs, number, arguments)[0] for number in (seed, seed, seed + 1))
    return {"run": first, "same": again, "other": other_seed}


def training_facts(runs: Mapping[str, Any], inputs: Inputs, held_out: Sequence[np.ndarray]) -> dict[str, bool | str]:
    """What can be said of three runs, whatever the recipe is."""
    config, training = inputs["config"], inputs["split"][0]
    run, same, other_seed = runs["run"], runs["same"], runs["other"]
    count, size, rate, epochs = len(training), *(config[n] for n in ("batch_size", "learning_rate", "epochs"))
    orders = [_epochs(result["rows"], epochs) for result in (run, other_seed)]
    return {
        # Chance alone may be right often enough, and a right recipe gets stuck now and then, in one of two runs.
        "right on new points": not _equal(run["weights"], run["start"])
        and max(_share_right(result["weights"], held_out) for result in (run, other_seed)) >= ENOUGH,
        "only training rows": bool(np.isin(run["rows"], training).all()),
        "as many epochs as config says": epochs * (count // size) * size <= len(run["rows"]) <= epochs * count,
        "gradients of one step only": not np.any(run["left"]),
        "batches of batch_size": bool(len(run["sizes"]) and np.bincount(run["sizes"]).argmax() == size),
        "highest rate is learning_rate": bool(NEAR_PEAK * rate <= max(run["rates"], default=0) <= rate * (1 + 1e-6)),
        "a new order in each epoch": len(np.unique(orders[0], axis=0)) == epochs,
        "no row twice in an epoch": bool(np.diff(np.sort(orders[0], axis=1)).all()),
        "same seed, same weights": _equal(run["weights"], same["weights"]),
        "other seed, other first weights": not _equal(run["start"], other_seed["start"]),
        "other seed, other order": not np.array_equal(orders[0], orders[1]),
        "other seed, other weights": not _equal(run["weights"], other_seed["weights"]),
        "the weights have the lowest recorded val_loss": _of_both(_best(run, inputs)[0], _best(other_seed, inputs)[0]),
        "the weights have the val_metric of that row": all(_best(result, inputs)[1] for result in (run, other_seed)),
    }


def _share_right(weights: Weights, held_out: Sequence[np.ndarray]) -> float:
    return float((scores(weights, held_out[0]).argmax(1) == held_out[1]).mean())


def _epochs(rows: np.ndarray, epochs: int) -> np.ndarray:
    """The rows that a run learned from, one line an epoch."""
    count = len(rows) // epochs
    return rows[: epochs * count].reshape(epochs, count)


def _equal(left: Weights, right: Weights) -> bool:
    return all(bool((a == b).all()) for a, b in zip(left, right, strict=True))


def scores(weights: Weights, x: np.ndarray) -> np.ndarray:
    """The network's outputs [N, classes] for points [N, features], in float64."""
    first, first_bias, last, last_bias = (array.astype(np.float64) for array in weights)
    return np.asarray(np.maximum(x @ first.T + first_bias, 0) @ last.T + last_bias)


def _recorded(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    run, record = _run(functions, inputs, inputs["config"]["seed"], _arguments(inputs))
    kept = {name: record.get(name) for name in (*ENTRIES, "config", "code", "hardware")}
    here = {"python": platform.python_version(), "torch": torch.__version__}
    return {"record": kept, "here": here, "val_loss": run["val_loss"], "val_metric": run["val_metric"]}


def record_facts(observation: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """What a record says."""
    config, code, machine = (
        entry if isinstance(entry := observation["record"].get(name), Mapping) else {}
        for name in ("config", "code", "hardware")
    )
    return {name: observation["record"].get(name) for name in ENTRIES} | {
        "config": all(bool(config.get(name) == number) for name, number in inputs["config"].items()),
        "code": isinstance(code.get("commit") or code.get("reason"), str),
        "hardware": all(machine.get(name) == version for name, version in observation["here"].items()),
        "rows of metrics": min(len(observation["val_loss"]), len(observation["val_metric"])),
        "rows that differ": 2 * len(np.unique(observation["val_loss"])) > len(observation["val_loss"]),
    }


def _best(run: Mapping[str, Any], inputs: Inputs) -> tuple[bool | str, bool]:
    """Whether the weights have the lowest recorded loss, or else whose, and whether they have that row's metric."""
    losses, shares = run["val_loss"], run["val_metric"]
    if not len(losses) == len(shares) > 0 or not np.isfinite(losses).all():
        return NO_ROW, False
    loss, share = validation(run["weights"], inputs)
    owner = OTHER_ROW if any(_close(loss, recorded, 1e-5) for recorded in losses) else NO_ROW
    return _close(loss, losses.min()) or owner, _close(share, shares[losses.argmin()])


def _of_both(first: bool | str, second: bool | str) -> bool | str:
    """True when it holds for both runs: one alone may have a noisy loss that comes near by chance."""
    return min({first, second} - {True}, key=str, default=True)


def validation(weights: Weights, inputs: Inputs) -> tuple[float, float]:
    """Mean cross-entropy (nats) and share right on the validation rows, with their labels as given."""
    rows = inputs["split"][1]
    outputs, labels = scores(weights, inputs["x"][rows]), inputs["y"][rows]
    outputs = outputs - outputs.max(1, keepdims=True)
    logs = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    return float(-logs[np.arange(len(labels)), labels].mean()), float((outputs.argmax(1) == labels).mean())


def _close(number: float, recorded: float, tolerance: float = 1e-3) -> bool:
    return abs(number - recorded) <= tolerance * max(1.0, number)


def _part(run: Callable[..., dict[str, Any]], facts: Callable[..., dict[str, Any]], *key: str) -> Callable[..., Any]:
    """A visible case has the held-out points, so its facts are told at once; a hidden one's are found by the judge."""

    def part(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        raw = run(functions, inputs)
        if "held_out" not in inputs:
            return raw
        return facts(plain(raw), inputs, *(inputs[name] for name in key))

    return part


QUESTION = PublicQuestion(
    id="03a-recipe",
    title="the whole recipe and its run record",
    functions=("run_recipe",),
    parts={"training": _part(_training, training_facts, "held_out"), "record": _part(_recorded, record_facts)},
)
