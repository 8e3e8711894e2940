"""Structures of tensors, as models and loaders give them: tuples, dicts, dataclasses, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors of a structure, in order; what has a `to` counts, such as a packed sequence."""
    if hasattr(value, "to"):
        yield value
    else:
        for part in _parts(value).values():
            yield from tensors_of(part)


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with each of its tensors changed."""
    if hasattr(value, "to"):
        return change(value)
    parts = _parts(value)
    return _rebuilt(value, {name: map_tensors(part, change) for name, part in parts.items()}) if parts else value


def take_rows(value: Any, rows: Tensor, examples: int) -> Any:
    """Some examples of a structure whose tensors have a row for each; a tensor without rows stays whole."""
    if is_list_of_examples(value, examples):
        return [value[row] for row in rows.tolist()]

    def taken(tensor: Any) -> Any:
        has_rows = isinstance(tensor, Tensor) and tensor.ndim > 0 and len(tensor) == examples
        return tensor[rows.to(tensor.device)] if has_rows else tensor

    return map_tensors(value, taken)


def join(structures: Sequence[Any]) -> Any:
    """Structures of one kind with their tensors one after the other.

    Raises:
        RuntimeError: tensors differ in more than their first dimension, or structures in what they hold.

    """
    first = structures[0]
    if isinstance(first, Tensor):
        return torch.cat(list(structures)) if first.ndim else torch.stack(list(structures))
    parts = [_parts(structure) for structure in structures]
    if any(own.keys() != parts[0].keys() for own in parts):
        raise RuntimeError("structures that hold different things cannot be joined")
    return _rebuilt(first, {name: join([own[name] for own in parts]) for name in parts[0]}) if parts[0] else first


def is_list_of_examples(value: Any, examples: int) -> bool:
    """Whether it is a list as long as the batch, and not one of columns that are each as long."""
    if not isinstance(value, list) or len(value) != examples:
        return False
    return not all(isinstance(entry, Tensor) and entry.ndim > 0 and len(entry) == examples for entry in value)


def name_parts(value: Any) -> dict[str, Tensor]:
    """The tensors that a structure holds directly, by how one writes them: '.logits', '["logits"]' or '[0]'."""
    notation = ".{}" if is_dataclass(value) or hasattr(value, "_fields") else '["{}"]'
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        notation = "[{}]"
    names = list(getattr(value, "_fields", ())) or list(_parts(value))
    parts = zip(names, _parts(value).values(), strict=True)
    return {notation.format(name): part for name, part in parts if isinstance(part, Tensor)}


def _parts(value: Any) -> dict[Any, Any]:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    return dict(enumerate(value)) if isinstance(value, tuple | list) else {}


def _rebuilt(value: Any, parts: dict[Any, Any]) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **parts)
    if isinstance(value, Mapping):
        return parts
    return type(value)(*parts.values()) if hasattr(value, "_fields") else type(value)(parts.values())
