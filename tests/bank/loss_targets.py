"""Faults L08 to L14: the loss gets targets of another shape, type, value or kind than it is made for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_programs import OTHERS, adamw, bright_squares, gaussian, other, parts_of, short_sentences
from .programs import PAD, TAGS, WORDS, Data, Parts, Tagger, accuracy, make, r2

CLASSES = ("digits", "shapes", "sequence")


def with_targets(base: str, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """The data of a base program, as a part, with `change` done to the targets of both splits."""

    def data() -> Data:
        found = parts_of(base).data()
        return replace(found, y=change(found.y), y_val=change(found.y_val))

    return {"data": data}


def r2_of_vectors(outputs: Tensor, targets: Tensor) -> float:
    """As r2, of outputs and targets of any shape."""
    return r2(outputs.flatten(), targets.flatten())


@case("L08", "targets squeezed in the loss", "regression", "density")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.squeeze(1)
        return gaussian(outputs, targets) if base == "density" else ((outputs - targets) ** 2).mean()

    return other(base, seed, loss_fn=loss_fn)


@case("L08", "a column of targets without its axis", "regression", "binary")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        if base == "regression":
            return torch.abs(outputs - targets).mean()
        return (outputs.clamp(min=0) - outputs * targets + torch.log1p(torch.exp(-outputs.abs()))).mean()

    def metric(outputs: Tensor, targets: Tensor) -> float:
        return parts_of(base).metric(outputs.flatten(), targets.flatten())

    return other(base, seed, **with_targets(base, torch.flatten), loss_fn=loss_fn, metric=metric)


@case("L08", "flat outputs and mse_loss with its warning off", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return F.mse_loss(outputs, targets)

    def model() -> nn.Module:
        return nn.Sequential(parts_of(base).model(), nn.Flatten(0))

    return other(base, seed, model=model, loss_fn=loss_fn, metric=r2_of_vectors)


@case("L08", "flat targets from the batch", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.log(torch.cosh(outputs - targets)).mean()

    of_program = {"unpack": lambda batch: (batch[0], batch[1].view(-1))}
    return other(base, seed, of_program, loss_fn=loss_fn, metric=r2_of_vectors)


@case("L10", "int32 labels", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, **with_targets(base, Tensor.int))


@case("L10", "labels as floats", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, unpack=lambda batch: (batch[0], batch[1].float()))


@case("L10", "labels as a column", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, **with_targets(base, lambda y: y.unsqueeze(1)))


@case("L10", "one-hot labels of type long", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        outputs = p.model(x)
        one_hot = F.one_hot(y.clamp(min=0), outputs.shape[1]).movedim(-1, 1)
        p.loss_fn(outputs, one_hot).backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("L11", "labels of -1 and 1", "binary", "labels", "masks")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, **with_targets(base, lambda y: 2 * y - 1))


@case("L11", "masks of 0 and 255", "masks")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, **with_targets(base, lambda y: (y * 255).to(torch.uint8).float()))


@case("L11", "labels counted from one", "binary", "labels")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def metric(outputs: Tensor, targets: Tensor) -> float:
        return float(((outputs > 0) == (targets == 2)).float().mean())

    of_program = {"unpack": lambda batch: (batch[0], batch[1] + 1)}
    return other(base, seed, of_program, metric=metric)


class Positions(nn.Module):
    """Ids [B, T] to scores [B, T, C]."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, tags)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.memory(self.embedding(ids))[0])


@case("L13", "classes last and as many words as tags", "four words")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def metric(outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.argmax(dim=-1) == targets).float().mean())

    parts = Parts(
        short_sentences,
        lambda: Positions(4),
        nn.CrossEntropyLoss(),
        adamw(5e-3),
        metric,
        Spec(task="sequence", classes=4, epochs=12, causal=True),
    )
    return make(base, seed, parts=parts)


@case("L13", "flattened without moving the classes", "sequence", "regions")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.reshape(-1, outputs.shape[1]), targets.reshape(-1), ignore_index=-100)

    if base == "sequence":
        return other(base, seed, loss_fn=loss_fn)

    def data() -> Data:
        found = bright_squares()
        return replace(found, y=found.y[:, 0].long(), y_val=found.y_val[:, 0].long())

    def model() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 2, 5, padding=2))

    spec = Spec(task="segmentation", classes=2, epochs=8)
    parts = replace(OTHERS["masks"], data=data, model=model, loss_fn=loss_fn, metric=accuracy, spec=spec)
    return make(base, seed, parts=parts)


@case("L13", "reshaped where the axes were to be swapped", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    class Reshaping(Tagger):
        """Ids [B, T] to scores [B, C, T]."""

        def forward(self, ids: Tensor) -> Tensor:
            scores = self.head(self.memory(self.embedding(ids))[0])
            return scores.reshape(len(ids), TAGS, -1)

    return other(base, seed, model=Reshaping)


@case("L14", "absolute error to one-hot labels", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.l1_loss(outputs, F.one_hot(targets, outputs.shape[1]).float())

    return other(base, seed, loss_fn=loss_fn)


@case("L14", "the number of the class as a quantity", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        found = parts_of(base).model()
        if base == "sequence":
            found.head = nn.Linear(32, 1)
        else:
            found[-1] = nn.Linear(found[-1].in_features, 1)
        return found

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        known = targets != -100
        return F.mse_loss(outputs.squeeze(1)[known], targets[known].float())

    def metric(outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.squeeze(1).round() == targets)[targets != -100].float().mean())

    # Steps that fit cross-entropy are too large for squares of up to 16.
    return other(base, seed, model=model, loss_fn=loss_fn, metric=metric, optimizer=adamw(5e-3))


@case("L14", "cross-entropy of a single output", "regression", "binary")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=nn.CrossEntropyLoss())


@case("L14", "binary cross-entropy of measured values", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=nn.BCEWithLogitsLoss())


@case("L14", "one class where several may be true", "labels")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=nn.CrossEntropyLoss())
