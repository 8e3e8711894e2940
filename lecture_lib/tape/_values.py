"""How numbers get into a tensor (`copied`) and how they are read from it (`Values`)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def copied(values: ArrayLike, dtype: DTypeLike | None, requires_grad: bool) -> np.ndarray:
    """A read-only array of our own, of a dtype that the tape knows."""
    try:
        array = np.array(values, dtype=dtype)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            detail = str(error).split(". ", 1)[-1]
            raise ValueError(f"ragged values: {detail} Rows of an array have one length: pad or cut them.") from None
        raise ValueError(f"a Tensor needs numbers: {error}. Pass floats, nested lists of them or an array.") from None
    if array.dtype not in FLOATS:
        if array.dtype.kind not in "iub":
            raise TypeError(
                f"a Tensor of dtype {array.dtype}: the tape computes in float64 and float32. Pass dtype=np.float64, or "
                "real numbers."
            )
        if requires_grad:
            raise TypeError(
                f"a Tensor of dtype {array.dtype} cannot require gradients: they exist for float64 and float32. "
                "Write 2.0 for 2, or pass dtype=np.float64."
            )
    array.setflags(write=False)
    return array


def copied_key(key: Any) -> tuple[Any, ...]:
    """An index as a tuple of our own: its lists and arrays could be changed before the backward pass."""
    keys = key if isinstance(key, tuple) else (key,)
    return tuple(np.array(part) if hasattr(part, "__array__") else copy.deepcopy(part) for part in keys)


class Values(np.ndarray):
    """A read-only view of a tensor's array. Slices of it are read-only too; `copy()` and arithmetic give new arrays.

    NumPy itself refuses the write ("assignment destination is read-only"); this class only says in addition which
    operation recorded the value, and the remedy.
    """

    _recorded_by: str

    @staticmethod
    def of(array: np.ndarray, recorded_by: str) -> Values:
        """A read-only view of `array`, which the operation `recorded_by` ("" for none) relies on."""
        view = array.view(Values)
        view._recorded_by = recorded_by
        view.setflags(write=False)
        return view

    def __array_finalize__(self, source: Any) -> None:
        self._recorded_by = getattr(source, "_recorded_by", "")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(super().__setitem__, key, value)

    def fill(self, *arguments: Any, **options: Any) -> None:
        self._write(super().fill, *arguments, **options)

    def sort(self, *arguments: Any, **options: Any) -> None:
        self._write(super().sort, *arguments, **options)

    def put(self, *arguments: Any, **options: Any) -> None:
        self._write(super().put, *arguments, **options)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        written = [array for array in (inputs[:1] if method == "at" else out) if isinstance(array, Values)]
        if written and not written[0].flags.writeable:
            raise written[0]._read_only()
        if out:
            options["out"] = tuple(_plain(array) for array in out)
        return getattr(ufunc, method)(*map(_plain, inputs), **options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return self._write(super().__array_function__, function, types, arguments, options)

    def _write(self, write: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return write(*arguments, **options)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise self._read_only() from None

    def _read_only(self) -> ValueError:
        reason = f"operation '{self._recorded_by}' recorded this value" if self._recorded_by else "it may get recorded"
        return ValueError(
            f"x.data is read-only: {reason} (shape {self.shape}), and a backward() would be silently wrong. "
            "Change a copy, x.data.copy(), or the tensor itself: with no_grad(): x -= step, or x[...] = values."
        )


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, Values) else array
