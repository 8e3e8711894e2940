"""What a step changes besides gradients, kept so that a refused step leaves no trace."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Snapshot:
    """The contents of dicts (a module's buffers, an optimizer's state), to be put back.

    Tensors, lists and inner dicts keep their identity, because others may hold them too. A name that holds another
    object afterwards, as after `self.mean = 0.9 * self.mean + ...`, gets the old one back.

    Args:
        dictionaries: by name for messages; their entries are copied.

    """

    def __init__(self, dictionaries: dict[str, dict[Any, Any]]) -> None:
        self._entries = {name: _keep(dictionary) for name, dictionary in dictionaries.items()}

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back."""
        for entry in self._entries.values():
            _give_back(*entry)

    @torch.no_grad()
    def restore_where(self, refused: Tensor) -> None:
        """Put tensors back if a flag on the device is set, without waiting for the device."""
        for _, now, before in self._tensors():
            if _is_writable(now) and before is not None and (now.shape, now.dtype) == (before.shape, before.dtype):
                now.copy_(torch.where(refused.to(now.device), before, now))

    @torch.no_grad()
    def names_not_finite(self) -> list[str]:
        """The tensors that have got entries that are not finite.

        Infinite entries that have not changed are deliberate, such as a mask of -inf.
        """
        if all_finite(self.tensors()):
            return []
        return [name for name, now, before in self._tensors() if bool(_spoiled(now, before).any())]

    def tensors(self) -> list[Tensor]:
        """The tensors that the dicts hold at present."""
        return [now for _, now, _ in self._tensors()]

    def _tensors(self) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Name, present values and former values of each tensor."""
        for name, (dictionary, content) in self._entries.items():
            yield from _walk(name, dictionary, content)


def buffers_of(model: nn.Module) -> dict[str, dict[Any, Any]]:
    """The dicts that hold a model's buffers, by the module's name; modules without any are left out."""
    return {f"buffer {name}.".replace(" .", " "): m._buffers for name, m in model.named_modules() if m._buffers}


def state_of(optimizer: Optimizer) -> dict[str, dict[Any, Any]]:
    """The dicts that hold an optimizer's state and settings."""
    groups = {f"parameter group {number}: ": group for number, group in enumerate(optimizer.param_groups)}
    return {"the optimizer's state ": optimizer.state, **groups}


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all entries of all floating-point tensors are finite, for sure: a sum can also overflow."""
    elsewhere = []
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.is_sparse:
            elsewhere.append(tensor)
        # One number for each tensor: an entry that is NaN or infinite makes the sum so.
        elif tensor.is_floating_point() and not math.isfinite(tensor.sum().item()):
            return False
    return not elsewhere or bool(finite_on_device(elsewhere))


def finite_on_device(tensors: Iterable[Tensor | None]) -> Tensor:
    """Whether all entries of all floating-point tensors are finite, a flag on the first one's device."""
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in tensors:
        # A tensor without entries has no largest magnitude.
        if tensor is None or not tensor.numel() or tensor.layout != torch.strided:
            continue
        if tensor.is_floating_point() or tensor.is_complex():
            groups.setdefault((tensor.device, tensor.dtype), []).append(tensor.detach())
    flags = [torch.stack(torch._foreach_norm(group, math.inf)).isfinite().all() for group in groups.values()]
    return torch.stack([flag.to(flags[0].device) for flag in flags]).all() if flags else torch.tensor(True)


def _spoiled(now: Tensor, before: Tensor | None) -> Tensor:
    """Which entries are not finite and were not so before."""
    if before is None or before.shape != now.shape:
        return ~now.isfinite()
    return ~(now.isfinite() | (now == before) | before.isnan())


def _is_writable(tensor: Tensor) -> bool:
    """Not what shares memory with itself, as after `expand`."""
    strided = tensor.layout == torch.strided
    return strided and all(step or size < 2 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def _walk(name: str, value: Any, content: Any) -> Iterator[tuple[str, Tensor, Tensor | None]]:
    if isinstance(value, Tensor):
        yield name, value.detach(), content if isinstance(content, Tensor) else None
    elif isinstance(value, dict):
        for key, part in value.items():
            former = content.get(key) if isinstance(content, dict) else None
            yield from _walk(f"{name}{key}" if isinstance(key, str | int) else name, part, former and former[1])


def _keep(value: Any) -> tuple[Any, Any]:
    """An object and its present content."""
    if isinstance(value, Tensor):
        return value, value.detach().clone()
    if value is None or isinstance(value, int | float | str):
        return None, value
    if isinstance(value, dict):
        return value, {name: _keep(part) for name, part in value.items()}
    if isinstance(value, list):
        return value, list(value)
    return None, copy.deepcopy(value)


def _give_back(value: Any, content: Any) -> Any:
    if isinstance(value, Tensor):
        if _is_writable(value):
            value.copy_(content)
    elif isinstance(value, dict):
        value.clear()
        value.update({name: _give_back(*entry) for name, entry in content.items()})
    elif isinstance(value, list):
        value[:] = content
    else:
        return content
    return value
