"""Rung 3: padding beyond the end of a sequence must not change what the model gives for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...training._run.structures import map_tensors, take_rows, tensors_of
from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .finding import Finding
from .model_rules import SAME, outputs_of

LEAK = 0.01  # of what outputs differ by between examples; what padding moves by less does no harm
ASKED = 16  # sequences
MORE = 3  # places of padding


@dataclass(frozen=True)
class Padded:
    """Sequences of which is known where they end.

    Attributes:
        inputs: a tensor [N, T] or a structure of tensors, as the program takes it.
        longer: the same with some more places of padding, [N, T + MORE].
        beyond: [N, T], where there is only padding.

    """

    inputs: Any
    longer: Any
    beyond: Tensor


def padding_leaks(evidence: Evidence) -> Finding | None:
    """A16: more padding changes the outputs at the real positions."""
    padded = _by_its_id(evidence) or _by_length_or_mask(evidence)
    if padded is None:
        return None
    before, after = outputs_of(evidence, padded.inputs), outputs_of(evidence, padded.longer)
    if before is None or after is None:  # a model of one length
        return None
    examples, length = padded.beyond.shape
    kept, real = after, torch.ones_like(before, dtype=torch.bool)
    for axis in range(1, before.ndim):
        if before.shape[axis] == length and after.shape[axis] == length + MORE:
            kept = after.narrow(axis, 0, length)
            shape = [examples] + [length if dimension == axis else 1 for dimension in range(1, before.ndim)]
            real = ~padded.beyond.reshape(shape).expand_as(before)
            break
    if kept.shape != before.shape or examples < 2:  # one output has no spread to compare a change with
        return None
    change = float((kept - before)[real].abs().max())
    rounding = SAME * float(before[real].abs().max())
    if change <= max(LEAK * float(before.std(dim=0).max()), rounding):
        return None
    return Finding("A16", f"{MORE} more places of padding change outputs of real positions by {change:.3g}")


def _by_its_id(evidence: Evidence) -> Padded | None:
    padding, train = evidence.spec.padding_index, evidence.train
    if padding is None or train is None or train.x.ndim != 2:
        return None
    x = train.x[:ASKED]
    return Padded(x, F.pad(x, (0, MORE), value=padding), x == padding)


def _by_length_or_mask(evidence: Evidence) -> Padded | None:
    """From inputs of several parts, one of which is the length of each sequence or a mask of its places.

    Only where all other parts are the same everywhere beyond the end: otherwise something else is meant.
    """
    program = evidence.program
    loader = program.train_loader if program.val_loader is None else program.val_loader
    if loader is None or evidence.train is not None:  # examples that were read have inputs of one part
        return None
    with untouched(program):
        batch = next(iter(loader), None)
        inputs = () if batch is None else program.parts(batch)[0]
    tensors = [tensor for tensor in tensors_of(inputs) if isinstance(tensor, Tensor)]
    examples = len(tensors[0]) if tensors and tensors[0].ndim else 0
    if len(tensors) < 2:
        return None
    for tensor in tensors:
        companions = [companion for companion in tensors if companion is not tensor]
        for beyond in _ends(tensor, companions):
            if all(_is_filled(companion, beyond) for companion in companions):
                # Those that end first: a convolution may see where the longer ones meet the end of the batch.
                shortest = beyond.sum(dim=1).argsort(descending=True)[:ASKED]
                return _filled_up(take_rows(inputs, shortest, examples), beyond[shortest])
    return None


def _filled_up(inputs: Any, beyond: Tensor) -> Padded:
    def longer(tensor: Tensor) -> Tensor:
        if not _has_places(tensor, beyond):
            return tensor
        filling = tensor[beyond][:1].unsqueeze(1)  # [1, 1, ...]
        return torch.cat([tensor, filling.expand(len(tensor), MORE, *tensor.shape[2:])], dim=1)

    return Padded(inputs, map_tensors(inputs, longer), beyond)


def _ends(tensor: Tensor, companions: list[Tensor]) -> Iterator[Tensor]:
    """Where sequences would be padding, [N, T], if this tensor were their lengths or the mask of their places."""
    if tensor.ndim == 1 and not tensor.is_floating_point():
        places = [companion.shape[1] for companion in companions if companion.ndim > 1]
        longest = max(places, default=0)
        if longest >= int(tensor.max()) > int(tensor.min()) > 0:
            yield torch.arange(longest, device=tensor.device) >= tensor[:, None]
    elif tensor.ndim == 2 and bool(((tensor == 0) | (tensor == 1)).all()):
        for beyond in (tensor == 0, tensor == 1):
            if beyond.any() and not beyond[:, 0].any() and bool((beyond.int().diff(dim=1) >= 0).all()):
                yield beyond


def _has_places(tensor: Tensor, beyond: Tensor) -> bool:
    return isinstance(tensor, Tensor) and tensor.shape[:2] == beyond.shape


def _is_filled(tensor: Tensor, beyond: Tensor) -> bool:
    """Whether the tensor holds the same at all places beyond the ends, or has no places."""
    if not _has_places(tensor, beyond):
        return tensor.ndim < 2
    filling = tensor[beyond]
    return bool((filling == filling[:1]).all())
