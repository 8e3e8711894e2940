"""Replacements of the inputs, and of the whole program but its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..program import Program
from .assumptions import NotAskedError
from .changes import Change, before_model
from .reference_parts import reference_model, reference_optimizer, reference_step, standard_loss
from .replace_training import own_loss
from .replacement import NotInUseError, Profile, Replacement
from .run_data import Examples

CUT = 10.0  # deviations


def of_inputs(profile: Profile) -> Iterator[Replacement]:
    train, val, program = profile.train, profile.val, profile.program
    if train is None:
        return
    if program.plain_loader is not None:

        @contextmanager
        def plain(program: Program) -> Iterator[None]:
            program.train_loader = program.plain_loader
            yield

        fault = "D09" if profile.spec.task == "segmentation" else "D28"  # then it is the mask that stays behind
        yield Replacement("inputs", "training examples without augmentation", plain, fault=fault)
    yield Replacement(
        "inputs", "training examples in a new order each epoch, in batches of the same size", _shuffled(train)
    )
    if train.batch_size > 64 or train.batch_size < 8:
        extreme = train.batch_size <= 4 or train.batch_size >= len(train.y) / 3
        change = _shuffled(train, 32)
        yield Replacement("inputs", "batches of 32", change, general=True, fault="H03" if extreme else None)
    if train.x.is_floating_point() and train.x.ndim > 1:
        mean, deviation = _statistics(train.x)
        if val is not None and val.x.shape[1:] == train.x.shape[1:]:
            own_mean, own_deviation = _statistics(val.x)
            change = _transformed(
                lambda x: _standard(x, own_mean, own_deviation) * deviation.to(x) + mean.to(x), training=False
            )
            yield Replacement("inputs", "validation inputs with mean and spread of training", change)
        standard = _transformed(lambda x: _standard(x, mean, deviation))
        yield Replacement("inputs", "standardised inputs", standard, general=True)


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature, or of each channel; those that never vary have the largest deviation."""
    # Columns of rows, channels of pictures, the last axis of series.
    over = [0] if x.ndim == 2 else [0, *range(2, x.ndim)] if x.ndim == 4 else list(range(x.ndim - 1))
    x = x.double()
    mean, deviation = x.mean(dim=over, keepdim=True), x.std(dim=over, keepdim=True)
    lively = deviation > 1e-6 * mean.abs() + 1e-12
    deviation = torch.where(lively, deviation, deviation.max().clamp(min=1e-12))
    return mean.float(), deviation.float()


def _standard(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Standardised, and cut off far out: a feature that hardly varies may take any value later."""
    return ((x - mean.to(x)) / deviation.to(x)).clamp(-CUT, CUT)


def _transformed(transform: Callable[[Tensor], Tensor], training: bool = True) -> Change:
    """The model gets transformed inputs; with `training=False` in evaluation only."""

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        used: list[bool] = []

        def of_this_mode(x: Tensor) -> Tensor:
            used.append(True)
            return transform(x) if training or not program.model.training else x

        with before_model(program, of_this_mode):
            yield
        if not used:
            raise NotInUseError("the program calls parts of its model and never the model")

    return change


def of_labels(profile: Profile) -> Iterator[Replacement]:
    train = profile.train
    if train is None or profile.spec.task != "regression" or not train.y.is_floating_point():
        return
    mean, deviation = _statistics(train.y.reshape(len(train.y), -1))
    mean, deviation = mean[0].reshape(train.y.shape[1:]), deviation[0].reshape(train.y.shape[1:])

    @contextmanager
    def standardised(program: Program) -> Iterator[None]:
        own, used, loader = program.forward, list[bool](), train.loader(int(torch.randint(2**31, ())))
        inputs, targets = loader.dataset.tensors  # type: ignore[attr-defined]
        loader.dataset.tensors = inputs, (targets - mean.to(targets)) / deviation.to(targets)  # type: ignore[attr-defined]
        program.train_loader = loader

        def scaled_back(model: nn.Module, x: Tensor) -> Tensor:
            used.append(True)
            outputs: Tensor = own(model, x) if own else model(x)
            return outputs if model.training else outputs * deviation.to(outputs) + mean.to(outputs)

        program.forward = scaled_back
        yield
        if not used:
            raise NotInUseError("the program calls its model by itself")

    yield Replacement("labels", "standardised targets", standardised, general=True)


def _shuffled(train: Examples, batch_size: int = 0) -> Change:
    @contextmanager
    def change(program: Program) -> Iterator[None]:
        # Drawn from the run's own stream, so that each seed has another order.
        program.train_loader = train.loader(int(torch.randint(2**31, ())), batch_size)
        yield

    return change


def of_everything(profile: Profile) -> Iterator[Replacement]:
    program, train, outputs, spec = profile.program, profile.train, profile.outputs, profile.spec
    if train is None or outputs is None or program.train_loader is None:
        return

    @contextmanager
    def settings(program: Program) -> Iterator[None]:
        program.optimizer, program.scheduler = reference_optimizer(program.model, spec), None
        program.train_epoch, program.step = None, reference_step(spec, own_loss(program, spec))
        yield

    yield Replacement("optimizer", "Adam at 0.002 with the plain step", settings, general=True)
    try:
        reference_model(train.x, outputs, spec.causal)
    except NotAskedError:
        return

    @contextmanager
    def model(program: Program) -> Iterator[None]:
        program.model = reference_model(train.x, outputs, spec.causal)
        program.forward = None
        program.optimizer, program.scheduler = reference_optimizer(program.model, spec), None
        program.train_epoch = None
        program.step = reference_step(spec, lambda scores, targets: standard_loss(scores, targets, spec))
        yield

    yield Replacement("model", "a plain network, the standard loss and Adam", model, general=True)
