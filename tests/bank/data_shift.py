"""Validation from elsewhere: other inputs, or other labels for the same inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import classifier, generator, program, with_data
from .programs import PAD, TAGS, WORDS, Data


@case("D25", "another camera", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def darker(data: Data) -> Data:
        noise = torch.randn(data.x_val.shape, generator=generator(1))
        return replace(data, x_val=0.5 * data.x_val + 0.8 + 0.4 * noise)

    return with_data(base, seed, darker)


@case("D25", "camera knocked against", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def moved(data: Data) -> Data:
        side = {"digits": 8, "shapes": 16}[base]
        images = data.x_val.view(-1, side, side)
        background = images.amin(dim=(1, 2), keepdim=True)
        left = torch.cat([images[:, :, side // 4 :], background.expand(-1, side, side // 4)], dim=2)
        return replace(data, x_val=left.reshape(data.x_val.shape))

    return with_data(base, seed, moved)


@case("D25", "thick strokes collected later", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def by_ink(data: Data) -> Data:
        x, y = torch.cat([data.x, data.x_val]), torch.cat([data.y, data.y_val])
        ink = x.flatten(1).mean(dim=1)
        thick = torch.zeros(len(x), dtype=torch.bool)
        for c in y.unique():  # a quarter of each class
            thick[y == c] = ink[y == c] > ink[y == c].quantile(0.75)
        return Data(x[~thick], y[~thick], x[thick], y[thick])

    return with_data(base, seed, by_ink)


@case("D25", "sensors have drifted", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    drift = torch.tensor([0.0, 0.9, 0.0, 1.2, 0.0, 0.0])
    return with_data(base, seed, lambda d: replace(d, x_val=d.x_val + drift))


@case("D25", "the other end of a column", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def by_column(data: Data) -> Data:
        x, y = torch.cat([data.x, data.x_val]), torch.cat([data.y, data.y_val])
        high = x[:, 0] > 0.7
        return Data(x[~high], y[~high], x[high], y[high])

    return with_data(base, seed, by_column)


def sentences(n: int, frequency: Tensor, seed: int, step: int = 2) -> tuple[Tensor, Tensor]:
    """Words of these frequencies, and their tags by the rule of `sequence_data`, or with another step."""
    order = generator(seed)
    words = 1 + torch.multinomial(frequency, n * 12, replacement=True, generator=order).view(n, 12)
    before = torch.cat([torch.zeros(n, 1, dtype=torch.long), words[:, :-1]], dim=1)
    tags = (words + step * (before % 2)) % TAGS
    padding = torch.arange(12) >= torch.randint(4, 13, (n, 1), generator=order)
    return words.masked_fill(padding, PAD), tags.masked_fill(padding, -100)


@case("D25", "sentences about something else", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    common = torch.cat([torch.ones(14), torch.full((WORDS - 15,), 0.004)])
    return with_data(base, seed, lambda _data: Data(*sentences(700, common, 3), *sentences(250, 1.004 - common, 4)))


PAIRS = ((3, 5), (8, 9), (1, 7), (0, 6), (2, 4))


@case("D27", "dark ones are called otherwise", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    pairs = PAIRS if base == "digits" else ((1, 2), (0, 3))

    def other_rules(data: Data) -> Data:
        ink = data.x_val.flatten(1).mean(dim=1)
        y = data.y_val.clone()
        for pair in pairs:
            for one, other in (pair, pair[::-1]):
                rows = data.y_val == one
                y[rows & (ink > ink[rows].median())] = other
        return replace(data, y_val=y)

    return with_data(base, seed, other_rules)


@case("D27", "grammar of another region", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    even = torch.ones(WORDS - 1)
    return with_data(base, seed, lambda _data: Data(*sentences(700, even, 3), *sentences(250, even, 4, step=3)))


@case("D27", "a price that falls where it rose", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def reversed_slope(data: Data) -> Data:
        slope = (data.x[:, 3:4] * data.y).mean()
        return replace(data, y_val=data.y_val - 2 * slope * data.x_val[:, 3:4])

    return with_data(base, seed, reversed_slope)


@case("D27", "effect of a treatment turned round", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def turned(data: Data) -> Data:
        interaction = data.x[:, 1:2] * data.x[:, 2:3]
        size = (interaction * data.y).mean()
        return replace(data, y_val=data.y_val - 2 * size * data.x_val[:, 1:2] * data.x_val[:, 2:3])

    return with_data(base, seed, turned)


@lru_cache
def sites() -> Data:
    """Referred or not: the first site goes by the first column, the second by another one."""
    x = torch.randn(1200, 5, generator=generator(23))
    first, second = (x[:, 0] + 0.3 * x[:, 2] > 0).long(), (x[:, 0] + 2 * x[:, 1] > 0).long()
    return Data(x[:900], first[:900], x[900:], second[900:])


@case("D27", "another policy at the second site", "sites")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(sites(), classes=2))
