"""Classes of unequal size: hidden by accuracy, weighted wrongly, or of other sizes in validation."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import classifier, generator, program, with_data
from .programs import PARTS, Data, changed, digits_data, make, shapes_data


@lru_cache
def claims(columns: int = 8) -> Data:
    """1,200 and 600 insurance claims of which one in twenty is a fraud, somewhat larger in every column."""
    order = generator(5)
    y = (torch.rand(1800, generator=order) < 0.05).long()
    x = torch.randn(1800, columns, generator=order) + 0.45 * y[:, None]
    return Data(x[:1200], y[:1200], x[1200:], y[1200:])


@case("D16", "one claim in twenty", "claims")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(claims(), classes=2, epochs=8))


@case("D16", "an eight or not", "rare digit")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = digits_data()

    def one_class(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        noise = 1.2 * torch.randn(x.shape, generator=generator(3))
        return x + noise, (y == 8).long()

    x, y = one_class(data.x, data.y)
    x_val, y_val = one_class(data.x_val, data.y_val)
    keep, keep_val = ((y == 0) | (torch.arange(len(y)) % 2 == 0) for y in (y, y_val))
    return program(seed, classifier(Data(x[keep], y[keep], x_val[keep_val], y_val[keep_val]), classes=2, epochs=5))


@lru_cache
def thinned(base: str) -> Data:
    """Digits or shapes whose first classes are rare in training and validation."""
    data = {"digits": digits_data, "shapes": shapes_data}[base]()
    few = {"digits": 5, "shapes": 2}[base]

    def thin(x: Tensor, y: Tensor, one_in: int) -> tuple[Tensor, Tensor]:
        keep = (y >= few) | (torch.arange(len(y)) % one_in == 0)
        return x[keep], y[keep]

    return Data(*thin(data.x, data.y, 12), *thin(data.x_val, data.y_val, 2))


def inverse(counts: Tensor) -> Tensor:
    """Weights that make up for the counts, 1 on average."""
    return len(counts) * (1 / counts) / (1 / counts).sum()


def weighted(base: str, seed: int, weight: Tensor, **of_program: object) -> tuple[Program, Spec]:
    """The program with rare classes, with this weight in the loss and the usual one in the author's mind."""
    meant = inverse(thinned(base).y.bincount().float())
    parts = changed(base, data=lambda: thinned(base), loss_fn=nn.CrossEntropyLoss(weight=weight), metric=balanced)
    return make(base, seed, replace(PARTS[base].spec, class_weights=meant.tolist()), parts, **of_program)


def balanced(outputs: Tensor, targets: Tensor) -> float:
    """Mean recall of the classes."""
    predicted = outputs.argmax(dim=1)
    return float(torch.stack([(predicted[targets == c] == c).float().mean() for c in targets.unique()]).mean())


@case("D35", "weights grow with the counts", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    counts = thinned(base).y.bincount().float()
    return weighted(base, seed, len(counts) * counts / counts.sum())


@case("D35", "weights in order of frequency", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    most_common = thinned(base).y.bincount().float().sort(descending=True).values
    return weighted(base, seed, inverse(most_common))


@case("D35", "weights and a weighted sampler", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = thinned(base)
    weight = inverse(data.y.bincount().float())
    sampler = WeightedRandomSampler(weight[data.y], len(data.y), generator=generator(seed))
    loader = DataLoader(TensorDataset(data.x, data.y), 64, sampler=sampler)
    return weighted(base, seed, weight, train_loader=loader)


@case("D35", "weights in the loss and once more after it", "claims")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = claims()
    share = data.y.float().mean()
    weight = torch.stack([share, 1 - share])

    def loss_fn(outputs: Tensor, y: Tensor) -> Tensor:
        return (F.cross_entropy(outputs, y, weight, reduction="none") * weight[y]).mean()

    parts = classifier(data, classes=2, epochs=8, class_weights=weight.tolist())
    return program(seed, replace(parts, loss_fn=loss_fn))


@case("D26", "rare classes collected for validation", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def collected(data: Data) -> Data:
        first = data.y < data.y.max() / 2
        first_val = data.y_val < data.y_val.max() / 2
        keep = ~first | (torch.arange(len(data.y)) % 6 == 0)
        keep_val = first_val | (torch.arange(len(data.y_val)) % 6 == 0)
        return Data(data.x[keep], data.y[keep], data.x_val[keep_val], data.y_val[keep_val])

    return with_data(base, seed, collected)


@case("D26", "as many of each class in training only", "claims balanced")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = claims()
    frauds, others = (data.y == 1).nonzero().flatten(), (data.y == 0).nonzero().flatten()
    rows = torch.cat([frauds, others[: len(frauds)]])
    few = Data(data.x[rows], data.y[rows], data.x_val, data.y_val)
    return program(seed, classifier(few, classes=2, epochs=30))


@case("D26", "only expensive houses in validation", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def expensive(data: Data) -> Data:
        keep = data.y_val[:, 0] > 0.5
        return replace(data, x_val=data.x_val[keep], y_val=data.y_val[keep])

    return with_data(base, seed, expensive)
