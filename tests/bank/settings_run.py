"""Batch sizes and lengths of training that do not suit."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import BASES, PARTS, changed, make


@case("H03", "all examples in one batch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, batch_size=1000))


@case("H03", "the tensors are the only batch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    return make(base, seed, train_loader=[(data.x, data.y)])


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """With a rate for batches of 64."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@case("H03", "two examples", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    spec = replace(PARTS[base].spec, epochs=12)
    return make(base, seed, spec, changed(base, batch_size=2, optimizer=sgd))


@case("H03", "four examples", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, batch_size=4, optimizer=sgd))


@case("H04", "two epochs", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(PARTS[base].spec, epochs=2))


OTHER = {
    "digits": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    "shapes": lambda model: torch.optim.AdamW(model.parameters(), lr=2e-3),
    "sequence": lambda model: torch.optim.Adam(model.parameters(), lr=3e-3),
    "regression": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
}


@case("H04", "three epochs of another optimizer", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(PARTS[base].spec, epochs=3), changed(base, optimizer=OTHER[base]))
