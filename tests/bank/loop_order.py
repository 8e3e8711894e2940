"""Faults G01 to G06: zero_grad, backward and step are missing, in the wrong order or in the wrong place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_programs import SGD_RATES, other, sgd
from .programs import BASES, make

Batch = tuple[Tensor, Tensor]


@case("G01", "zero_grad once before the loop", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        p.optimizer.zero_grad()
        for x, y in p.train_loader:
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G01", "zero_grad without its brackets", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad  # noqa: B018
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G02", "zero_grad before step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            p.optimizer.zero_grad()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G02", "gradients filled with zeros after backward", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.loss_fn(p.model(x), y).backward()
        for parameter in p.model.parameters():
            parameter.grad.zero_()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G03", "no step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()

    return make(base, seed, train_epoch=train_epoch)


@case("G03", "step behind a condition that is never true", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    every = 1

    def train_epoch(p: Program) -> None:
        p.model.train()
        for number, (x, y) in enumerate(p.train_loader):
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            if number % every == 1:
                p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G04", "no backward", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        total = 0.0
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            total += loss.item()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G04", "gradients computed and dropped", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        loss = p.loss_fn(p.model(x), y)
        torch.autograd.grad(loss, list(p.model.parameters()))
        p.optimizer.step()

    return make(base, seed, step=step)


# Rates at which training works, and a gradient that is one batch old does harm.
LATE_RATES = {"digits": 0.08, "shapes": 0.05, "sequence": 1.5, "regression": 0.07}


@case("G05", "gradients assigned after the step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        parameters = list(p.model.parameters())
        gradients = torch.autograd.grad(p.loss_fn(p.model(x), y), parameters)
        p.optimizer.step()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    return other(base, seed, {"step": step}, optimizer=sgd(LATE_RATES[base]))


class OwnSGD(torch.optim.Optimizer):
    """SGD with momentum by hand, through `data` as in old examples."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                    velocity.mul_(0.9).add_(parameter.grad)
                    parameter.data -= group["lr"] * velocity


@case("G05", "step between forward and backward", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            loss = p.loss_fn(p.model(x), y)
            p.optimizer.step()
            p.optimizer.zero_grad()
            loss.backward()

    def optimizer(model: nn.Module) -> OwnSGD:
        return OwnSGD(model.parameters(), lr=LATE_RATES[base])

    return other(base, seed, {"train_epoch": train_epoch}, optimizer=optimizer)


@case("G06", "step after the loop", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
        p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G06", "one step with the loss of the whole epoch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        losses = [p.loss_fn(p.model(x), y) for x, y in p.train_loader]
        p.optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G06", "step when the loader is at its end", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        batches = list(p.train_loader)
        p.optimizer.zero_grad()
        for number, (x, y) in enumerate(batches, start=1):
            (p.loss_fn(p.model(x), y) / len(batches)).backward()
            if number == len(batches):
                p.optimizer.step()
                p.optimizer.zero_grad()

    return other(base, seed, {"train_epoch": train_epoch}, optimizer=sgd(SGD_RATES[base]))
