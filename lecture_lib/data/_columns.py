"""What splits and reports are given, one value for each example: turned into arrays, or refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

Column = Tensor | np.ndarray | Sequence[Any]
Values = TypeVar("Values", list[Hashable], np.ndarray)


def as_rows(inputs: Column, name: str) -> np.ndarray:
    """Examples as float32 rows [N, features]; refuses what is empty, no number or not finite."""
    rows = _array(inputs)
    if rows.size == 0 or rows.ndim == 0 or rows.dtype.kind not in "fiub":
        raise ValueError(f"{name} have shape {list(rows.shape)} and dtype {rows.dtype}; wanted are numbers [N, ...].")
    rows = rows.reshape(len(rows), -1).astype(np.float32)
    _refuse(~np.isfinite(rows).all(axis=1), name, "not finite in float32")
    return rows


def as_classes(labels: Column, name: str = "labels") -> np.ndarray:
    """Class indices, integers [N]."""
    classes = _array(labels)
    if classes.ndim != 1 or classes.dtype.kind not in "iub" or len(classes) == 0:
        raise ValueError(
            f"{name} have shape {list(classes.shape)} and dtype {classes.dtype}; wanted is one class index for each "
            "example, integers of shape [N] with N above 0."
        )
    return classes


def as_groups(groups: Column, name: str = "groups") -> list[Hashable]:
    """Whatever names the group of each example: numbers or texts, none missing."""
    values = list(groups.tolist() if isinstance(groups, Tensor | np.ndarray) else groups)
    if isinstance(groups, str) or not values or isinstance(values[0], list):
        raise ValueError(f"{name} is {str(groups)[:40]!r}; pass the column itself, one value for each example.")
    # NaN alone differs from itself.
    _refuse([value is None or value != value or value == "" for value in values], name, "missing (None, NaN or '')")
    return values


def as_times(times: Column, name: str = "times") -> np.ndarray:
    """Time stamps [N] as numbers, or dates as datetime64 in microseconds; none missing."""
    # For its checks alone: an array would turn None into an object that compares with nothing.
    as_groups(times, name)
    stamps = _array(times)
    if stamps.dtype.kind in "OM":
        stamps = stamps.astype("datetime64[us]")
    if stamps.dtype.kind not in "iufM":
        raise ValueError(f"{name} have dtype {stamps.dtype}; wanted are numbers or dates: np.array(..., 'datetime64').")
    _refuse(~np.isfinite(stamps), name, "not finite")
    return stamps


def both_sides(
    pair: tuple[Column, Column], sizes: tuple[int, int], name: str, convert: Callable[[Column, str], Values]
) -> tuple[Values, Values]:
    """A pair (of training, of validation), converted, each as long as its examples."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{name} is a {type(pair).__name__}; wanted is a pair: {name}=(of training, of validation).")
    train, validation = convert(pair[0], f"{name} of training"), convert(pair[1], f"{name} of validation")
    same_length(train, sizes[0], f"{name} of training")
    same_length(validation, sizes[1], f"{name} of validation")
    # Numbers, texts and dates: the group "7" would never be equal to the group 7.
    if len({isinstance(side[0], str) + 2 * isinstance(side[0], np.datetime64) for side in (train, validation)}) > 1:
        raise ValueError(f"{name}: {train[0]!r} in training, {validation[0]!r} in validation; give both in one form.")
    return train, validation


def same_length(values: Sequence[Any] | Column, expected: int, name: str) -> None:
    """Refuses a column that is not as long as the examples."""
    if len(values) != expected:
        raise ValueError(f"{name}: {len(values)} values for {expected} examples. Index all with the same split.")


def same_width(train: np.ndarray, validation: np.ndarray) -> None:
    """Refuses parts whose examples have different shapes."""
    if train.shape[1] != validation.shape[1]:
        raise ValueError(f"training has {train.shape[1]} features an example, validation {validation.shape[1]}.")


def several_classes(classes: np.ndarray) -> None:
    """Refuses labels that are all the same."""
    if classes.min() == classes.max():
        raise ValueError(f"labels hold one class only ({classes[0]}). Look at how they were made, or leave them out.")


def _array(values: Column) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _refuse(bad: np.ndarray | list[bool], name: str, reason: str) -> None:
    numbers = np.flatnonzero(bad)
    if len(numbers):
        raise ValueError(
            f"{name}: {len(numbers)} of {len(bad)} are {reason}, the first is number {numbers[0]}. Look them up, or "
            "leave these examples out."
        )
