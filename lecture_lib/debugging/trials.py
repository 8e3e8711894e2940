"""Counterfactuals: the same program, trained from the same seeds with one thing changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from .evidence import Evidence
from .program import Program
from .untouched import untouched

SEEDS = 3
EFFECT = 0.1  # smallest gain that is reported, as a share of the loss of the best constant answer
BEYOND = 2.0  # times the standard deviation of the gains between seeds
Change = Callable[[Program], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Gain:
    """What a change brought.

    Attributes:
        before, after: mean loss on validation or training examples, over the seeds.
        share: mean gain, as a share of the loss of the best constant answer.
        spread: standard deviation of it between seeds.

    """

    before: float
    after: float
    share: float
    spread: float

    @property
    def real(self) -> bool:
        """Whether it is above the smallest effect, and beyond what seeds do."""
        return self.share > EFFECT and self.share > BEYOND * self.spread

    def __str__(self) -> str:
        runs = f"over {SEEDS} seeds ({self.share:+.0%} ± {self.spread:.0%} of a constant answer's loss)"
        return f"loss {self.after:.3g} in place of {self.before:.3g} {runs}"


class Trials:
    """Trains a program with changes, and remembers what it gave without.

    Args:
        evidence: of the program.
        epochs: of each run; default: as declared.

    """

    def __init__(self, evidence: Evidence, epochs: int | None = None) -> None:
        self.evidence = evidence
        self.epochs = epochs or evidence.spec.epochs or 5
        self._plain: dict[tuple[int, bool, int], float] = {}

    def loss(self, seed: int, change: Change | None = None, *, validation: bool = False, epochs: int = 0) -> float:
        """Loss after a run; infinite where it is not finite or the run fails."""
        evidence = self.evidence
        examples = evidence.val if validation else evidence.train
        if examples is None:
            return math.inf
        with untouched(evidence.program, evidence.seed + seed) as program:
            try:
                with change(program) if change else nullcontext():
                    for _ in range(epochs or self.epochs):
                        program.run_epoch()
                    found = evidence.measure(examples.part(slice(0, 1000)))[0]
            except Exception:
                return math.inf
        return found if math.isfinite(found) else math.inf

    def plain(self, seed: int, validation: bool, epochs: int = 0) -> float:
        """Loss after a run of the program as it is."""
        key = (seed, validation, epochs or self.epochs)
        if key not in self._plain:
            if seed == 0 and len(self.evidence.run.rows) >= key[2]:
                row = self.evidence.run.rows[key[2] - 1]
                for name, value in ((False, row.train_loss), (True, row.val_loss)):
                    self._plain[0, name, key[2]] = value if math.isfinite(value) else math.inf
            else:
                self._plain[key] = self.loss(seed, validation=validation, epochs=epochs)
        return self._plain[key]

    def worth(self, change: Change, *, validation: bool = False, epochs: int = 0, longer: int = 0) -> bool:
        """Whether one seed promises a gain; `longer` gives the changed run more epochs than the other has."""
        before = min(self.plain(0, validation, epochs), 2 * self.constant)
        return before - self.loss(0, change, validation=validation, epochs=longer or epochs) > EFFECT * self.constant

    def gain(self, change: Change, *, validation: bool = False, epochs: int = 0, longer: int = 0) -> Gain:
        """The gain over shared seeds. A loss above twice that of a constant counts as that."""
        top = 2 * self.constant
        seeds = range(SEEDS)
        before = [min(self.plain(seed, validation, epochs), top) for seed in seeds]
        options: dict[str, Any] = {"validation": validation, "epochs": longer or epochs}
        after = [min(self.loss(seed, change, **options), top) for seed in seeds]
        gains = [(a - b) / self.constant for a, b in zip(before, after, strict=True)]
        return Gain(fmean(before), fmean(after), fmean(gains), stdev(gains))

    @property
    def early(self) -> int:
        """A quarter of the run: what is wrong with the start shows there most."""
        return max(1, self.epochs // 4)

    @property
    def room(self) -> float:
        """The largest gain that is possible on training examples, if the lowest loss is 0."""
        return self.plain(0, False) / self.constant

    @property
    def early_room(self) -> float:
        """The same a quarter of the run in."""
        return self.plain(0, False, self.early) / self.constant

    @property
    def constant(self) -> float:
        """Loss of the best constant answer on training examples; that of the untrained model where it is unknown."""
        return self.evidence.constant_loss


def learning_rate_times(factor: float) -> Change:
    """Every step is taken with so many times its rate, whatever schedule sets it."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        kept: dict[int, list[float]] = {}

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            kept[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor

        def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            for group, rate in zip(optimizer.param_groups, kept[id(optimizer)], strict=True):
                group["lr"] = rate

        handles = [
            hook
            for optimizer in program.optimizers
            for hook in (optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after))
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    return change


def learning_rate_of(rate: float) -> Change:
    """Every step is taken with this rate."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            for group in optimizer.param_groups:
                group["lr"] = rate

        handles = [optimizer.register_step_pre_hook(before) for optimizer in program.optimizers]
        program.scheduler = None if program.train_epoch is None else program.scheduler
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    return change


@contextmanager
def clipped(program: Program) -> Iterator[None]:
    """Gradients are clipped to a norm of 1."""

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)

    handles = [optimizer.register_step_pre_hook(before) for optimizer in program.optimizers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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
                    nn.init.kaiming_uniform_(parameter, a=math.sqrt(5))
                elif "bias" in name:
                    parameter.zero_()
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
    yield


@contextmanager
def initialised_well(program: Program) -> Iterator[None]:
    """Weights are drawn for ReLUs (He et al. 2015), biases are 0: deep stacks start with signals of constant size."""
    with torch.no_grad():
        for name, parameter in program.model.named_parameters():
            if parameter.ndim >= 2:
                nn.init.kaiming_normal_(parameter)
            elif "bias" in name:
                parameter.zero_()
    yield


class Replaced(TorchFunctionMode):
    """Calls of some of PyTorch's functions go elsewhere.

    Args:
        functions: name -> what is called in its place, with the function itself first.

    """

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the replacement."""
        other = self._functions.get(getattr(func, "__name__", ""))
        return other(func, *args, **(kwargs or {})) if other else func(*args, **(kwargs or {}))


def replacing(**functions: Callable[..., Any]) -> Change:
    """A change of some of PyTorch's functions."""
    return lambda program: Replaced(functions)


class Seen(TorchFunctionMode):
    """Keeps what activations give: for each call of relu, sigmoid and tanh its name, input and output."""

    NAMES = ("relu", "relu_", "_threshold", "sigmoid", "tanh", "sigmoid_", "tanh_")

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note and go on."""
        name = getattr(func, "__name__", "")
        given = args[0].detach().clone() if name in self.NAMES and args else None
        result = func(*args, **(kwargs or {}))
        if given is not None:
            self.calls.append((name.rstrip("_"), given, result.detach()))
        return result
