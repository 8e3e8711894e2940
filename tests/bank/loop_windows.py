"""Faults G07 to G17: accumulation, clipping and half precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from lecture_lib.debugging import Program, Spec

from .case import case
from .loop_order import LATE_RATES
from .loss_programs import SGD_RATES, parts_of, sgd
from .programs import BASES, Data, make, regression_data

Batch = tuple[Tensor, Tensor]
# Four of these micro-batches make the batch that the optimizer sees, and an epoch has no window that is not full.
MICRO = {"digits": 15, "shapes": 20, "sequence": 25, "regression": 20}
# With micro-batches of this size, six of each epoch do not fill a window of eight.
ODD = 13
# Rates at which training needs its gradients clipped to CLIP.
CLIPPED_RATES, CLIP = {"digits": 0.3, "shapes": 0.2, "sequence": 4.0, "regression": 0.2}, 0.1


def meant(base: str, seed: int, spec: dict[str, Any], of_program: dict[str, Any], **parts: Any) -> tuple[Program, Spec]:
    """The program with SGD and other parts replaced, and with more said in its spec."""
    changed = parts_of(base, **{"optimizer": sgd(SGD_RATES[base]), **parts})
    return make(base, seed, replace(changed.spec, **spec), changed, **of_program)


@case("G07", "every fourth batch steps and losses are not divided", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        batches = list(p.train_loader)
        for number, (x, y) in enumerate(batches, start=1):
            p.loss_fn(p.model(x), y).backward()
            if number % 4 == 0 or number == len(batches):
                p.optimizer.step()
                p.optimizer.zero_grad()

    parts = {"batch_size": MICRO[base], "optimizer": sgd(LATE_RATES[base])}
    return meant(base, seed, {"accumulate": 4}, {"train_epoch": train_epoch}, **parts)


@case("G07", "loss summed over the window", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        batches = iter(p.train_loader)
        while window := list(islice(batches, 4)):
            p.optimizer.zero_grad()
            loss = sum(p.loss_fn(p.model(x), y) for x, y in window)
            loss.backward()
            p.optimizer.step()

    parts = {"batch_size": MICRO[base], "optimizer": sgd(LATE_RATES[base])}
    return meant(base, seed, {"accumulate": 4}, {"train_epoch": train_epoch}, **parts)


@case("G10", "what is left leaks into the next epoch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for number, (x, y) in enumerate(p.train_loader, start=1):
            (p.loss_fn(p.model(x), y) / 8).backward()
            if number % 8 == 0:
                p.optimizer.step()
                p.optimizer.zero_grad()

    return meant(base, seed, {"accumulate": 8}, {"train_epoch": train_epoch}, batch_size=ODD)


@case("G10", "what is left is thrown away when the epoch starts", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        p.optimizer.zero_grad()
        for number, (x, y) in enumerate(p.train_loader):
            loss = p.loss_fn(p.model(x), y) / 8
            loss.backward()
            if number % 8 == 7:
                p.optimizer.step()
                p.optimizer.zero_grad()

    return meant(base, seed, {"accumulate": 8}, {"train_epoch": train_epoch}, batch_size=ODD)


@case("G10", "only full windows from the loader", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def windows(batches: Iterable[Batch], size: int) -> Iterable[tuple[Batch, ...]]:
        return zip(*[iter(batches)] * size, strict=False)

    def train_epoch(p: Program) -> None:
        p.model.train()
        for window in windows(p.train_loader, 8):
            p.optimizer.zero_grad()
            for x, y in window:
                (p.loss_fn(p.model(x), y) / len(window)).backward()
            p.optimizer.step()

    return meant(base, seed, {"accumulate": 8}, {"train_epoch": train_epoch}, batch_size=ODD)


@case("G14", "parameters kept as an iterator", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        trainable = filter(lambda parameter: parameter.requires_grad, p.model.parameters())
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            clip_grad_norm_(trainable, CLIP)
            p.optimizer.step()

    parts = {"optimizer": sgd(CLIPPED_RATES[base])}
    return meant(base, seed, {"max_norm": CLIP}, {"train_epoch": train_epoch}, **parts)


@case("G14", "parameters counted before they are clipped", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        gradients = (parameter.grad for parameter in p.model.parameters())
        norm = sum(gradient.pow(2).sum() for gradient in gradients).sqrt()
        if norm > CLIP:
            for gradient in gradients:
                gradient.mul_(CLIP / norm)
        p.optimizer.step()

    return meant(base, seed, {"max_norm": CLIP}, {"step": step}, optimizer=sgd(CLIPPED_RATES[base]))


@case("G15", "maximum norm far below the usual", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        clip_grad_norm_(p.model.parameters(), max_norm=1e-3)
        p.optimizer.step()

    return meant(base, seed, {"max_norm": 1e-3}, {"step": step})


@case("G15", "clipped by hand in a hook of the optimizer", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    max_norm = 1e-3

    def clip(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        gradients = [q.grad for group in optimizer.param_groups for q in group["params"] if q.grad is not None]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient.mul_((max_norm / norm).clamp(max=1))

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        found = sgd(SGD_RATES[base])(model)
        found.register_step_pre_hook(clip)
        return found

    return meant(base, seed, {"max_norm": max_norm}, {}, optimizer=optimizer)


def adam_for_small(model: nn.Module) -> torch.optim.Optimizer:
    """Adam whose epsilon is below the square of very small gradients."""
    return torch.optim.AdamW(model.parameters(), lr=5e-3, eps=1e-12)


@case("G17", "a loss of small weight in autocast", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = 1e-5 * p.loss_fn(p.model(x), y)
        loss.backward()
        p.optimizer.step()

    return meant(base, seed, {}, {"step": step}, optimizer=adam_for_small)


@case("G17", "targets in a large unit", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = regression_data()
        return replace(found, y=found.y * 1e-3, y_val=found.y_val * 1e-3)

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(x)
        return 1e-3 * outputs.float()

    return meant(base, seed, {}, {"forward": forward}, data=data, optimizer=adam_for_small)
