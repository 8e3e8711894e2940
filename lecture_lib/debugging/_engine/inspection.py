"""What a recorder inspects: loaders, warnings, the places where a model keeps tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .gradients import leaves_of


class WatchedLoader:
    """A loader that notes its batches; everything else is the loader's."""

    def __init__(self, loader: Iterable[Any], note: Callable[[Any], None]) -> None:
        self._loader, self._note = loader, note

    def __iter__(self) -> Iterator[Any]:
        """The loader's batches."""
        for batch in self._loader:
            self._note(batch)
            yield batch

    def __len__(self) -> int:
        """As many batches as the loader has."""
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """What the loader has."""
        return getattr(self._loader, name)


def where_is(leaf: Tensor, model: nn.Module) -> str:
    """Where a tensor that a model does not register is kept: 'list NAME', 'tensor NAME', or '' for nowhere."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            full = f"{prefix}.{name}" if prefix else name
            items = list(value.values()) if isinstance(value, dict) else value
            if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                continue
            if isinstance(value, Tensor) and any(tensor is leaf for tensor in (value, *leaves_of(value)[0])):
                return f"tensor {full}"
            if isinstance(items, (list, tuple)):
                for item in items:
                    if isinstance(item, nn.Module) and any(leaf is parameter for parameter in item.parameters()):
                        return f"list {full}"
                    if item is leaf:
                        return f"tensor {full}"
            if isinstance(value, nn.Module) and any(leaf is parameter for parameter in value.parameters()):
                return f"list {full}"
    return ""


def checksums(parameters: Mapping[int, Tensor]) -> dict[int, float]:
    """For each parameter, by id, a number that changes when it does."""
    return {key: float(parameter.detach().double().square().sum()) for key, parameter in parameters.items()}


def held_by(optimizers: Iterable[Optimizer]) -> frozenset[int]:
    """Ids of the parameters that any of the optimizers holds."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return frozenset(id(parameter) for group in groups for parameter in group["params"])


def gets_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an optimizer's step, called with these, is given a function that computes the loss."""
    return any(map(callable, args[1:])) or callable(kwargs.get("closure"))


def fingerprints(inputs: Tensor) -> tuple[int, ...]:
    """For each example of a batch a number, equal for equal examples and hardly ever else."""
    dense = inputs.detach().cpu().to_dense() if inputs.layout != torch.strided else inputs.detach().cpu()
    rows = dense.reshape(len(dense), -1).contiguous().view(torch.uint8).numpy()  # NumPy has no bfloat16
    return tuple(hash(row.tobytes()) for row in rows)


@contextmanager
def all_warnings() -> Iterator[list[str]]:
    """Collect the texts of warnings, each of which is shown as ever."""
    texts: list[str] = []
    original = warnings.showwarning

    def show(message: Any, *rest: Any, **named: Any) -> None:
        texts.append(str(message))
        original(message, *rest, **named)

    warnings.showwarning = show
    try:
        yield texts
    finally:
        warnings.showwarning = original


def is_frozen(model: nn.Module, name: str) -> bool:
    """Whether a layer, or the nearest module around it that has parameters, trains none: its statistics rest, too."""
    while name:
        parameters = list(model.get_submodule(name).parameters())
        if parameters:
            return not any(parameter.requires_grad for parameter in parameters)
        name = name.rpartition(".")[0]
    return False
