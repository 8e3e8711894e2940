"""What a forward pass keeps for the backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def saved_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps during `forward()` until the backward pass; memory that tensors share counts once.

    The parameters themselves are not counted, as they are there anyway; copies of them in another format are. Of a
    larger tensor, such as a whole data set, only the range from the first to the last element that is kept counts.
    """
    own = {_storage(parameter) for parameter in model.parameters()}
    # Keeps the tensors too: the address of one that was freed would be given to the next, and count once for both.
    kept: dict[int, list[Tensor]] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.numel() and _storage(tensor) not in own:
            kept.setdefault(_storage(tensor), []).append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(max(map(_end, tensors)) - min(map(Tensor.data_ptr, tensors)) for tensors in kept.values())


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _end(tensor: Tensor) -> int:
    """The address behind the last element."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.itemsize
