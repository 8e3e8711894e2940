"""Images of shapes, drawn from a seed: what makes an image difficult is known for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

CLASSES = ("none", "circle", "square", "triangle", "cross")
RARE = CLASSES.index("cross")
NUISANCES = ("blur", "rare", "ambiguous", "shortcut", "faint")
RATES = {"blur": 0.08, "rare": 0.04, "ambiguous": 0.06, "shortcut": 0.06, "faint": 0.06}
BACKGROUNDS = ("by_label", "random", "plain")
_DRAWS = 20  # uniform numbers for each example
_CHUNK = 512  # examples that are drawn at a time: memory stays small
_BLUR = 7  # exposures of a moving shape

Plane = Any  # float32 [N, H, W]


@dataclass(frozen=True)
class Shapes:
    """Images with the truth about each.

    Attributes:
        images: float32 [N, 1, H, W] from 0 to 1.
        labels: int64 [N], a position in `CLASSES`.
        clean_labels: what a careful annotator would write; it differs from labels for half of the ambiguous ones.
        flags: for each of `NUISANCES` whether an example has it, bool [N]; an example has at most one.
        patients: whose images they are, int64 [N]; None without.
        times: days since the first image, float64 [N], rising; None without.

    """

    images: Tensor
    labels: Tensor
    clean_labels: Tensor
    flags: dict[str, Tensor]
    patients: Tensor | None = None
    times: Tensor | None = None

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.labels)

    def take(self, rows: Tensor) -> Shapes:
        """The examples at these positions, int64 or bool [K]."""
        flags = {name: flag[rows] for name, flag in self.flags.items()}
        patients = None if self.patients is None else self.patients[rows]
        times = None if self.times is None else self.times[rows]
        return Shapes(self.images[rows], self.labels[rows], self.clean_labels[rows], flags, patients, times)


def shapes(
    n: int,
    *,
    seed: int,
    size: int = 28,
    rates: Mapping[str, float] | None = None,
    background: str = "by_label",
    empty: float = 0.24,
    patients: int | None = None,
    drift: float | None = None,
) -> Shapes:
    """Draw n images of circles, squares, triangles, crosses or of nothing, some of them difficult.

    blur: the shape moved during the exposure. rare: a cross, which hardly occurs. ambiguous: between circle and square,
    labelled at random as one of them. shortcut: stripes lie as they usually do behind another class, while they give
    the label away elsewhere. faint: hardly any contrast, so that it is a matter of the threshold whether it is there.
    Source: lecture part 5, error buckets.

    Args:
        n: images, 1 or more; the first of them are the same for every n.
        seed: the same seed gives the same images; the ambient random streams are neither read nor moved.
        size: height and width in pixels, 8 or more.
        rates: share of the images with each nuisance, for those that are not to have the usual one (see `RATES`); their
            sum is at most 1. A rate of 0 for "rare" leaves the class out.
        background: "by_label": stripes at an angle for each class where there is no nuisance, at that of another class
            where there is a shortcut, at any angle elsewhere; "random": at any angle; "plain": no stripes.
        empty: share of "none" among the images that have no nuisance.
        patients: how many there are: each has a brightness, a size, a shading, and classes of its own.
        drift: images have time stamps, a day apart, and grow brighter by this much in 1,000 days; 0: only time stamps.

    Raises:
        TypeError, ValueError: arguments of other types or out of range.

    """
    rates = _checked(n, size, rates, background, empty, patients, drift)
    draws = np.random.default_rng([seed, 0]).random((n, _DRAWS), dtype=np.float64)
    who = None if patients is None else (draws[:, 0] * patients).astype(np.int64)
    nuisance = _nuisances(draws[:, 1], rates)
    styles = None if patients is None else np.random.default_rng([seed, 1]).random((patients, 8))
    style = np.full((n, 8), 0.5) if styles is None or who is None else styles[who]
    labels, clean = _labels(draws, nuisance, empty, None if patients is None else style[:, 4:8])
    days = np.arange(n, dtype=np.float64)
    brighter = np.zeros(n) if drift is None else drift * days / 1000

    noise = np.random.default_rng([seed, 2])
    images = np.empty((n, 1, size, size), dtype=np.float32)
    for start in range(0, n, _CHUNK):
        rows = slice(start, start + _CHUNK)
        drawn = _draw(size, draws[rows], labels[rows], nuisance[rows], background, style[rows])
        drawn += brighter[rows, None, None].astype(np.float32)
        drawn += 0.04 * noise.standard_normal(drawn.shape, dtype=np.float32)
        np.clip(drawn, 0, 1, out=images[rows, 0])
    return Shapes(
        torch.from_numpy(images),
        torch.from_numpy(labels),
        torch.from_numpy(clean),
        {name: torch.from_numpy(nuisance == number) for number, name in enumerate(NUISANCES)},
        None if who is None else torch.from_numpy(who),
        None if drift is None else torch.from_numpy(days),
    )


def _checked(
    n: int,
    size: int,
    rates: Mapping[str, float] | None,
    background: str,
    empty: float,
    patients: int | None,
    drift: float | None,
) -> dict[str, float]:
    """The rate of each nuisance."""
    for name, value, least in (("n", n, 1), ("size", size, 8), ("patients", 1 if patients is None else patients, 1)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}; pass a whole number, {least} or more.")
        if value < least:
            raise ValueError(f"{name} is {value}; pass a whole number, {least} or more.")
    unknown = sorted(set(rates or {}) - set(NUISANCES))
    if unknown:
        raise ValueError(f"rates has {', '.join(unknown)}; the nuisances are {', '.join(NUISANCES)}.")
    found = {**RATES, **(rates or {})}
    if background != "by_label" and "shortcut" not in (rates or {}):
        found["shortcut"] = 0.0  # without a rule there is no exception
    for name, share in [*found.items(), ("empty", empty), ("the sum of the rates", sum(found.values()))]:
        if not 0 <= share <= 1 + 1e-9:
            raise ValueError(f"{name} is {share}; pass a share from 0 to 1.")
    if background not in BACKGROUNDS:
        raise ValueError(f"background is {background!r}; pass one of {', '.join(BACKGROUNDS)}.")
    if background != "by_label" and found["shortcut"] > 0:
        raise ValueError(f"background {background!r} gives nothing away, so there are no shortcuts. Pass 'by_label'.")
    if drift is not None and not math.isfinite(drift):
        raise ValueError(f"drift is {drift}; pass a finite change of brightness in 1,000 days, such as 0.1.")
    return found


def _nuisances(uniform: np.ndarray, rates: Mapping[str, float]) -> np.ndarray:
    """The position of each example's nuisance, or their number for none."""
    ends = np.cumsum([rates[name] for name in NUISANCES])
    return np.searchsorted(ends, uniform, side="right")


def _labels(
    draws: np.ndarray, nuisance: np.ndarray, empty: float, taste: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Labels as written, and as they should be."""
    shares = np.tile([empty, *[(1 - empty) / 3] * 3], (len(draws), 1))
    if taste is not None:  # some classes are more usual with one patient than with another
        shares = shares * np.exp(2 * (taste - 0.5))
    shares /= shares.sum(axis=1, keepdims=True)
    labels = (draws[:, 2, None] > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
    shown = 1 + (3 * draws[:, 3]).astype(np.int64)  # of what is there
    is_a = {name: nuisance == number for number, name in enumerate(NUISANCES)}
    labels = np.where(is_a["blur"] | is_a["faint"], shown, labels)
    labels = np.where(is_a["rare"], RARE, labels)
    clean = np.where(is_a["ambiguous"], 1 + (draws[:, 4] < 0.5), labels)
    return np.where(is_a["ambiguous"], 1 + (draws[:, 5] < 0.5), labels).astype(np.int64), clean.astype(np.int64)


def _draw(
    size: int, draws: np.ndarray, labels: np.ndarray, nuisance: np.ndarray, background: str, style: np.ndarray
) -> Plane:
    """The images without noise."""
    is_a = {name: nuisance == number for number, name in enumerate(NUISANCES)}
    u = draws.astype(np.float32)
    across = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = np.broadcast_to(across, (1, size, size)), np.broadcast_to(across[:, None], (1, size, size))

    angle = math.pi * labels / len(CLASSES)
    other = (labels + 1 + (u[:, 6] * (len(CLASSES) - 1)).astype(np.int64)) % len(CLASSES)
    angle = np.where(is_a["shortcut"], math.pi * other / len(CLASSES), angle)
    lawful = background == "by_label" and (nuisance == len(NUISANCES)) | is_a["shortcut"]
    angle = np.where(lawful, angle, math.pi * u[:, 7])
    along = _column(np.cos(angle)) * x + _column(np.sin(angle)) * y
    image = 0.12 + 0.3 * _column(style[:, 0] - 0.5) + _column(style[:, 2] - 0.5) * x + _column(style[:, 3] - 0.5) * y
    if background != "plain":
        image = image + 0.06 * np.sin(2 * math.pi * (6 * along + _column(u[:, 8])))
    image = np.broadcast_to(image, (len(u), size, size)).astype(np.float32)

    pose = np.stack(
        [
            0.2 + 0.1 * u[:, 9] + 0.12 * (style[:, 1] - 0.5),  # radius
            2 * math.pi * u[:, 10],  # turned by
            0.3 * (u[:, 11] - 0.5),  # right of the centre
            0.3 * (u[:, 12] - 0.5),  # below it
            2 * math.pi * u[:, 13],  # moves towards
            np.where(is_a["blur"], 0.45 + 0.15 * u[:, 14], 0.0),  # by so much
        ]
    )
    ink = np.zeros_like(image)
    for kind, name in enumerate(CLASSES[1:], 1):
        rows = np.flatnonzero((labels == kind) & ~is_a["ambiguous"])
        ink[rows] = _exposed(_DISTANCES[name], x, y, pose[:, rows])
    rows = np.flatnonzero(is_a["ambiguous"])
    ink[rows] = _exposed(_rounded, x, y, pose[:, rows])
    contrast = np.where(is_a["faint"], 0.07 + 0.07 * u[:, 15], 0.45 + 0.3 * u[:, 15])
    return image + _column(contrast) * ink


def _exposed(shape: Callable[[Plane, Plane, Plane], Plane], x: Plane, y: Plane, pose: np.ndarray) -> Plane:
    """How much of each pixel the shape covers, from 0 to 1, as the mean over its way."""
    radius, turn, left, top, direction, length = pose
    size = x.shape[-1]
    total = np.zeros((len(radius), size, size), dtype=np.float32)
    moments = np.linspace(-0.5, 0.5, _BLUR) if np.any(length) else np.zeros(1)
    for moment in moments:
        dx = x - _column(left + moment * length * np.cos(direction))
        dy = y - _column(top + moment * length * np.sin(direction))
        cos, sin = _column(np.cos(turn)), _column(np.sin(turn))
        distance = shape(cos * dx + sin * dy, cos * dy - sin * dx, _column(radius))
        total += np.clip(0.5 - distance * size, 0, 1)
    return total / len(moments)


def _column(values: np.ndarray) -> Plane:
    return values.astype(np.float32)[:, None, None]


def _square(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.maximum(np.abs(x), np.abs(y)) - 0.85 * r


def _circle(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.sqrt(x * x + y * y) - r


def _triangle(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.maximum(np.abs(x) * math.sqrt(0.75) + 0.5 * y, -y) - 0.6 * r


def _cross(x: Plane, y: Plane, r: Plane) -> Plane:
    x, y = np.abs(x), np.abs(y)
    return np.minimum(np.maximum(x - 0.35 * r, y - 1.1 * r), np.maximum(y - 0.35 * r, x - 1.1 * r))


def _rounded(x: Plane, y: Plane, r: Plane) -> Plane:
    """Half circle, half square."""
    return (_circle(x, y, r) + _square(x, y, r)) / 2


# Distance to the outline, below 0 inside, for a shape of radius r around the origin.
_DISTANCES = {"circle": _circle, "square": _square, "triangle": _triangle, "cross": _cross}
