"""What stops training at once: sizes and kinds of numbers that do not fit."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PAD, PARTS, TAGS, WORDS, changed, make


@case("P14", "inputs stay float64", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    found = PARTS[base].data()
    train = TensorDataset(torch.from_numpy(found.x.numpy().astype("float64")), found.y)
    return make(base, seed, train_loader=DataLoader(train, 64, shuffle=True))


@case("P14", "the model is made double", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: PARTS[base].model().double()))


@case("P14", "ids are floats", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    found = PARTS[base].data()
    data = replace(found, x=torch.tensor(found.x.tolist(), dtype=torch.float32), x_val=found.x_val.float())
    return make(base, seed, parts=changed(base, data=lambda: data))


class HalfMemory(nn.Module):
    """A tagger whose memory alone computes in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True).bfloat16()
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("P14", "one layer in half precision", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=HalfMemory))


@case("P14", "a scale on another device", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        scale = torch.ones(x.shape[-1], device="meta")
        return model(x * scale)

    return make(base, seed, forward=forward)


class Shortened(nn.Module):
    """A tagger whose head takes the embedding's width, not the memory's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(self.embedding.embedding_dim, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("A14", "wrong in_features", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {
        "digits": lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(32, 10)),
        "shapes": lambda: nn.Sequential(
            *(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(12 * 8 * 8, 5)),
        ),
        "sequence": Shortened,
        "regression": lambda: nn.Sequential(nn.Linear(7, 48), nn.Tanh(), nn.Linear(48, 1)),
    }
    return make(base, seed, parts=changed(base, model=models[base]))


class TwoDirections(nn.Module):
    """A memory in both directions with a head for one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


class Joined(nn.Module):
    """Columns and their squares, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(6, 48)
        self.output = nn.Linear(48, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(torch.tanh(self.hidden(torch.cat([x, x**2], dim=1))))


@case("A14", "joined, two-sided or not flattened", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {
        "digits": lambda: nn.Sequential(nn.Unflatten(1, (8, 8)), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        "shapes": lambda: nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 5)),
        "sequence": TwoDirections,
        "regression": Joined,
    }
    spec = replace(PARTS[base].spec, causal=False)
    return make(base, seed, spec, changed(base, model=models[base]))


@case("A14", "channels of colour images", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(192, 5))

    return make(base, seed, parts=changed(base, model=model))
