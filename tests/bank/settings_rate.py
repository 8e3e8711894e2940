"""Learning rates that are too large or too small."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, LambdaLR

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import own
from .programs import BASES, changed, make


@case("H01", "Adam with 0.5", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=0.5)))


@case("H01", "multiplied by the batch size", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    batch_size = 64
    learning_rate = 0.02 * batch_size

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)

    return make(base, seed, parts=changed(base, optimizer=optimizer, batch_size=batch_size))


@case("H01", "fine-tuned with the rate for training from scratch", "pretrained digits", "pretrained shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        groups = [{"params": model.backbone.parameters(), "lr": 0.3}, {"params": model.head.parameters(), "lr": 0.3}]
        return torch.optim.RMSprop(groups)

    return make(base, seed, parts=own(base, optimizer=optimizer))


@case("H01", "RMSprop with 0.3", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(model.parameters(), lr=0.3, momentum=0.9)

    return make(base, seed, parts=changed(base, optimizer=optimizer))


@case("H02", "1e-7", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=1e-7)))


@case("H02", "LambdaLR gets the rate, not a factor", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    learning_rate = 1e-3
    parts = changed(base, optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=learning_rate))
    program, spec = make(base, seed, parts=parts)
    program.scheduler = LambdaLR(program.optimizer, lambda epoch: learning_rate * 0.97**epoch)
    return program, replace(spec, scheduler_steps="epoch")


@case("H02", "a rate for Adam in SGD", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=3e-5)

    return make(base, seed, parts=changed(base, optimizer=optimizer))


@case("H02", "warm-up that never ends", "digits", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = make(base, seed)
    program.scheduler = ConstantLR(program.optimizer, factor=1e-3, total_iters=1000)
    return program, replace(spec, scheduler_steps="epoch")
