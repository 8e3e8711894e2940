"""Replacements of the step, the loss, the optimizer and the schedule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...training._run.preserve import evaluating
from ..program import Program, Spec
from .assumptions import NotAskedError
from .changes import Change, around_steps, learning_rate_times
from .inspection import held_by
from .reference_parts import declared, reference_step, standard_loss
from .replacement import NotInUseError, Profile, Replacement

WITHOUT_DEFAULT = {"lr", "params", "foreach", "fused", "capturable", "differentiable"}
SAME = 1e-3  # of a cosine that rounding leaves


def own_loop(program: Program) -> bool:
    """Whether the program brings a loop or a step of its own."""
    return program.step is not None or program.train_epoch is not None


HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
HOOKS_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def has_hooks(program: Program) -> bool:
    """Whether the author's hooks come between the backward pass and the step."""
    return any(getattr(holder, name, None) for holder, name in _places_of_hooks(program))


def _places_of_hooks(program: Program) -> list[tuple[Any, str]]:
    places: list[tuple[Any, str]] = [(optimizer, name) for optimizer in program.optimizers for name in HOOKS]
    return places + [(parameter, name) for parameter in program.model.parameters() for name in HOOKS_OF_PARAMETERS]


@contextmanager
def without_hooks(program: Program) -> Iterator[None]:
    """Nothing comes between the backward pass and the step, but what is registered inside."""
    kept = [(holder, name, getattr(holder, name)) for holder, name in _places_of_hooks(program)]
    kept = [(holder, name, hooks) for holder, name, hooks in kept if hooks]
    for holder, name, hooks in kept:
        setattr(holder, name, type(hooks)())
    try:
        yield
    finally:
        for holder, name, hooks in kept:
            setattr(holder, name, hooks)


def own_loss(program: Program, spec: Spec) -> Callable[[Any, Any], Tensor]:
    """The program's loss, or the standard one where it has none."""
    return program.loss_fn or (lambda outputs, targets: standard_loss(outputs, targets, spec))


def plain_loop(spec: Spec) -> Change:
    """The reference step in the place of the program's own step and epoch."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        if program.train_loader is None:
            raise NotAskedError("the program has no train_loader")
        by_batch = program.scheduler if spec.scheduler_steps == "batch" else None
        if isinstance(program.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            program.scheduler = _PlateauSchedule(program)
        program.train_epoch, program.step = None, reference_step(spec, own_loss(program, spec), by_batch)
        if by_batch is not None:
            program.scheduler = None
        with without_hooks(program):
            yield

    return change


class _PlateauSchedule:
    """A schedule that waits for a plateau is given the mean validation loss."""

    def __init__(self, program: Program) -> None:
        self._program, self._scheduler = program, program.scheduler

    def step(self) -> None:
        """One step of it."""
        program = self._program
        if program.loss_fn is None:
            raise NotAskedError("the schedule waits for a plateau of a loss that is not known")
        with evaluating(program.model):
            pairs = [program.parts(batch) for batch in program.val_loader or ()]
            losses = [float(program.loss_fn(program.outputs(x), y)) for x, y in pairs]
        self._scheduler.step(sum(losses) / max(len(losses), 1))


def declares_more(spec: Spec) -> bool:
    """Whether something is declared that a plain step does not do."""
    return spec.accumulate > 1 or spec.max_norm is not None or bool(spec.eval_modules or spec.frozen)


def of_step(profile: Profile) -> Iterator[Replacement]:
    spec = profile.spec
    if own_loop(profile.program) and profile.program.train_loader is not None:
        yield Replacement("step", "the plain step: zero_grad, forward, loss, backward, step", plain_loop(spec))
    elif declares_more(spec) or has_hooks(profile.program):
        yield Replacement("step", "the step as it is declared", plain_loop(spec))
    if spec.max_norm is not None and profile.program.train_loader is not None:
        # Clipping slows sound programs down too.
        unclipped = plain_loop(replace(spec, max_norm=None))
        yield Replacement("step", "the plain step without clipping", unclipped, general=True, fault="G15")


def beside_the_standard_loss(profile: Profile) -> tuple[Tensor, Tensor, float, float] | None:
    """Loss and standard loss of the same outputs, and of their gradients the ratio and the cosine; None without any."""
    own, train, outputs, device = profile.program.loss_fn, profile.train, profile.outputs, profile.program.device
    if own is None or train is None or outputs is None:
        return None
    y, scores = train.y[: len(outputs)], outputs.detach().clone().requires_grad_()
    values = own(scores.to(device), y.to(device)).cpu(), standard_loss(scores, y, profile.spec)
    gradients = [torch.autograd.grad(value, scores)[0].flatten().double() for value in values]
    ratio = float(gradients[0].norm() / gradients[1].norm().clamp(min=1e-30))
    cosine = float(torch.cosine_similarity(gradients[0], gradients[1], dim=0))
    return values[0].detach(), values[1].detach(), ratio, cosine


def is_standard(profile: Profile) -> bool:
    """Whether the program's loss is the usual one of the task, also where there is none."""
    try:
        comparison = beside_the_standard_loss(profile)
    except Exception:  # of a loss that does not take these outputs alone
        return False
    return comparison is None or (comparison[3] > 1 - SAME and 0.9 < comparison[2] < 1.1)


def of_loss(profile: Profile) -> Iterator[Replacement]:
    program, spec = profile.program, profile.spec
    if program.loss_fn is None or is_standard(profile):
        return

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []

        def loss(outputs: Any, targets: Any, *further: Any, **more: Any) -> Tensor:
            used.append(True)
            return standard_loss(outputs, targets, spec)

        program.loss_fn = loss
        yield
        if not used:
            raise NotInUseError("the program's step never calls loss_fn")

    yield Replacement("loss", "the standard loss of the task", change)


def _before_steps(act: Callable[[Optimizer, int], None]) -> Change:
    """Something is done before each step of each optimizer, which is numbered."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []
        numbers = {id(optimizer): number for number, optimizer in enumerate(program.optimizers)}

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            used.append(True)
            act(optimizer, numbers[id(optimizer)])

        with around_steps(program, before):
            yield
        if not used:
            raise NotInUseError("the program's optimizer never takes a step")

    return change


def of_optimizer(profile: Profile) -> Iterator[Replacement]:
    program, spec = profile.program, profile.spec
    held = held_by(program.optimizers)
    named = [(name, p) for name, p in program.model.named_parameters() if not declared(name, spec.frozen)]
    if held and any(id(p) not in held or not p.requires_grad for _, p in named):
        yield Replacement("optimizer", "all parameters trained", _all_trained(spec))
    settings: dict[str, Any] = {}
    for optimizer in program.optimizers:
        usual = {name: p.default for name, p in inspect.signature(type(optimizer)).parameters.items()}
        for name in set(optimizer.param_groups[0]) & set(usual) - WITHOUT_DEFAULT:
            if usual[name] is not None and any(group[name] != usual[name] for group in optimizer.param_groups):
                settings[name] = usual[name]
    for name, value in settings.items():
        if name == "momentum":
            # SGD has no momentum by default; 0.9 is usual.
            value = 0.9
            if all(g.get(name) == value for optimizer in program.optimizers for g in optimizer.param_groups):
                continue
        yield Replacement("optimizer", f"{name} of {value!r}", _with_setting(name, value))
    rates = {rate for group in profile.rates for rate in group}
    if len(rates) > 1 and len(program.optimizers) == 1 and not profile.body_was_trained:
        yield Replacement("optimizer", "one learning rate for all parameters", _before_steps(_largest_rate))
    for factor, fault in ((0.1, "H01"), (10.0, "H02"), (0.01, "H01"), (100.0, "H02")):
        description = f"{factor:g} times the learning rate"
        yield Replacement("optimizer", description, learning_rate_times(factor), general=True, fault=fault)


def _with_setting(name: str, value: Any) -> Change:
    def act(optimizer: Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            if name in group:
                group[name] = value

    return _before_steps(act)


def _all_trained(spec: Spec) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        optimizer = program.optimizers[0]
        held = held_by(program.optimizers)
        missing = []
        for name, parameter in program.model.named_parameters():
            if not declared(name, spec.frozen):
                parameter.requires_grad_(True)
                if id(parameter) not in held:
                    missing.append(parameter)
        if missing:
            optimizer.add_param_group({"params": missing})
        try:
            yield
        finally:
            if missing:
                optimizer.param_groups.pop()

    return change


def _largest_rate(optimizer: Optimizer, number: int) -> None:
    rate = max(group["lr"] for group in optimizer.param_groups)
    for group in optimizer.param_groups:
        group["lr"] = rate


def of_schedule(profile: Profile) -> Iterator[Replacement]:
    if not profile.rates_changed:
        return
    yield Replacement("schedule", "a constant learning rate", constant_rates(profile.rates))
    scheduler, loader, spec = profile.program.scheduler, profile.program.train_loader, profile.spec
    countable = isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler) and hasattr(loader, "__len__")
    waits = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    if countable and not waits and spec.accumulate == 1 and spec.scheduler_steps != "batch":
        yield Replacement("schedule", "the schedule stepped once an epoch", stepped_once_an_epoch)


@contextmanager
def stepped_once_an_epoch(program: Program) -> Iterator[None]:
    """The loop's own calls of the schedule's step do nothing; it takes one after as many steps as an epoch has."""
    scheduler, used = program.scheduler, list[bool]()
    length = len(program.train_loader)  # type: ignore[arg-type]
    move, count = scheduler.step, 0

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal count
        count += optimizer is program.optimizers[0]
        if count == length:
            count = 0
            move()

    scheduler.step = lambda *args, **kwargs: used.append(True)
    try:
        with around_steps(program, lambda optimizer, args, kwargs: None, after):
            yield
    finally:
        # The instance's attribute hid the method of the class.
        del scheduler.step
    if not used:
        raise NotInUseError("the program never steps its schedule")


def constant_rates(rates: list[list[float]]) -> Change:
    """Each parameter group learns at one rate, whatever schedule sets it."""

    def act(optimizer: Optimizer, number: int) -> None:
        for group, rate in zip(optimizer.param_groups, rates[number], strict=False):
            group["lr"] = rate

    return _before_steps(act)
