"""Activations that let nothing through, too much through, or are not there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_scale import adam, fully_connected, plain_convolutions
from .programs import PAD, TAGS, WORDS, changed, make

SIZES = {"digits": (64, 10), "regression": (6, 1)}


def relu_model(base: str) -> nn.Module:
    """Two layers with ReLU, or convolutions."""
    return plain_convolutions() if base == "shapes" else fully_connected(*SIZES[base], depth=2, width=64)


@case("A05", "bias far below zero", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = relu_model(base)
        for layer in made[:-1]:
            if hasattr(layer, "bias"):
                nn.init.constant_(layer.bias, -10.0)
        return made

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


@case("A05", "weights between -0.5 and 0", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = relu_model(base)
        for layer in list(made)[:-1]:
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.uniform_(layer.weight, -0.5, 0.0)
                nn.init.zeros_(layer.bias)
        return made

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


class Thresholded(nn.Module):
    """A tagger whose second layer counts only from a threshold that nothing reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.hidden = nn.Linear(32, 32)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(torch.relu(self.hidden(hidden) - 8)).transpose(1, 2)


@case("A05", "a threshold that nothing reaches", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=Thresholded))


class BentMemory(Thresholded):
    """A tagger whose hidden layer has had its bias lowered."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.constant_(self.hidden.bias, -20)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(torch.relu(self.hidden(hidden))).transpose(1, 2)


@case("A05", "bias far below zero", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=BentMemory))


class SteepTanh(nn.Module):
    """A tanh that was made steep."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(100 * x)


@case("A06", "steep tanh", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        layers = [
            SteepTanh() if isinstance(layer, nn.ReLU) else layer
            for layer in (plain_convolutions() if base == "shapes" else fully_connected(*SIZES[base], depth=3))
        ]
        return nn.Sequential(*layers)

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


@case("A06", "sigmoids with a bias of 12", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = relu_model(base)
        layers = [nn.Sigmoid() if isinstance(layer, nn.ReLU) else layer for layer in made]
        for layer in layers[:-1]:
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.bias.data += 12
        return nn.Sequential(*layers)

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


class ClosedGates(nn.Module):
    """An LSTM tagger with all biases raised, where only the forget gate's was meant."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, TAGS)
        for name, parameter in self.memory.named_parameters():
            if "bias" in name:
                nn.init.constant_(parameter, 10.0)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("A06", "all gates of an LSTM biased", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=ClosedGates))


class SteepTagger(nn.Module):
    """A tagger with two steep layers behind its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Sequential(
            *(nn.Linear(32, 16), SteepTanh(), nn.Linear(16, 16), SteepTanh(), nn.Linear(16, TAGS)),
        )

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("A06", "steep tanh", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=SteepTagger))


def convolutions(*between: nn.Module) -> nn.Sequential:
    """For the shapes, with something in the place of activations, and averages to pool with."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), *between, nn.AvgPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), *between, nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(24 * 16, 5)),
    )


@case("A09", "linear after linear", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "shapes":
            return convolutions()
        inputs, outputs = SIZES[base]
        return nn.Sequential(nn.Linear(inputs, 48), nn.Linear(48, 48), nn.Linear(48, outputs))

    return make(base, seed, parts=changed(base, model=model))


@case("A09", "leaky ReLU with slope 1", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "shapes":
            return convolutions(nn.LeakyReLU(1.0))
        inputs, outputs = SIZES[base]
        middle = (nn.Linear(inputs, 48), nn.LeakyReLU(1.0), nn.Linear(48, 48), nn.LeakyReLU(1.0))
        return nn.Sequential(*middle, nn.Linear(48, outputs))

    return make(base, seed, parts=changed(base, model=model))


class LostResult(nn.Module):
    """A model that calls the activation and keeps what was there before."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 48), nn.Linear(48, 48)
        self.last = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        nn.functional.relu(x)
        x = self.second(x)
        nn.functional.relu(x)
        return self.last(x)


@case("A09", "the activation's result is lost", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: LostResult(*SIZES[base])))


class LinearContext(nn.Module):
    """A tagger of a convolution over the word and the one before, and a linear layer."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.context, self.activation = nn.Conv1d(16, 64, 2), activation
        self.head = nn.Conv1d(64, TAGS, 1)

    def forward(self, ids: Tensor) -> Tensor:
        words = nn.functional.pad(self.embedding(ids).transpose(1, 2), (1, 0))
        return self.head(self.activation(self.context(words)))


@case("A09", "linear after linear", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: LinearContext(nn.Identity())))


@case("A09", "leaky ReLU with slope 1", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: LinearContext(nn.LeakyReLU(negative_slope=1.0))))
