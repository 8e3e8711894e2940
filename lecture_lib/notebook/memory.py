"""What a forward pass keeps for the backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def saved_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps during `forward()` until the backward pass; each tensor counts once.

    The parameters themselves are not counted, as they are there anyway; copies of them in another format are.
    """
    own = {parameter.data_ptr() for parameter in model.parameters()}
    # Keeps the tensors too: the address of one that was freed would be given to the next, and count once for both.
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(tensor.nbytes for tensor in kept.values())
