"""Batch sizes and lengths of training that do not suit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import BASES, PARTS, changed, make


def rate(value: float) -> Callable[[nn.Module], torch.optim.Optimizer]:
    """A factory of SGD with momentum."""
    return lambda model: torch.optim.SGD(model.parameters(), lr=value, momentum=0.9)


@case("H03", "all examples in one batch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, batch_size=1000))


@case("H03", "one example", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, batch_size=1, optimizer=rate(0.05)))


@case("H03", "three examples", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(model.parameters(), lr=2e-2)

    return make(base, seed, parts=changed(base, batch_size=3, optimizer=optimizer))


@case("H04", "two epochs", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(PARTS[base].spec, epochs=2))


@case("H04", "a slow optimizer and three epochs", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.02, nesterov=True, momentum=0.5)

    return make(base, seed, replace(PARTS[base].spec, epochs=3), changed(base, optimizer=optimizer))


@case("H04", "a schedule for three epochs", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    epochs = 3
    program, spec = make(base, seed)
    program.scheduler = CosineAnnealingLR(program.optimizer, T_max=epochs)
    return program, replace(spec, epochs=epochs, scheduler_steps="epoch")
