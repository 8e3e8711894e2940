"""The examples that a loader gives, as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...training._run.preserve import preserved_modes
from ...training._run.structures import tensors_of
from ..program import Program, Spec
from .assumptions import NotAskedError
from .instrumentation import why_not
from .preserve import untouched
from .run_data import MOST, Examples, index_left_out


def read(
    loader: Iterable[Any] | None, program: Program, spec: Spec, outputs: Callable[[Tensor], Any]
) -> tuple[Examples | None, str]:
    """The examples, or None with the reason why there are none; None without one where there is no loader."""
    if loader is None:
        return None, ""
    with untouched(program):
        try:
            parts = list(_first_batches(loader, program.parts))
            x, y = (_joined([_tensor(part[i]) for part in parts], bool(i), spec) for i in (0, 1))
            if len(parts) == 1 and _one_piece(x, program, outputs):
                return None, f"the model takes all {len(x)} rows at once and no part of them, as on a graph"
        except Exception as error:
            return None, why_not(error)
    return (Examples(x, y, len(parts[0][0]), parts[0][0].device), "") if len(x) else (None, "there are none")


def read_each_input(loader: Iterable[Any] | None, program: Program, spec: Spec) -> list[Examples]:
    """The examples once for each tensor of their inputs; none where they cannot be read."""
    if loader is None:
        return []
    with untouched(program):
        try:
            parts = list(_first_batches(loader, program.parts))
            y = _joined([_tensor(targets) for _, targets in parts], True, spec)
            columns = zip(*(map(_tensor, tensors_of(inputs)) for inputs, _ in parts), strict=True)
            tables = [_joined(list(column), False, spec) for column in columns]
        except Exception:
            return []  # what could not be looked at was said where all inputs were read
    size = len(y) // len(parts)
    return [Examples(x, y, size) for x in tables if x.ndim and len(x) == len(y)]


def drawn_anew(loader: Iterable[Any] | None, program: Program) -> bool:
    """Whether a loader gives other inputs in another epoch: its examples are augmented, or made up."""
    dataset: Any = getattr(loader, "dataset", None)
    with untouched(program), suppress(Exception):
        passes = [
            {_bytes(row) for x, _ in _first_batches(loader or (), program.parts) for row in _tensor(x)}
            for _ in range(2)
        ]
        if hasattr(dataset, "__getitem__"):  # of many examples, two epochs may begin with different ones
            numbers = torch.linspace(0, len(dataset) - 1, 64).long().tolist()
            items = [[*map(_bytes, tensors_of(dataset[number]))] for _ in range(2) for number in numbers]
            if sum(first != second for first, second in zip(items[:64], items[64:], strict=True)) > 32:
                return True
            if len(passes[0]) >= MOST:
                return False
        return 2 * len(passes[0] & passes[1]) < len(passes[0])
    return False


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().tobytes()


def _first_batches(loader: Iterable[Any], parts: Callable[[Any], tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    count = 0
    for batch in loader:
        inputs, targets = parts(batch)
        yield inputs, targets
        count += len(next(tensors_of(targets), inputs))
        if count >= MOST:
            return


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise NotAskedError(f"inputs or targets are no tensor ({type(value).__name__})")
    return value.detach().cpu()


def _joined(parts: list[Tensor], target: bool, spec: Spec) -> Tensor:
    """Batches one after the other; sequences that each batch fills up by itself get the length of the longest."""
    lengths = {batch.shape[1] for batch in parts if batch.ndim == 2 and not batch.is_floating_point()}
    if len(lengths) > 1:
        filler = index_left_out(spec) if target else spec.padding_index or 0
        parts = [F.pad(batch, (0, max(lengths) - batch.shape[1]), value=filler) for batch in parts]
    return torch.cat(parts)


def _one_piece(x: Tensor, program: Program, outputs: Callable[[Tensor], Any]) -> bool:
    """Whether the model takes these inputs and not the first half of them: rows are then no examples."""

    def runs(inputs: Tensor) -> bool:
        with preserved_modes(program.model), torch.no_grad():
            program.model.eval()
            try:
                outputs(inputs)
            except Exception:
                return False
        return True

    return len(x) > 3 and not runs(x[: len(x) // 2]) and runs(x)
