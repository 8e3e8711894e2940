"""Faults G30 and G32: the schedule is stepped at the wrong time, and a resumed run is not the same run."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, LRScheduler, OneCycleLR, StepLR

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_programs import SGD_RATES, adamw, other, sgd
from .programs import BASES, make


def every_batch(p: Program) -> None:
    """An epoch in which the schedule is stepped after each batch."""
    p.model.train()
    for batch in p.train_loader:
        p.run_step(batch)
        p.scheduler.step()


def scheduled(made: tuple[Program, Spec], scheduler: LRScheduler, after: str) -> tuple[Program, Spec]:
    """A program with a schedule that is meant to be stepped after each 'batch' or 'epoch'."""
    program, spec = made
    program.scheduler = scheduler
    return program, replace(spec, scheduler_steps=after)


def to_schedule(base: str, seed: int, **of_program: Any) -> tuple[Program, Spec]:
    """A base program; the tagger starts faster, so that it arrives although its rate falls."""
    return other(base, seed, of_program, **({"optimizer": adamw(1.5e-2)} if base == "sequence" else {}))


@case("G30", "steps for epochs taken after batches", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = to_schedule(base, seed, train_epoch=every_batch)
    return scheduled((program, spec), StepLR(program.optimizer, step_size=spec.epochs // 3, gamma=0.3), "epoch")


@case("G30", "decay of an epoch after each batch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = to_schedule(base, seed, train_epoch=every_batch)
    return scheduled((program, spec), ExponentialLR(program.optimizer, gamma=0.1 ** (1 / spec.epochs)), "epoch")


@case("G30", "one cycle of batches stepped after epochs", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = to_schedule(base, seed)
    steps = spec.epochs * len(program.train_loader)
    highest = program.optimizer.param_groups[0]["lr"]
    return scheduled((program, spec), OneCycleLR(program.optimizer, highest, total_steps=steps), "batch")


@case("G30", "warm-up of batches stepped after epochs", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for batch in p.train_loader:
            p.run_step(batch)
        p.scheduler.step()

    program, spec = to_schedule(base, seed, train_epoch=train_epoch)
    warm_up = 2 * len(program.train_loader)
    scheduler = LambdaLR(program.optimizer, lambda number: min(1.0, (number + 1) / warm_up))
    return scheduled((program, spec), scheduler, "batch")


def streams(p: Program) -> dict[str, Any]:
    """The states of the random streams that training draws from."""
    order = getattr(p.train_loader, "generator", None)
    return {"torch": torch.get_rng_state(), "order": order and order.get_state()}


def restore_streams(p: Program, states: dict[str, Any]) -> None:
    """Go on drawing from where `streams` was called."""
    torch.set_rng_state(states["torch"])
    if states["order"] is not None:
        p.train_loader.generator.set_state(states["order"])


@case("G32", "weights only", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def save(p: Program) -> dict[str, Any]:
        return deepcopy(p.model.state_dict())

    def load(p: Program, found: dict[str, Any]) -> None:
        p.model.load_state_dict(found)

    return other(base, seed, {"save": save, "load": load}, optimizer=sgd(SGD_RATES[base]))


@case("G32", "state of the optimizer saved and not loaded", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def save(p: Program) -> dict[str, Any]:
        states = {"model": p.model.state_dict(), "optimizer": p.optimizer.state_dict()}
        return deepcopy(states) | {"streams": streams(p)}

    def load(p: Program, found: dict[str, Any]) -> None:
        p.model.load_state_dict(found["model"])
        restore_streams(p, found["streams"])

    return make(base, seed, save=save, load=load)


@case("G32", "the schedule starts again", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def save(p: Program) -> dict[str, Any]:
        states = {"model": p.model.state_dict(), "optimizer": p.optimizer.state_dict()["state"]}
        return deepcopy(states) | {"streams": streams(p)}

    def load(p: Program, found: dict[str, Any]) -> None:
        p.model.load_state_dict(found["model"])
        p.optimizer.load_state_dict({**p.optimizer.state_dict(), "state": found["optimizer"]})
        restore_streams(p, found["streams"])

    program, spec = make(base, seed, save=save, load=load)
    return scheduled((program, spec), ExponentialLR(program.optimizer, gamma=0.8), "epoch")


@case("G32", "parameters without the buffers", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def save(p: Program) -> dict[str, Any]:
        states = {"model": dict(p.model.named_parameters()), "optimizer": p.optimizer.state_dict()}
        return deepcopy(states) | {"streams": streams(p)}

    def load(p: Program, found: dict[str, Any]) -> None:
        p.model.load_state_dict(found["model"], strict=False)
        p.optimizer.load_state_dict(found["optimizer"])
        restore_streams(p, found["streams"])

    return make(base, seed, save=save, load=load)
