"""Inputs that arrive on a wrong scale, with holes, or differently in validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import Transformed, digit_images, generator, shape_pixels, shuffled, with_data
from .programs import PARTS, Data, make

MEANS = torch.tensor([2500.0, 41.0, 0.02, 178.0, 120_000.0, 3.0])
DEVIATIONS = torch.tensor([800.0, 12.0, 0.004, 9.0, 45_000.0, 1.5])


def pixels(base: str, data: Data) -> Data:
    """The images as the file has them, 0 to 255."""
    if base == "digits":
        x, _ = digit_images()
        return replace(data, x=x[:900] * 255, x_val=x[900:1200] * 255)
    x, x_val = shape_pixels()
    return replace(data, x=x * 255, x_val=x_val * 255)


def units(data: Data) -> Data:
    """The columns in euros, years, shares, centimetres and so on."""
    return replace(data, x=data.x * DEVIATIONS + MEANS, x_val=data.x_val * DEVIATIONS + MEANS)


def fragile(base: str) -> dict[str, Any]:
    """Parts that train well on standardised inputs and need them: SGD, and images without BatchNorm."""
    models = {
        "digits": PARTS["digits"].model,
        "shapes": lambda: nn.Sequential(
            *(part for part in PARTS["shapes"].model() if not isinstance(part, nn.BatchNorm2d))
        ),
        "regression": PARTS["regression"].model,
    }
    return {
        "model": models[base],
        "optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
    }


@case("D01", "bytes as they are", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def as_bytes(data: Data) -> Data:
        found = pixels(base, data)
        return replace(found, x=found.x.to(torch.uint8), x_val=found.x_val.to(torch.uint8))

    return with_data(base, seed, as_bytes, fragile(base), forward=lambda model, x: model(x.float()))


@case("D01", "columns in their units", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return with_data(base, seed, units)


@case("D01", "mean subtracted but not divided", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def centred(data: Data) -> Data:
        found = units(data) if base == "regression" else pixels(base, data)
        mean = found.x.mean(dim=0)
        return replace(found, x=found.x - mean, x_val=found.x_val - mean)

    return with_data(base, seed, centred, fragile(base))


@case("D01", "result of standardising thrown away", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def standardised(data: Data) -> Data:
        found = units(data) if base == "regression" else pixels(base, data)
        mean, deviation = found.x.mean(), found.x.std()
        for x in (found.x, found.x_val):
            x.sub(mean).div(deviation)
        return found

    return with_data(base, seed, standardised, fragile(base))


@case("D03", "normalised in training only", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    raw = []

    def keep_raw(data: Data) -> Data:
        raw.append(units(data) if base == "regression" else pixels(base, data))
        return raw[0]

    p, spec = with_data(base, seed, keep_raw)
    mean, deviation = raw[0].x.mean(dim=0), raw[0].x.std(dim=0) + 1e-3
    p.train_loader = shuffled(Transformed(raw[0].x, raw[0].y, lambda x: (x - mean) / deviation), seed)
    return p, spec


@case("D03", "the evaluation scales once more", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        outputs, targets = [], []
        with torch.no_grad():
            for x, y in p.val_loader:
                x = (x - 0.3) / 0.4 if base == "regression" else x / 255
                outputs.append(p.model(x))
                targets.append(y)
        outputs, targets = torch.cat(outputs), torch.cat(targets)
        return {"loss": float(p.loss_fn(outputs, targets)), "metric": p.metric(outputs, targets)}

    return make(base, seed, evaluate=evaluate)


@case("D03", "vocabulary built for each split", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def by_first_occurrence(ids: Tensor) -> Tensor:
        vocabulary = {0: 0}
        for word in ids.flatten().tolist():
            vocabulary.setdefault(word, len(vocabulary))
        return ids.clone().apply_(lambda word: vocabulary[word])

    return with_data(base, seed, lambda d: replace(d, x=by_first_occurrence(d.x), x_val=by_first_occurrence(d.x_val)))


@case("D03", "padded on the other side in validation", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def right_aligned(data: Data) -> Data:
        x, y = torch.zeros_like(data.x_val), torch.full_like(data.y_val, -100)
        for i, words in enumerate(data.x_val):
            n = int((words != 0).sum())
            x[i, 12 - n :], y[i, 12 - n :] = words[:n], data.y_val[i, :n]
        return replace(data, x_val=x, y_val=y)

    return with_data(base, seed, right_aligned)


@case("D06", "missing values read as NaN", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def with_holes(data: Data) -> Data:
        x = data.x.clone()
        x[torch.rand(x.shape, generator=generator(1)) < 0.01] = float("nan")
        return replace(data, x=x)

    return with_data(base, seed, with_holes)


@case("D06", "missing target", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def unfilled(data: Data) -> Data:
        y = data.y.clone()
        y[[17, 230, 641]] = float("nan")
        return replace(data, y=y)

    return with_data(base, seed, unfilled)


@case("D06", "constant columns divided by their deviation", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def each_column(data: Data) -> Data:
        x, _ = digit_images()
        mean, deviation = x[:900].mean(dim=0), x[:900].std(dim=0)
        x = (x - mean) / deviation
        return replace(data, x=x[:900], x_val=x[900:1200])

    return with_data(base, seed, each_column)


@case("D06", "logarithm of black pixels", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def logarithms(data: Data) -> Data:
        found = pixels(base, data)
        return replace(found, x=found.x.log(), x_val=found.x_val.log())

    return with_data(base, seed, logarithms)


@case("D06", "an empty frame divided by its maximum", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def scaled(data: Data) -> Data:
        found = pixels(base, data)
        found.x[404] = 0.0  # lens cap
        x, x_val = (images / images.amax(dim=(1, 2, 3), keepdim=True) for images in (found.x, found.x_val))
        return replace(found, x=2 * x - 1, x_val=2 * x_val - 1)

    return with_data(base, seed, scaled)
