"""Copies of an object as worker processes get them, without starting a process."""

from __future__ import annotations

import io
import pickle
import types
from typing import Any


def worker_copies(value: Any, count: int) -> list[Any]:
    """Copies of `value` as `count` workers would get them where processes are spawned.

    Classes and functions at the top level of a module or notebook travel by name, which is always possible here;
    everything else travels by value.

    Raises:
        pickle.PicklingError, TypeError, AttributeError: something in it cannot travel, a lambda or an open file say.

    """
    file, by_id = io.BytesIO(), dict[int, Any]()
    _ForWorker(file, by_id).dump(value)
    return [_InWorker(io.BytesIO(file.getvalue()), by_id).load() for _ in range(count)]


class _ForWorker(pickle.Pickler):
    def __init__(self, file: io.BytesIO, by_id: dict[int, Any]) -> None:
        super().__init__(file)
        self.by_id = by_id

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, type | types.FunctionType) or not value.__qualname__.isidentifier():
            return None  # a lambda or a local function has no name by which a worker would find it
        self.by_id[id(value)] = value
        return id(value)


class _InWorker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, by_id: dict[int, Any]) -> None:
        super().__init__(file)
        self.by_id = by_id

    def persistent_load(self, name: Any) -> Any:
        return self.by_id[name]
