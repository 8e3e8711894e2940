"""A second device without one: tensors that say they lie elsewhere, compute on the CPU, and do not mix with its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.data import TensorDataset

from lecture_lib.debugging import Program

OTHER = torch.device("meta")  # autograd asks no driver about it, as it does about "cuda"
# Tensors of the CPU may say where, and be copied.
MIXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.copy_.default,
}


class Far(Tensor):
    """A tensor on the other device."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> Far:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined,no-any-return]
            cls, near.shape, near.stride(), near.storage_offset(), dtype=near.dtype, device=OTHER
        )

    def __init__(self, near: Tensor) -> None:
        self.near = near.detach()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Far({self.near})"

    def tolist(self) -> Any:
        """The values; PyTorch refuses this for tensors of other classes."""
        return self.near.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute on the CPU."""
        return computed(func, args, kwargs or {})


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation gives, on the device of its tensors or on the one that is asked for."""
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
    far = any(isinstance(one, Far) for one in tensors)
    if far and func not in MIXING and any(one.ndim and not isinstance(one, Far) for one in tensors):
        raise RuntimeError(f"Expected all tensors to be on the same device, but found two, in {func}")
    if kwargs.get("device") is not None:
        far = torch.device(kwargs["device"]).type == OTHER.type
        kwargs = {**kwargs, "device": "cpu"}
    near_args, near_kwargs = tree_map(lambda one: one.near if isinstance(one, Far) else one, (args, kwargs))
    found = func(*near_args, **near_kwargs)
    if torch.Tag.inplace_view in func.tags:  # the shape of the tensor itself changes
        with no_dispatch():
            func(*args, **kwargs)
    known = {id(one.near if isinstance(one, Far) else one): one for one in tensors}  # what is changed in place

    def wrapped(one: Any) -> Any:
        return known.get(id(one), Far(one) if far else one) if isinstance(one, Tensor) else one

    return tree_map(wrapped, found)


class SimulatedDevice(TorchDispatchMode):
    """Operations that name the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute on the CPU."""
        return computed(func, args, kwargs or {})


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Within it tensors can be made there, and moved there and back."""
    with SimulatedDevice():
        yield OTHER


def move(program: Program) -> None:
    """Move a program there: its model, what its optimizers hold, and the data that its loaders read."""
    new: dict[int, nn.Parameter] = {}
    for module in program.model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            there = new.setdefault(id(parameter), nn.Parameter(Far(parameter.detach()), parameter.requires_grad))
            module._parameters[name] = there
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = Far(buffer)
    for optimizer in program.optimizers:
        for group in optimizer.param_groups:
            group["params"] = [new.get(id(one), one) for one in group["params"]]
    for loader in (program.train_loader, program.val_loader, program.plain_loader, program.test_loader):
        data = getattr(loader, "dataset", None)
        if isinstance(data, TensorDataset):
            data.tensors = tuple(Far(one) if not isinstance(one, Far) else one for one in data.tensors)
