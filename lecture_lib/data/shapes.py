"""Images of shapes, drawn from a seed: what makes an image difficult is known for each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ._shape_drawing import BACKGROUNDS, CLASSES, NUISANCES, draw

RARE = CLASSES.index("cross")
RATES = {"blur": 0.08, "rare class": 0.04, "ambiguous label": 0.06, "background shortcut": 0.06, "threshold": 0.06}
_DRAWS = 20  # uniform numbers for each example
_CHUNK = 512  # examples that are drawn at a time: memory stays small


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
    without: str | None = None,
) -> Shapes:
    """Draw n images of circles, squares, triangles, crosses or of nothing, some of them difficult.

    blur: the shape moved during the exposure. rare class: a cross, which hardly occurs. ambiguous label: between circle
    and square, labelled at random as one of them. background shortcut: stripes lie as they usually do behind another
    class, while they give the label away elsewhere. threshold: a circle so faint, on stripes as behind nothing, that it
    is a matter of the threshold between the two. Source: lecture part 5, error buckets.

    Args:
        n: images, 1 or more; the first of them are the same for every n.
        seed: the same seed gives the same images; the ambient random streams are neither read nor moved.
        size: height and width in pixels, 8 or more.
        rates: share of the images with each nuisance, for those that are not to have the usual one (see `RATES`); their
            sum is at most 1. A rate of 0 for "rare class" leaves the class out.
        background: "by_label": stripes at an angle for each class where there is no nuisance, at that of another class
            where there is a shortcut, at any angle elsewhere; "random": at any angle; "plain": no stripes.
        empty: share of "none" among the images that have no nuisance.
        patients: how many there are: each has a brightness, a size, a shading, and classes of its own.
        drift: images have time stamps, a day apart, and grow brighter by this much in 1,000 days; 0: only time stamps.
        without: a nuisance: the same images but for those that have it, which are drawn as if they had none (of a rare
            class: as one of the others; of an ambiguous label: as the clean one). It shows what the nuisance costs.

    Raises:
        TypeError, ValueError: arguments of other types or out of range.

    """
    rates = _checked(n, size, rates, background, empty, patients, drift)
    if without not in (None, *NUISANCES):
        raise ValueError(f"without is {without!r}; the nuisances are {', '.join(NUISANCES)}.")
    # Images, patients and noise have streams of their own: an option changes nothing beside what it is about.
    draws = np.random.default_rng([seed, 0]).random((n, _DRAWS), dtype=np.float64)
    owners = None if patients is None else (draws[:, 0] * patients).astype(np.int64)
    nuisance = _nuisances(draws[:, 1], rates)
    styles = None if patients is None else np.random.default_rng([seed, 1]).random((patients, 8))
    style = np.full((n, 8), 0.5) if styles is None or owners is None else styles[owners]
    cleared = nuisance == NUISANCES.index(without) if without else np.zeros(n, dtype=bool)
    # Before labels are drawn, so that the example gets one of the common classes.
    if without == "rare class":
        nuisance = np.where(cleared, len(NUISANCES), nuisance)
    labels, clean = _labels(draws, nuisance, empty, None if patients is None else style[:, 4:8])
    labels, nuisance = np.where(cleared, clean, labels), np.where(cleared, len(NUISANCES), nuisance)
    days = np.arange(n, dtype=np.float64)
    brighter = np.zeros(n) if drift is None else drift * days / 1000

    noise = np.random.default_rng([seed, 2])
    images = np.empty((n, 1, size, size), dtype=np.float32)
    for start in range(0, n, _CHUNK):
        rows = slice(start, start + _CHUNK)
        chunk = draw(size, draws[rows], labels[rows], nuisance[rows], background, style[rows])
        chunk += brighter[rows, None, None].astype(np.float32)
        chunk += 0.04 * noise.standard_normal(chunk.shape, dtype=np.float32)
        np.clip(chunk, 0, 1, out=images[rows, 0])
    return Shapes(
        torch.from_numpy(images),
        torch.from_numpy(labels),
        torch.from_numpy(clean),
        {name: torch.from_numpy(nuisance == number) for number, name in enumerate(NUISANCES)},
        None if owners is None else torch.from_numpy(owners),
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
    all_rates = {**RATES, **(rates or {})}
    if background != "by_label" and "background shortcut" not in (rates or {}):
        all_rates["background shortcut"] = 0.0  # without a rule there is no exception
    for name, share in [*all_rates.items(), ("empty", empty), ("the sum of the rates", sum(all_rates.values()))]:
        if not 0 <= share <= 1 + 1e-9:
            raise ValueError(f"{name} is {share}; pass a share from 0 to 1.")
    if background not in BACKGROUNDS:
        raise ValueError(f"background is {background!r}; pass one of {', '.join(BACKGROUNDS)}.")
    if background != "by_label" and all_rates["background shortcut"] > 0:
        raise ValueError(f"background {background!r} gives nothing away, so there are no shortcuts. Pass 'by_label'.")
    if drift is not None and not math.isfinite(drift):
        raise ValueError(f"drift is {drift}; pass a finite change of brightness in 1,000 days, such as 0.1.")
    return all_rates


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
    visible = 1 + (3 * draws[:, 3]).astype(np.int64)  # of what is there
    is_a = {name: nuisance == number for number, name in enumerate(NUISANCES)}
    labels = np.where(is_a["blur"], visible, labels)
    labels = np.where(is_a["threshold"], CLASSES.index("circle"), labels)
    labels = np.where(is_a["rare class"], RARE, labels)
    clean = np.where(is_a["ambiguous label"], 1 + (draws[:, 4] < 0.5), labels)
    return np.where(is_a["ambiguous label"], 1 + (draws[:, 5] < 0.5), labels).astype(np.int64), clean.astype(np.int64)
