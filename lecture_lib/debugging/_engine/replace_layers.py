"""Replacements of the initial weights and of layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...training._run.preserve import preserved_modes
from ..program import Program
from .assumptions import NotAskedError
from .changes import DROPOUT, Change, all_of, initialised_anew, replacing, tables_narrower, unit_variance, wide_tables
from .replacement import NotInUseError, Profile, Replacement

LAST = ("softmax", "log_softmax", "sigmoid", "tanh", "relu", "logsigmoid", "softplus")
BENT = ("sigmoid", "tanh", "sigmoid_", "tanh_")
SETTINGS = {
    *("eps", "momentum", "negative_slope", "alpha", "beta", "threshold"),
    *("track_running_stats", "sparse", "max_norm"),
}


def of_initialisation(profile: Profile) -> Iterator[Replacement]:
    if not profile.body_was_trained:
        yield Replacement("initialisation", "weights drawn as PyTorch draws them", initialised_anew)
        if wide_tables(profile.program.model):
            yield Replacement("initialisation", "embeddings a tenth as wide", tables_narrower)


def of_layers(profile: Profile) -> Iterator[Replacement]:
    model = profile.program.model
    for kind, name, value in _unusual_settings(model):
        yield Replacement("layers", f"{name} of {value!r} in {kind.__name__}", _module_setting(kind, name, value))
    if profile.called & set(DROPOUT) or any(isinstance(m, nn.RNNBase) and m.dropout for m in model.modules()):
        yield Replacement("layers", "dropout off", without_dropout, fault="A18")
        if profile.random:
            yield Replacement("metric", "evaluated without dropout", _evaluated_without_dropout)
    if profile.called & {"detach", "detach_"}:
        same = replacing(detach=lambda function, x: x, detach_=lambda function, x: x)
        yield Replacement("model", "no detach", same)
    if profile.called & set(LAST):
        yield Replacement("layers", "the last activation left out", _without_last)
    straight = replacing(**dict.fromkeys(BENT, lambda function, x: x.relu()))
    if profile.called & set(BENT):
        yield Replacement("layers", "ReLU in the place of sigmoid and tanh", straight)
    normalised = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if normalised:
        yield Replacement("layers", "batch normalisation by the statistics of training", _statistics_anew)
    yield Replacement("layers", "signals of the same size after each layer", unit_variance, general=True)
    plain = all_of(straight, without_dropout, initialised_anew, unit_variance)
    yield Replacement("layers", "new weights, ReLUs, no dropout and signals of the same size", plain, general=True)
    if profile.called & {"relu", "relu_"}:
        around = dict.fromkeys(("relu", "relu_"), lambda function, x, *args, **kwargs: x + x.clamp(min=0))
        yield Replacement("layers", "a way around each activation", replacing(**around), general=True)


def _unusual_settings(model: nn.Module) -> list[tuple[type[nn.Module], str, Any]]:
    """Settings of PyTorch's layers that are not what their constructors take by default."""
    unusual: dict[tuple[type[nn.Module], str], Any] = {}
    for module in model.modules():
        kind = type(module)
        if not kind.__module__.startswith("torch.nn"):
            continue
        for name, parameter in inspect.signature(kind.__init__).parameters.items():
            comparable = name in SETTINGS and parameter.default is not inspect.Parameter.empty
            if comparable and getattr(module, name, parameter.default) != parameter.default:
                unusual[kind, name] = parameter.default
    return [(kind, name, value) for (kind, name), value in unusual.items()]


def _module_setting(kind: type[nn.Module], name: str, value: Any) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        modules = [m for m in program.model.modules() if type(m) is kind]
        kept = [getattr(m, name) for m in modules]
        for module in modules:
            setattr(module, name, value)
        try:
            yield
        finally:
            for module, old in zip(modules, kept, strict=True):
                setattr(module, name, old)

    return change


@contextmanager
def without_dropout(program: Program) -> Iterator[None]:
    gates = [m for m in program.model.modules() if isinstance(m, nn.RNNBase)]
    kept = [m.dropout for m in gates]
    for module in gates:
        module.dropout = 0.0
    try:
        with replacing(**dict.fromkeys(DROPOUT, lambda function, x, *args, **kwargs: x))(program):
            yield
    finally:
        for module, old in zip(gates, kept, strict=True):
            module.dropout = old


@contextmanager
def _evaluated_without_dropout(program: Program) -> Iterator[Callable[[], None]]:
    """Trained as it is; dropout leaves nothing out in the evaluation that follows."""
    with ExitStack() as stack:

        def evaluated() -> None:
            stack.enter_context(without_dropout(program))

        yield evaluated


class _LastActivation(TorchFunctionMode):
    """Remembers the last activation's input and output."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: Tensor | None = None
        self.result: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note and go on."""
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "").rstrip("_") in LAST and args:
            self.inputs, self.result = args[0], result
        return result


@contextmanager
def _without_last(program: Program) -> Iterator[None]:
    """The model's output is what its last activation was given, where the activation is the last thing."""
    used: list[bool] = []
    with _LastActivation() as last:

        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            inputs, result, last.inputs, last.result = last.inputs, last.result, None, None
            if inputs is None or not isinstance(output, Tensor):
                return output
            # A view of the result is what a squeeze or a reshape after the activation gives.
            if output is not result and not (output._base is result and output.numel() == inputs.numel()):
                return output
            used.append(True)
            return inputs.reshape(output.shape)

        handle = program.model.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()
    if not used:
        raise NotInUseError("the model's output is not an activation's")


@contextmanager
def _statistics_anew(program: Program) -> Iterator[Callable[[], None]]:
    """After training each batch normalisation counts training examples anew, under the weights as they are."""
    layers = [m for m in program.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]

    def restate() -> None:
        if program.train_loader is None:
            raise NotAskedError("the program has no train_loader")
        with preserved_modes(program.model), torch.no_grad():
            program.model.eval()
            for layer in layers:
                if layer.running_mean is not None:
                    layer.reset_running_stats()
                    # None averages over all batches alike.
                    layer.momentum = None
                    layer.train()
            for batch in islice(program.train_loader, 20):
                program.outputs(program.parts(batch)[0])

    kept = [m.momentum for m in layers]
    try:
        yield restate
    finally:
        for module, momentum in zip(layers, kept, strict=True):
            module.momentum = momentum
