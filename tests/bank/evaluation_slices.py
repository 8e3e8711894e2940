"""Good means that hide a part that fails, and cues that will not be there tomorrow."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from lecture_lib.data import shapes
from lecture_lib.debugging import Program, Spec

from .case import case
from .data_shift import sentences
from .data_sources import classifier, generator, program, with_data
from .programs import PARTS, WORDS, Data, shapes_data


def member(n: int, share: float, seed: int) -> Tensor:
    """Which examples are of the small part."""
    return torch.rand(n, generator=generator(seed)) < share


def sliced(base: str, rows: Tensor, one: str, other: str) -> Spec:
    """The base's spec with a site or device of each validation example."""
    return replace(PARTS[base].spec, slices={one: (~rows).tolist(), other: rows.tolist()})


@case("E04", "a scanner that inverts", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    share = {"digits": 0.06, "shapes": 0.1}[base]
    data = PARTS[base].data()
    rows, rows_val = member(len(data.x), share, 1), member(len(data.x_val), share, 2)

    def inverted(data: Data) -> Data:
        x, x_val = data.x.clone(), data.x_val.clone()
        x[rows], x_val[rows_val] = data.x.max() + data.x.min() - x[rows], data.x.max() + data.x.min() - x_val[rows_val]
        return replace(data, x=x, x_val=x_val)

    return with_data(base, seed, inverted, spec=sliced(base, rows_val, "scanner A", "scanner B"))


@case("E04", "a site that measures otherwise", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    rows, rows_val = member(len(data.x), 0.1, 1), member(len(data.x_val), 0.1, 2)

    def turned(data: Data) -> Data:
        x, x_val = data.x.clone(), data.x_val.clone()
        x[rows] = x[rows].flip(1)
        x_val[rows_val] = x_val[rows_val].flip(1)
        return replace(data, x=x, x_val=x_val)

    return with_data(base, seed, turned, spec=sliced(base, rows_val, "Bonn", "Trier"))


@case("E04", "a dialect", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    even = torch.ones(WORDS - 1)
    rows, rows_val = member(700, 0.1, 1), member(250, 0.12, 2)

    def spoken(_data: Data) -> Data:
        parts = []
        for n, at, number in ((700, rows, 3), (250, rows_val, 4)):
            x, y = sentences(n, even, number)
            _, y_dialect = sentences(n, even, number, step=4)
            parts += [x, torch.where(at[:, None], y_dialect, y)]
        return Data(*parts)

    return with_data(base, seed, spoken, spec=sliced(base, rows_val, "standard", "dialect"))


@case("E04", "images taken at night", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    rows, rows_val = member(len(data.x), 0.12, 3), member(len(data.x_val), 0.12, 4)
    noise = generator(5)

    def dark(x: Tensor, at: Tensor) -> Tensor:
        x = x.clone()
        x[at] = 0.4 * x[at] + 1.0 * torch.randn(x[at].shape, generator=noise)
        return x

    return with_data(
        base,
        seed,
        lambda d: replace(d, x=dark(d.x, rows), x_val=dark(d.x_val, rows_val)),
        spec=sliced(base, rows_val, "day", "night"),
    )


@lru_cache
def striped() -> Data:
    """The shapes on stripes that always give the class away."""
    drawn = shapes(1100, seed=5, size=16, rates={"background shortcut": 0.0, "blur": 0.02, "threshold": 0.0})
    x = (drawn.images - drawn.images[:800].mean()) / drawn.images[:800].std()
    return Data(x[:800], drawn.labels[:800], x[800:], drawn.labels[800:])


@case("E05", "background of each class", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return with_data(base, seed, lambda _data: striped())


def usually(y: Tensor, classes: int, share: float, seed: int) -> Tensor:
    """The label, but for some examples another one."""
    order = generator(seed)
    other = (y + torch.randint(1, classes, y.shape, generator=order)) % classes
    return torch.where(torch.rand(y.shape, generator=order) < share, y, other)


@case("E05", "mark of the clinic in the corner", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = shapes_data()

    def marked(x: Tensor, y: Tensor, seed: int) -> Tensor:
        x, clinic = x.clone(), usually(y, 5, 0.96, seed)
        for i, number in enumerate(clinic.tolist()):
            x[i, 0, 13:, 3 * number : 3 * number + 3] = 4.0
        return x

    return with_data(
        base, seed, lambda _data: replace(data, x=marked(data.x, data.y, 1), x_val=marked(data.x_val, data.y_val, 2))
    )


@case("E05", "form with a box for each digit", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def on_forms(x: Tensor, y: Tensor, seed: int) -> Tensor:
        x = x.clone()
        x[torch.arange(len(x)), 6 * usually(y, 10, 0.96, seed)] = 3.5
        return x

    return with_data(base, seed, lambda d: replace(d, x=on_forms(d.x, d.y, 1), x_val=on_forms(d.x_val, d.y_val, 2)))


@lru_cache
def x_rays(cue: float = 0.95) -> Data:
    """800 and 300 findings of which the portable machine, used for those who are ill, tells more than the values."""
    order = generator(47)
    y = torch.randint(2, (1100,), generator=order)
    values = torch.randn(1100, 6, generator=order) + 0.25 * (2 * y[:, None] - 1)
    portable = torch.where(torch.rand(1100, generator=order) < cue, y, 1 - y).float()
    x = torch.cat([values, 2 * portable[:, None] - 1], dim=1)
    return Data(x[:800], y[:800], x[800:], y[800:])


@case("E05", "the machine tells who is ill", "x-rays")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(x_rays(), classes=2))
