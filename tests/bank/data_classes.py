"""Class numbers that mean something else, lie out of range, or are left out by the loss."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import generator, with_data
from .programs import PARTS, WORDS, Data, changed, make

NAMES = {
    "digits": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "shapes": ("none", "circle", "square", "triangle", "cross"),
    "sequence": ("noun", "verb", "adverb", "pronoun", "particle"),
}


def renumbered(y: Tensor, numbers: dict[int, int]) -> Tensor:
    """Labels after a change of numbers; -100 stays."""
    return y.clone().apply_(lambda label: numbers.get(label, label))


def fitted(base: str, y: Tensor) -> dict[str, int]:
    """Name -> number in the order in which the classes occur."""
    seen = dict.fromkeys(label for label in y.flatten().tolist() if label >= 0)
    return {NAMES[base][label]: number for number, label in enumerate(seen)}


def encoded(base: str, y: Tensor, numbers: dict[str, int]) -> Tensor:
    """Labels by these numbers."""
    return renumbered(y, {NAMES[base].index(name): number for name, number in numbers.items()})


@case("D11", "numbers in order of occurrence in each split", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    train, val = fitted(base, data.y), fitted(base, data.y_val)

    def encode(data: Data) -> Data:
        return replace(data, y=encoded(base, data.y, train), y_val=encoded(base, data.y_val, val))

    return with_data(base, seed, encode, spec=replace(PARTS[base].spec, train_classes=train, val_classes=val))


@case("D11", "numbers by frequency in each split", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def by_frequency(y: Tensor) -> Tensor:
        return renumbered(y, {c: rank for rank, c in enumerate(y[y >= 0].bincount().argsort(descending=True).tolist())})

    return with_data(base, seed, lambda d: replace(d, y=by_frequency(d.y), y_val=by_frequency(d.y_val)))


@case("D11", "a folder less in validation", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    names = [*NAMES[base][:1], *NAMES[base][2:]]  # nobody has put examples of the second class there

    def one_less(data: Data) -> Data:
        keep = data.y_val != 1 if data.y_val.dim() == 1 else torch.ones(len(data.y_val), dtype=torch.bool)
        y_val = data.y_val.masked_fill(data.y_val == 1, -100) if data.y_val.dim() == 2 else data.y_val
        numbers = {c: c - 1 for c in range(2, len(NAMES[base]))}
        return replace(data, x_val=data.x_val[keep], y_val=renumbered(y_val[keep], numbers))

    spec = replace(
        PARTS[base].spec,
        train_classes={name: number for number, name in enumerate(NAMES[base])},
        val_classes={name: number for number, name in enumerate(names)},
    )
    return with_data(base, seed, one_less, spec=spec)


@case("D12", "labels from one on", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def from_one(y: Tensor) -> Tensor:
        return torch.where(y == -100, y, y + 1)

    return with_data(base, seed, lambda d: replace(d, y=from_one(d.y), y_val=from_one(d.y_val)))


@case("D12", "as many outputs as the highest label", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    highest = int(PARTS[base].data().y.max())
    p, spec = make(base, seed)
    head = p.model.head if base == "sequence" else p.model[-1]
    smaller = nn.Linear(head.in_features, highest)
    if base == "sequence":
        p.model.head = smaller
    else:
        p.model[-1] = smaller
    p.optimizer = PARTS[base].optimizer(p.model)
    return p, spec


@case("D12", "minus one for unknown", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def unknown(data: Data) -> Data:
        y = data.y.clone()
        y[::40] = -1
        return replace(data, y=y)

    return with_data(base, seed, unknown)


@case("D13", "missing labels coded -100", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def joined(data: Data) -> Data:
        missing = torch.rand(data.y.shape, generator=generator(1)) < 0.45
        return replace(data, y=data.y.masked_fill(missing, -100))

    return with_data(base, seed, joined)


@case("D13", "hardly a label in small batches", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def first_batch_of_annotations(data: Data) -> Data:
        missing = torch.rand(data.y.shape, generator=generator(1)) < 0.85
        return replace(data, y=data.y.masked_fill(missing, -100))

    return with_data(base, seed, first_batch_of_annotations, {"batch_size": {"digits": 8, "shapes": 16}[base]})


@case("D13", "ignore_index of another program", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, loss_fn=nn.CrossEntropyLoss(ignore_index=0)))


@case("D13", "two classes coded 255", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def bytes_of(y: Tensor) -> Tensor:
        return torch.where(y >= 8, torch.tensor(255), y)  # the table that should bring them back was never applied

    loss_fn = nn.CrossEntropyLoss(ignore_index=255)
    return with_data(base, seed, lambda d: replace(d, y=bytes_of(d.y)), {"loss_fn": loss_fn, "metric": found_share})


def found_share(outputs: Tensor, targets: Tensor) -> float:
    """Accuracy."""
    return float((outputs.argmax(dim=1) == targets).float().mean())


@case("D13", "padding has the number of a tag", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def pad(data: Data) -> Data:
        return replace(data, y=data.y.clamp(min=0), y_val=data.y_val.clamp(min=0))

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, ignore_index=0)

    spec = replace(PARTS[base].spec, ignore_index=0)
    return with_data(base, seed, pad, {"loss_fn": loss_fn}, spec=spec)


@case("D13", "words that the dictionary lacks", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def looked_up(data: Data) -> Data:
        y = data.y.masked_fill(data.x > WORDS // 2, -100)
        return replace(data, y=y)

    return with_data(base, seed, looked_up)
