"""Weights that begin too large or too small."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PARTS, changed, make


def fully_connected(inputs: int, outputs: int, depth: int = 6, width: int = 48) -> nn.Sequential:
    """ReLU layers and a linear one."""
    widths = [inputs] + [width] * depth
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def plain_convolutions() -> nn.Sequential:
    """For the shapes, without norms."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(24 * 16, 5)),
    )


def deep(base: str) -> nn.Module:
    """A model of several layers for each base, without norms."""
    if base == "digits":
        return fully_connected(64, 10)
    if base == "regression":
        return fully_connected(6, 1)
    return plain_convolutions() if base == "shapes" else PARTS[base].model()


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """With the usual learning rate."""
    return torch.optim.Adam(model.parameters(), lr=2e-3)


@case("A02", "normal with deviation 2", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = PARTS[base].model()
        for parameter in made.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=2.0)
        return made

    return make(base, seed, parts=changed(base, model=model))


class RawLinear(nn.Module):
    """A linear layer whose weights come straight from randn."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


@case("A02", "own layers straight from randn", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    sizes = {"digits": (64, 10), "shapes": (256, 5), "regression": (6, 1)}
    inputs, outputs = sizes[base]

    def model() -> nn.Module:
        hidden = (RawLinear(inputs, 64), nn.ReLU(), RawLinear(64, 64), nn.ReLU())
        return nn.Sequential(nn.Flatten(), *hidden, RawLinear(64, outputs))

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


@case("A02", "gain of 10", "digits", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = PARTS[base].model()
        for name, parameter in made.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter, gain=10)
        return made

    return make(base, seed, parts=changed(base, model=model))


@case("A03", "normal with deviation 1e-4", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = deep(base)
        for name, parameter in made.named_parameters():
            if "weight" in name:
                nn.init.normal_(parameter, mean=0.0, std=1e-4)
            else:
                nn.init.zeros_(parameter)
        return made

    parts = changed(base, model=model, optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.05))
    return make(base, seed, parts=parts)


@case("A03", "a hundredth of randn in every layer", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    @torch.no_grad()
    def shrink(layer: nn.Module) -> None:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer.weight.copy_(0.01 * torch.randn_like(layer.weight))
            layer.bias.fill_(0)

    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    return make(base, seed, parts=changed(base, model=lambda: deep(base).apply(shrink), optimizer=sgd))


@case("A03", "the fan counts twice", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = deep(base)
        for layer in made:
            if isinstance(layer, nn.Linear):
                bound = 1 / layer.in_features
                nn.init.uniform_(layer.weight, -bound, bound)
                nn.init.uniform_(layer.bias, -bound / 100, bound / 100)
        return made

    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    return make(base, seed, parts=changed(base, model=model, optimizer=sgd))
