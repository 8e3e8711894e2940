"""The batch contract: what a batch must satisfy before a model sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._contract_table import CONTRACTS, REMEDIES, SCALED

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
FAR = 10.0  # standardised columns have mean 0 and deviation 1; ten of them off was never scaled
ONE_CLASS_BY_CHANCE = 0.01  # with equally common classes: 8 examples of 2 classes, 4 of 10
_RANKS = {"classification": (2, 4), "multi-label": (2, 4), "sequence": (2, 3), "segmentation": (4,)}


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a batch.

    Attributes:
        item: 'inputs', 'labels' or 'outputs'.
        kind: 'shape', 'dtype', 'range', 'finite', 'constant' or 'one class'.
        found: what the batch has.
        wanted: what the contract says.
        remedy: what to do.

    """

    item: str
    kind: str
    found: str
    wanted: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.item}, {self.kind}: {self.found}; wanted: {self.wanted}. {self.remedy}."


def check_contract(
    task: str,
    inputs: Tensor,
    labels: Tensor,
    outputs: Tensor | None = None,
    *,
    classes: int | None = None,
    ignore_index: int = -100,
) -> list[Violation]:
    """Compare a batch with the contract of its task.

    A batch of one class is reported when equally common classes would give it less often than once in a hundred
    (unknown classes count as two). Where a class is rare, or most masks are empty, pass a larger batch. Soft labels
    [B, K], as mixing and smoothing give them, are sound; one-hot labels are not. uint8 class labels [B] are sound,
    since CrossEntropyLoss takes them; with more dimensions it does not.

    Source: lecture part 2, the batch contract.

    Args:
        task: a key of CONTRACTS.
        inputs: what the model gets; shapes as in CONTRACTS.
        labels: what the loss gets beside the outputs.
        outputs: of the model, where they are at hand.
        classes: how many; default: as many as the outputs have, else unknown, and only negative labels are refused
            (in masks 255 too).
        ignore_index: the label that the loss leaves out.

    Returns:
        Everything that is wrong, inputs first; an empty list for a sound batch. Where the inputs are empty or have the
        wrong number of dimensions, only what is wrong with them: labels and outputs are compared with their shape.
        Nothing is changed.

    Raises:
        ValueError: there is no such task, or classes is below 1.
        TypeError: something is not a tensor.

    """
    if task not in CONTRACTS:
        raise ValueError(f"there is no contract for {task!r}. Take one of: {', '.join(CONTRACTS)}.")
    if classes is not None and classes < 1:
        raise ValueError(f"classes is {classes}; it counts them, 1 or more. Leave it out where it is unknown.")
    for name, value in (("inputs", inputs), ("labels", labels), ("outputs", inputs if outputs is None else outputs)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} are of type {type(value).__name__}, not a tensor. Use torch.as_tensor.")
    x, y, out = inputs.detach(), labels.detach(), None if outputs is None else outputs.detach()
    violations = list(_inputs(task, x, y))
    if any(violation.kind == "shape" for violation in violations):
        return violations
    soft = _soft(task, x, y)
    indices = CONTRACTS[task].labels_dtype == "int64" and not soft
    steps = task == "sequence" and out is not None and out.ndim == 3
    classes_last = steps and out is not None and out.shape[:2] == y.shape != out.shape[::2]
    if indices and classes is None and out is not None and out.ndim > 1:
        classes = out.shape[2 if classes_last else 1]
    if not soft:
        violations += _labels(task, y, _label_shapes(task, x, y, out), classes, ignore_index)
    if out is not None:
        expected: list[Any] = [*y.shape[:1], classes or "K", *y.shape[1:]] if indices else list(y.shape)
        labels_fit = not any((violation.item, violation.kind) == ("labels", "shape") for violation in violations)
        if labels_fit and list(out.shape) != expected:
            violations.append(_shape("outputs", out, expected, "classes last" if classes_last else "outputs shape"))
        if out.dtype not in FLOATS:
            violations.append(_dtype("outputs", out, "floating point", "outputs dtype"))
        violations += _not_finite("outputs", out, "outputs finite")
    return violations


def _inputs(task: str, x: Tensor, y: Tensor) -> Iterator[Violation]:
    contract, ranks = CONTRACTS[task], _RANKS.get(task, range(2, 7))
    if x.numel() == 0 or x.ndim not in ranks:
        single_example = y.ndim == 0 or (x.ndim > 0 and len(x) != len(y))
        short = x.numel() > 0 and x.ndim + 1 in ranks
        remedy = "collation" if not short else "batch dimension" if single_example else "channel dimension"
        yield _shape("inputs", x, contract.inputs, remedy)
    # Few entries in the last axis are channels; five or more in the middle axes are rows and columns.
    elif x.ndim == 4 and x.shape[3] in (1, 3, 4) and min(x.shape[1:3]) > 4:
        yield _shape("inputs", x, "channels before rows", "channels last")
    ids = task == "sequence" and x.ndim == 2
    if x.dtype not in ((torch.int64, torch.int32) if ids else FLOATS):
        remedy = "ids" if ids else "pixels" if x.dtype == torch.uint8 else "inputs dtype"
        yield _dtype("inputs", x, contract.inputs_dtype, remedy)
    yield from (broken := _not_finite("inputs", x, "finite"))
    if broken or x.numel() < 2:
        return
    if (x == (x[:1] if len(x) > 1 else x.flatten()[0])).all():
        yield Violation("inputs", "constant", "all the same", "examples that differ", REMEDIES["constant"])
    elif ids and x.min() < 0:
        yield _range("inputs", x, "ids from 0", "negative id")
    # Whole numbers above 1: uint8 pixels that were converted to float and not divided.
    elif x.ndim == 4 and x.dtype in FLOATS and x.min() >= 0 and x.max() > 1 and (x == x.round()).all():
        yield _range("inputs", x, SCALED, "whole numbers")
    elif x.dtype in FLOATS and x.ndim > 1:
        # Images are scaled by channel, all else by column.
        columns = x.double().movedim(1 if x.ndim == 4 else -1, 0).flatten(1)
        centre, spread = columns.mean(1), columns.std(1, correction=0)
        far, worst = torch.maximum(centre.abs(), spread).max(0)
        if far > FAR:
            name = "channel" if x.ndim == 4 else "column"
            text = f"{name} {worst}: mean {centre[worst]:.3g}, deviation {spread[worst]:.3g}"
            yield Violation("inputs", "range", text, SCALED, REMEDIES["unscaled"])


def _labels(task: str, y: Tensor, shape: list[Any], classes: int | None, ignore_index: int) -> Iterator[Violation]:
    contract = CONTRACTS[task]
    indices = contract.labels_dtype == "int64"
    if list(y.shape) not in shape:
        extra = indices and y.ndim > 1 and [len(y), *y.shape[2:]] in shape
        remedy = "labels shape" if not extra else "column" if y.shape[1] == 1 else "one-hot"
        yield _shape("labels", y, f"{contract.labels}, here {' or '.join(map(str, shape))}", remedy)
    allowed = FLOATS if not indices else (torch.int64, torch.uint8) if y.ndim == 1 else (torch.int64,)
    if y.dtype not in allowed:
        yield _dtype("labels", y, f"{contract.labels_dtype} for {contract.loss}", contract.labels_dtype)
    yield from (broken := _not_finite("labels", y, "finite"))
    if broken or y.numel() == 0:
        return
    rows = y.reshape(len(y) if y.ndim else 1, -1)
    counts = rows != ignore_index if indices else torch.ones_like(rows, dtype=torch.bool)
    if not counts.any():
        yield Violation("labels", "range", "no label that counts", "one or more", REMEDIES["no label"])
        return
    counted, examples = rows[counts], int(counts.any(1).sum())
    low, high = counted.min(), counted.max()
    # 255 marks 'no label', or the foreground of a mask that was saved as an image.
    mask = task == "segmentation" and high == 255
    limit = 1 if task == "multi-label" else (classes or (255 if mask else int(high) + 1)) - 1
    if task != "regression" and (low < 0 or high > limit):
        remedy = "from 1" if low >= 1 and high == classes else "classes"
        remedy = "targets" if not indices else "mask" if mask else remedy
        yield _range("labels", counted, f"0 to {limit}", remedy)
    # The first example's class is free; every other example has the same one with probability 1 / classes.
    by_chance = float(max(classes or 2, 2)) ** (1 - examples)
    if classes != 1 and by_chance < ONE_CLASS_BY_CHANCE and low == high:
        yield Violation("labels", "one class", f"{examples} examples, all {low:g}", "several", REMEDIES["one class"])


def _label_shapes(task: str, x: Tensor, y: Tensor, out: Tensor | None) -> list[list[int]]:
    """The shapes that the labels may have."""
    if CONTRACTS[task].labels_dtype != "int64":
        own = [y.shape[1] if y.ndim > 1 else 1] if task == "multi-label" else [*y.shape[1:]]
        return [[len(x), *own] if out is None else list(out.shape)]
    inner = x.shape[{"sequence": 1, "segmentation": 2}.get(task, x.ndim) : 2 if task == "sequence" else x.ndim]
    return [[len(x), *inner], *([[len(x)]] if task == "sequence" else [])]


def _soft(task: str, x: Tensor, y: Tensor) -> bool:
    """Probabilities of the classes; one-hot rows have no entry between 0 and 1, and are a bug more often than meant."""
    if task != "classification" or y.dtype not in FLOATS or y.ndim != 2 or len(x) != len(y):
        return False
    between = ((y > 0) & (y < 1)).any()
    return bool(between and (y >= 0).all() and ((y.float().sum(1) - 1).abs() < 1e-2).all())


def _shape(item: str, tensor: Tensor, expected: Any, remedy: str) -> Violation:
    return Violation(item, "shape", str(list(tensor.shape)), str(expected), REMEDIES[remedy])


def _dtype(item: str, tensor: Tensor, expected: str, remedy: str) -> Violation:
    return Violation(item, "dtype", str(tensor.dtype), expected, REMEDIES[remedy])


def _range(item: str, tensor: Tensor, expected: str, remedy: str) -> Violation:
    return Violation(item, "range", f"{tensor.min():g} to {tensor.max():g}", expected, REMEDIES[remedy])


def _not_finite(item: str, values: Tensor, remedy: str) -> list[Violation]:
    bad = int((~values.isfinite()).sum())
    text = f"{bad} of {values.numel()} entries are NaN or infinite"
    return [Violation(item, "finite", text, "finite numbers", REMEDIES[remedy])] if bad else []
