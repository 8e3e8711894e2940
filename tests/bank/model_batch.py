"""Samples of a batch that get into each other, or a batch of one that falls apart."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import own
from .programs import PAD, PARTS, TAGS, WORDS, Data, changed, make, r2


class Rows(nn.Module):
    """Rows of an image as steps [rows, B, columns] of a memory."""

    def __init__(self, side: int, classes: int) -> None:
        super().__init__()
        self.side = side
        self.memory = nn.GRU(side, 32)
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.reshape(self.side, len(x), self.side)
        _, last = self.memory(steps)
        return self.head(last[0])


@case("A11", "reshape where a transpose was meant", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    side, classes = (8, 10) if base == "digits" else (16, 5)
    return make(base, seed, parts=changed(base, model=lambda: Rows(side, classes)))


class TurnedAttention(nn.Module):
    """A tagger whose attention to earlier words gets [T, B, features] and takes the batch for the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.positions = nn.Parameter(0.1 * torch.randn(12, 16))
        self.project = nn.Linear(16, 48)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, TAGS))

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids) + self.positions[: ids.shape[1]]
        query, key, value = self.project(words).transpose(0, 1).chunk(3, dim=2)
        before = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(0, 1)
        return self.head(torch.cat([words, before], dim=2)).transpose(1, 2)


@case("A11", "attention over the batch", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=TurnedAttention))


class TimeFirst(nn.Module):
    """The base's tagger without batch_first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("A11", "memory without batch_first", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=TimeFirst))


class Gated(nn.Module):
    """Hidden units with a gate whose softmax goes over the batch."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.hidden, self.gate = nn.Linear(inputs, 48), nn.Linear(inputs, 48)
        self.output = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        weights = F.softmax(self.gate(x), dim=0)
        return self.output(48 * weights * torch.tanh(self.hidden(x)))


SIZES = {"digits": (64, 10), "shapes": (256, 5), "regression": (6, 1)}


@case("A11", "softmax over the batch", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: Gated(*SIZES[base])))


class Standardised(nn.Module):
    """Hidden units standardised with the batch's own mean and deviation."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, 48)
        self.output = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x.flatten(1))
        hidden = (hidden - hidden.mean(dim=0)) / (hidden.std(dim=0) + 1e-5)
        return self.output(torch.tanh(hidden))


@case("A11", "standardised within the batch", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: Standardised(*SIZES[base])))


@case("A13", "squeeze of the outputs", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).squeeze()

    return make(base, seed, forward=forward)


class Flat(nn.Module):
    """A regressor that gives [B] for targets [B]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = PARTS["regression"].model()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).squeeze()


def flat_targets() -> Data:
    """The regression data with targets [N]."""
    found = PARTS["regression"].data()
    return replace(found, y=found.y[:, 0], y_val=found.y_val[:, 0])


@case("A13", "squeeze of the only column", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, data=flat_targets, model=Flat))


def squeezed_r2(outputs: Tensor, targets: Tensor) -> float:
    """As r2, for targets [N, 1]."""
    return r2(outputs, targets[:, 0])


@case("A13", "squeeze in the loss function", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return torch.squeeze(model(x))

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets.squeeze())

    return make(base, seed, parts=changed(base, loss_fn=loss_fn), forward=forward, metric=squeezed_r2)


class AveragedImage(nn.Module):
    """Means over the image, without its two sides of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        )
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_max_pool2d(self.features(x), 1).squeeze())


class OneChannel(nn.Module):
    """Rows of an image [B, 1, rows, columns] or [B, rows * columns] to a memory's steps, without the channel."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(8, 48, batch_first=True)
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.view(-1, 1, 8, 8).squeeze()
        hidden, _ = self.memory(steps)
        return self.head(hidden[..., -1, :])


class LastWord(nn.Module):
    """The class of a sentence from a memory's last state [1, B, H]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids: Tensor) -> Tensor:
        lengths = (ids != PAD).sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, True, enforce_sorted=False)
        _, last = self.memory(packed)
        return self.head(last.squeeze())


@case("A13", "squeeze inside the model", "digits", "shapes", "sentences")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {"digits": OneChannel, "shapes": AveragedImage, "sentences": LastWord}

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=4e-3)

    return make(base, seed, parts=own(base, model=models[base], optimizer=adam))
