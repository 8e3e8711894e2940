"""Models that are too small, too large or held back."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PAD, PARTS, TAGS, WORDS, Data, changed, make


class NarrowTagger(nn.Module):
    """A tagger of given widths."""

    def __init__(self, embedded: int, hidden: int, dropout: float = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, embedded, padding_idx=PAD)
        self.memory = nn.GRU(embedded, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.dropout(self.embedding(ids)))
        return self.head(self.dropout(hidden)).transpose(1, 2)


@case("A20", "bottleneck of one unit", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {
        "digits": lambda: nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1), nn.Linear(1, 10)),
        "shapes": lambda: nn.Sequential(
            *(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(4)),
            *(nn.Flatten(), nn.Linear(12 * 16, 1), nn.Linear(1, 5)),
        ),
        "sequence": lambda: NarrowTagger(16, 1),
        "regression": lambda: nn.Sequential(nn.Linear(6, 1), nn.Tanh(), nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 1)),
    }
    return make(base, seed, parts=changed(base, model=models[base]))


@case("A20", "narrow everywhere", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {
        "digits": lambda: nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 10)),
        "shapes": lambda: nn.Sequential(
            *(nn.Conv2d(1, 1, 3, stride=2), nn.BatchNorm2d(1), nn.LeakyReLU()),
            *(nn.Conv2d(1, 1, 3, stride=2), nn.BatchNorm2d(1), nn.LeakyReLU(), nn.Flatten(), nn.Linear(9, 5)),
        ),
        "sequence": lambda: NarrowTagger(1, 2),
        "regression": lambda: nn.Sequential(nn.Linear(6, 2), nn.Tanh(), nn.Linear(2, 1)),
    }
    return make(base, seed, parts=changed(base, model=models[base]))


def few(base: str, count: int) -> Data:
    """The base's data with only so many training examples."""
    found = PARTS[base].data()
    return replace(found, x=found.x[:count], y=found.y[:count])


WIDE = {
    "digits": lambda: nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
    "shapes": lambda: nn.Sequential(nn.Flatten(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 5)),
}


@case("A21", "wide model, few examples", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = changed(
        base,
        data=lambda: few(base, 80),
        model=WIDE[base],
        optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=3e-3),
        batch_size=16,
    )
    return make(base, seed, replace(PARTS[base].spec, epochs=50), parts)


class Deep(nn.Module):
    """Four layers of 256 for tens of examples."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs if i == 0 else 256, 256) for i in range(4))
        self.output = nn.Linear(256, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for layer in self.layers:
            x = F.elu(layer(x))
        return self.output(x)


@case("A21", "four layers of 256, no decay", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    sizes = {"digits": (64, 10), "shapes": (256, 5)}
    parts = changed(
        base,
        data=lambda: few(base, 100),
        model=lambda: Deep(*sizes[base]),
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0),
        batch_size=20,
    )
    return make(base, seed, replace(PARTS[base].spec, epochs=60), parts)


@case("A18", "dropout of 0.9 between layers", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "sequence":
            return NarrowTagger(16, 32, 0.9)
        layers: list[nn.Module] = []
        for layer in PARTS[base].model():
            layers += [layer, nn.Dropout(p=0.9)] if isinstance(layer, nn.ReLU | nn.Tanh) else [layer]
        return nn.Sequential(*layers)

    return make(base, seed, parts=changed(base, model=model))


@case("A18", "functional dropout of inputs", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model(F.dropout(x, p=0.8, training=model.training))

    return make(base, seed, forward=forward)


class WordsLost(NarrowTagger):
    """A tagger that loses whole words, most of them."""

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids)
        words = words * F.dropout(torch.ones_like(words[..., :1]), p=0.8, training=self.training)
        hidden, _ = self.memory(words)
        return self.head(hidden).transpose(1, 2)


@case("A18", "whole words are dropped", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: WordsLost(16, 32)))
