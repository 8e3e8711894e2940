"""What is changed in a counterfactual, and put back when the run ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from ..program import Program

Change = Callable[[Program], AbstractContextManager[Any]]
DROPOUT = (
    *("dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("alpha_dropout", "feature_dropout", "feature_alpha_dropout"),
)
"""PyTorch's functions of dropout, by name."""
StepHook = Callable[[Optimizer, Any, Any], None]


def learning_rate_times(factor: float) -> Change:
    """Every step is taken with so many times its rate, whatever schedule sets it."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        kept: dict[int, list[float]] = {}

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            kept[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor

        # Put back after each step, so that a schedule goes on from the rate that it has set itself.
        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            for group, rate in zip(optimizer.param_groups, kept[id(optimizer)], strict=True):
                group["lr"] = rate

        with around_steps(program, before, after):
            yield

    return change


def all_of(*changes: Change) -> Change:
    """Several changes at once."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        with ExitStack() as stack:
            for each in changes:
                stack.enter_context(each(program))
            yield

    return change


@contextmanager
def around_steps(program: Program, before: StepHook, after: StepHook | None = None) -> Iterator[None]:
    """Call something before, and after, each step of each optimizer."""
    with ExitStack() as hooks:
        for optimizer in program.optimizers:
            hooks.callback(optimizer.register_step_pre_hook(before).remove)
            if after is not None:
                hooks.callback(optimizer.register_step_post_hook(after).remove)
        yield


@contextmanager
def initialised_anew(program: Program) -> Iterator[None]:
    """Weights are drawn as PyTorch draws them."""
    for module in program.model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
            continue
        for name, parameter in module.named_parameters(recurse=False):
            with torch.no_grad():
                if parameter.ndim >= 2:
                    # As nn.Linear draws its weights.
                    nn.init.kaiming_uniform_(parameter, a=math.sqrt(5))
                elif "bias" in name:
                    parameter.zero_()
    yield


def wide_tables(model: nn.Module) -> list[nn.Embedding]:
    """Embeddings about as wide as PyTorch draws them, whatever their size and what comes after them."""
    return [m for m in model.modules() if isinstance(m, nn.Embedding) and float(m.weight.detach().std()) > 0.5]


@contextmanager
def tables_narrower(program: Program) -> Iterator[None]:
    """Wide embeddings start a tenth as wide."""
    with torch.no_grad():
        for table in wide_tables(program.model):
            table.weight.mul_(0.1)
    yield


@contextmanager
def drawn_large(program: Program) -> Iterator[None]:
    """Weights of another draw, large enough for every activation to bend, so that what holds now holds by structure."""
    with torch.no_grad():
        for parameter in program.model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, 10 / math.sqrt(parameter.numel() / len(parameter)))
            else:
                parameter.normal_(0, 0.1)
        for module in program.model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0.0  # by structure, too
    yield


@contextmanager
def before_model(program: Program, transform: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The model gets transformed inputs."""

    def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (transform(args[0]), *args[1:]) if args else args

    handle = program.model.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def unit_variance(program: Program) -> Iterator[None]:
    """Every affine layer but the last gives outputs of mean 0 and variance 1 over the batch."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return (output - output.mean()) / (output.std() + 1e-6)

    affine = [m for m in program.model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, nn.Conv1d))]
    handles = [module.register_forward_hook(hook) for module in affine[:-1]]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class Substitution(TorchFunctionMode):
    """Calls of some of PyTorch's functions go elsewhere.

    Args:
        functions: name -> what is called in its place, with the function itself first.

    """

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the replacement."""
        substitute = self._functions.get(getattr(func, "__name__", ""))
        return substitute(func, *args, **(kwargs or {})) if substitute else func(*args, **(kwargs or {}))


def replacing(**functions: Callable[..., Any]) -> Change:
    """A change of some of PyTorch's functions."""
    return lambda program: Substitution(functions)


class ActivationRecorder(TorchFunctionMode):
    """Keeps what activations give: for each call its name, input and output."""

    NAMES = (
        *("relu", "relu_", "_threshold", "sigmoid", "tanh", "sigmoid_", "tanh_"),
        *("softmax", "log_softmax", "logsigmoid", "softplus"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note and go on."""
        name = getattr(func, "__name__", "")
        inputs = args[0].detach().clone() if name in self.NAMES and args else None
        result = func(*args, **(kwargs or {}))
        if inputs is not None:
            self.calls.append((name.rstrip("_"), inputs, result.detach()))
        return result
