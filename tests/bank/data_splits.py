"""Splits after which validation knows examples, patients or times of training."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset, random_split

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import classifier, generator, program, regressor, shuffled, with_data
from .programs import BASES, PARTS, Data, digits_data, make

SMALL = {"digits": 320, "shapes": 360, "sequence": 80, "regression": 260}


def pool(base: str) -> tuple[Tensor, Tensor]:
    """A small data set, which is remembered more than understood, before it is split."""
    data = PARTS[base].data()
    return data.x[: SMALL[base]], data.y[: SMALL[base]]


def split(x: Tensor, y: Tensor, order: Tensor | None = None) -> Data:
    """Three quarters and one quarter."""
    order = torch.arange(len(x)) if order is None else order
    train, val = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
    return Data(x[train], y[train], x[val], y[val])


@case("D17", "drawn with replacement", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    rows = torch.randint(len(x), (len(x),), generator=generator(1))
    return with_data(base, seed, lambda _data: split(x, y, rows), {"batch_size": 16})


@case("D17", "slices that overlap", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    end, start = int(0.8 * len(x)), int(0.6 * len(x))
    return with_data(base, seed, lambda _data: Data(x[:end], y[:end], x[start:], y[start:]), {"batch_size": 16})


@case("D17", "table read twice", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    everything = TensorDataset(torch.cat([x, x]), torch.cat([y, y]))
    train, val = random_split(everything, [0.75, 0.25], generator=generator(1))
    return make(base, seed, train_loader=shuffled(train, seed, 16), val_loader=DataLoader(val, 64))


def slightly_other(base: str, x: Tensor, seed: int) -> Tensor:
    """A copy by augmentation: noise, or the last word left out."""
    if base != "sequence":
        return x + 0.1 * torch.randn(x.shape, generator=generator(seed))
    last = (x != 0).sum(dim=1, keepdim=True) - 1
    return x.scatter(1, last, 0)


@case("D18", "augmented before the split", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    other = slightly_other(base, x, 4)
    y_other = y.masked_fill(other == 0, -100) if base == "sequence" else y
    x, y = torch.cat([x, other]), torch.cat([y, y_other])
    order = torch.randperm(len(x), generator=generator(1))
    return with_data(base, seed, lambda _data: split(x, y, order), {"batch_size": 16})


@case("D18", "validation saved in another format", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    some = torch.randperm(len(x), generator=generator(1))[: len(x) // 3]
    coarse = (x[some] * 12).round() / 12  # fewer grey levels, or fewer decimals
    return with_data(base, seed, lambda _data: Data(x, y, coarse, y[some]), {"batch_size": 16})


@case("D18", "frames of the same scene", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x, y = pool(base)
    film = torch.stack([x, torch.roll(x, 1, dims=3), torch.roll(x, 1, dims=2)], dim=1).flatten(0, 1)
    labels = y.repeat_interleave(3)
    order = torch.randperm(len(film), generator=generator(1))
    return with_data(base, seed, lambda _data: split(film, labels, order), {"batch_size": 16})


@lru_cache
def visits() -> tuple[Tensor, Tensor, Tensor]:
    """25 visits of each of 40 patients: ten values that are the patient's own, whether they are ill, and who it is."""
    order = generator(7)
    own = 1.5 * torch.randn(40, 10, generator=order)
    ill = torch.randint(2, (40,), generator=order)
    who = torch.arange(40).repeat_interleave(25)
    x = own[who] + 0.5 * torch.randn(1000, 10, generator=order) + 0.3 * ill[who, None]
    return x / x.std(), ill[who], who


@case("D19", "visits of a patient in both splits", "patients")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return of_patients(seed, torch.randperm(1000, generator=generator(1)))


def of_patients(seed: int, order: Tensor) -> tuple[Program, Spec]:
    """Ill or not, from the visits in this order; the first three quarters are for training."""
    x, y, who = visits()
    groups = {"train_groups": who[order[:750]].tolist(), "val_groups": who[order[750:]].tolist()}
    return program(seed, classifier(split(x, y, order), classes=2, epochs=10, **groups))


@lru_cache
def windows() -> tuple[Tensor, Tensor, Tensor]:
    """Spectra of overlapping windows of 30 recordings, the speaker's age, and which recording it is."""
    order = generator(9)
    voice = torch.randn(30, 1, 12, generator=order)
    frames = voice + 0.8 * torch.randn(30, 30, 12, generator=order)
    cut = frames.unfold(1, 6, 1).mean(dim=-1)
    age = torch.randn(30, 1, generator=order)
    which = torch.arange(30).repeat_interleave(cut.shape[1])
    return cut.flatten(0, 1), age[which], which


@case("D19", "windows of a recording in both splits", "recordings")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return of_recordings(seed, torch.randperm(750, generator=generator(1)))


def of_recordings(seed: int, order: Tensor) -> tuple[Program, Spec]:
    """The age, from the windows in this order."""
    x, y, which = windows()
    end = 3 * len(order) // 4
    groups = {"train_groups": which[order[:end]].tolist(), "val_groups": which[order[end:]].tolist()}
    parts = regressor(split(x, y, order), epochs=40, **groups)
    parts.batch_size = 16
    return program(seed, parts)


@lru_cache
def written() -> tuple[Tensor, Tensor, Tensor]:
    """Noisy digits by 30 writers, each with paper of their own, who wrote two digits each; and who it is."""
    order, data = generator(11), digits_data()
    wrote = torch.stack([torch.randperm(10, generator=order)[:2] for _ in range(30)])
    paper = 1.2 * torch.randn(30, 64, generator=order)
    who = torch.zeros_like(data.y)
    for i, label in enumerate(data.y.tolist()):
        writers = (wrote == label).any(dim=1).nonzero().flatten()
        who[i] = writers[int(torch.randint(len(writers), (), generator=order))] if len(writers) else label
    x = data.x + paper[who] + 0.8 * torch.randn(data.x.shape, generator=order)
    return x, data.y, who


@case("D19", "pages of a writer in both splits", "writers")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return of_writers(seed, torch.randperm(900, generator=generator(1)))


def of_writers(seed: int, order: Tensor) -> tuple[Program, Spec]:
    """Digits of pages in this order."""
    x, y, who = written()
    groups = {"train_groups": who[order[:675]].tolist(), "val_groups": who[order[675:]].tolist()}
    return program(seed, classifier(split(x, y, order), classes=10, epochs=12, **groups))
