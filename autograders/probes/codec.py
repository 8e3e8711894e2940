"""Plain data as JSON and back, exactly: what crosses the border between a student's process and the grader.

Never pickle. `decode` is given whatever a student's process sent, so it takes nothing on trust: unknown kinds, wrong
sizes and too much data are `MalformedObservation`.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
MAX_BYTES = 4_000_000
MAX_DEPTH = 12


class MalformedObservation(ValueError):  # noqa: N818 - a state of an observation, not a fault of ours
    """What came out of the student's process is not an observation."""


def encode(value: Any, depth: int = 0) -> Any:
    """Plain data as JSON-ready data. Arrays keep dtype, shape and every bit.

    Raises TypeError for other kinds, and for what `decode` would refuse: a student's own odd result must cost the part
    that returned it, and not look like something that was forged.
    """
    if depth > MAX_DEPTH:
        raise TypeError(f"lists and dicts within each other are carried up to {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        # `ascontiguousarray` makes a vector of a single number; its shape is part of the answer.
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        if array.dtype.name not in DTYPES:
            raise TypeError(f"arrays of dtype {array.dtype} are not carried; use one of {', '.join(DTYPES)}")
        if array.ndim > MAX_DEPTH:
            raise TypeError(f"this array has {array.ndim} axes; arrays are carried with up to {MAX_DEPTH}")
        # One byte order, whatever the machines have on which an answer runs and is judged.
        data = base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode("ascii")
        if len(data) > MAX_BYTES:
            raise TypeError(f"this array of shape {list(array.shape)} is too large to be carried")
        return {"array": data, "dtype": array.dtype.name, "shape": list(array.shape)}
    if isinstance(value, list | tuple):
        return {"list": [encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): encode(item, depth + 1) for key, item in value.items()}}
    raise TypeError(f"cannot carry a {type(value).__name__}")


def decode(data: Any, depth: int = 0) -> Any:
    """The reverse of `encode`. Raises MalformedObservation for anything that `encode` would not have made."""
    if depth > MAX_DEPTH:
        raise MalformedObservation(f"nested deeper than {MAX_DEPTH} levels")
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if not isinstance(data, dict):
        raise MalformedObservation(f"a bare {type(data).__name__}")
    keys = set(data)
    if keys == {"float"} and data["float"] in ("nan", "inf", "-inf"):
        return float(data["float"])
    if keys == {"list"} and isinstance(data["list"], list):
        return [decode(item, depth + 1) for item in data["list"]]
    if keys == {"dict"} and isinstance(data["dict"], dict):
        return {str(key): decode(item, depth + 1) for key, item in data["dict"].items()}
    if keys == {"array", "dtype", "shape"}:
        return _decode_array(data)
    raise MalformedObservation(f"an entry with the keys {sorted(map(str, data))[:5]}")


def _decode_array(data: dict[str, Any]) -> np.ndarray:
    shape, text = data["shape"], data["array"]
    if data["dtype"] not in DTYPES or not isinstance(text, str) or len(text) > MAX_BYTES:
        raise MalformedObservation(f"an array of dtype {data['dtype']!s:.20} with {len(str(text))} characters")
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DEPTH
        or not all(type(size) is int and 0 <= size <= MAX_BYTES for size in shape)
    ):
        raise MalformedObservation(f"an array of shape {shape!s:.40}")
    dtype = np.dtype(data["dtype"]).newbyteorder("<")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedObservation("an array that is not base64") from None
    if len(raw) != math.prod(shape) * dtype.itemsize:
        raise MalformedObservation(f"{len(raw)} bytes for an array of shape {shape}")
    return np.frombuffer(raw, dtype=dtype).astype(dtype.newbyteorder("=")).reshape(shape)
