"""Scores that are high for nothing, and confidence that means nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_labels import segmentation
from .data_sources import classifier, generator, program, with_data
from .programs import PARTS, Data, Parts, Tagger, changed, make


@lru_cache
def alarms() -> Data:
    """1,500 and 600 readings of ten columns; three in a hundred come before a breakdown, and most of these show it."""
    order = generator(41)
    y = (torch.rand(2100, generator=order) < 0.03).long()
    x = torch.randn(2100, 10, generator=order) + 1.0 * y[:, None]
    return Data(x[:1500], y[:1500], x[1500:], y[1500:])


@case("E03", "accuracy for three in a hundred", "alarms")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(alarms(), classes=2, epochs=8))


@case("E03", "within two deviations", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def within(outputs: Tensor, targets: Tensor) -> float:
        return float(((outputs - targets).abs() < 2 * targets.std()).float().mean())

    return make(base, seed, parts=changed(base, metric=within))


@case("E03", "four guesses for five classes", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def among_four(outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.topk(4, dim=1).indices == targets[:, None]).any(dim=1).float().mean())

    return make(base, seed, parts=changed(base, metric=among_four))


@case("E03", "tags that are hardly ever another", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def names_only(data: Data) -> Data:
        def is_name(ids: Tensor, y: Tensor) -> Tensor:
            return torch.where(y == -100, y, (ids == 7).long())

        return replace(data, y=is_name(data.x, data.y), y_val=is_name(data.x_val, data.y_val))

    def model() -> nn.Module:
        tagger = Tagger()
        tagger.head = nn.Linear(32, 2)
        return tagger

    return with_data(base, seed, names_only, {"model": model}, spec=replace(PARTS[base].spec, classes=2))


@lru_cache
def topics() -> Data:
    """900 and 300 texts by 20 columns, with twelve topics each of which one text in 25 has."""
    order = generator(43)
    x = torch.randn(1200, 20, generator=order)
    scores = x @ torch.randn(20, 12, generator=order) / 20**0.5 + 0.3 * torch.randn(1200, 12, generator=order)
    y = (scores > scores.quantile(0.96, dim=0)).float()
    return Data(x[:900], y[:900], x[900:], y[900:])


@case("E03", "share of right entries for rare topics", "topics")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def right_entries(outputs: Tensor, targets: Tensor) -> float:
        return float(((outputs > 0) == (targets > 0.5)).float().mean())

    parts = Parts(
        topics,
        lambda: nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 12)),
        F.binary_cross_entropy_with_logits,
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2),
        right_entries,
        Spec(task="multi-label", classes=12, epochs=20),
    )
    return program(seed, parts)


@case("E03", "right pixels where nearly all are dark", "segmentation")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def right_pixels(outputs: Tensor, targets: Tensor) -> float:
        return float((outputs.argmax(dim=1) == targets).float().mean())

    parts = segmentation()
    data = parts.data()
    brightest, brightest_val = (
        (x[:, 0] > x[:, 0].flatten(1).quantile(0.97, dim=1)[:, None, None]).long() for x in (data.x, data.x_val)
    )
    few = replace(data, y=brightest, y_val=brightest_val)
    return program(seed, replace(parts, data=lambda: few, metric=right_pixels))


def sharpened(factor: float) -> Callable[[nn.Module, Tensor], Tensor]:
    """A forward whose scores are larger in evaluation."""

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        scores = model(x)
        return scores if model.training else scores * factor

    return forward


def in_noise(base: str) -> Callable[[Data], Data]:
    """Data that leave some doubt."""

    def change(data: Data) -> Data:
        order, size = generator(2), {"digits": 1.2, "shapes": 0.6}[base]
        x, x_val = (part + size * torch.randn(part.shape, generator=order) for part in (data.x, data.x_val))
        return replace(data, x=x, x_val=x_val)

    return change


@case("E07", "temperature of a tenth in evaluation", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return with_data(base, seed, in_noise(base), forward=sharpened(10))


@case("E07", "scores of sixteen looks added up", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        if model.training:
            return model(x)
        looks = [x * (1 + 0.02 * look) for look in range(-8, 8)]
        return sum(model(look) for look in looks)

    return with_data(base, seed, in_noise(base), forward=forward)


@case("E07", "margins read as probabilities", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    loss_fn = nn.MultiMarginLoss(margin=12.0)
    return with_data(base, seed, in_noise(base), {"loss_fn": loss_fn})


@case("E07", "few examples seen a hundred times", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def few(data: Data) -> Data:
        found = in_noise(base)(data)
        return replace(found, x=found.x[:200], y=found.y[:200])

    spec = replace(PARTS[base].spec, epochs=100)
    return with_data(base, seed, few, {"batch_size": 16}, spec=spec)
