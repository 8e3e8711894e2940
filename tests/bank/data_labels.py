"""Labels that do not belong to their inputs, or that are wrong."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import adamw, generator, program, shape_pixels, shuffled, tanh_net, with_data
from .programs import BASES, TAGS, Data, Parts, make


@case("D09", "inputs and labels shuffled separately", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def separately(data: Data) -> Data:
        order = generator(1)
        x = data.x[torch.randperm(len(data.x), generator=order)]
        y = data.y[torch.randperm(len(data.y), generator=order)]
        return replace(data, x=x, y=y)

    return with_data(base, seed, separately)


@case("D09", "files sorted by name and labels by number", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def by_name(x: Tensor) -> Tensor:
        return x[sorted(range(len(x)), key=lambda i: f"{i}.png")]

    return with_data(base, seed, lambda d: replace(d, x=by_name(d.x), x_val=by_name(d.x_val)))


@case("D09", "inputs without the header row", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def skip_one(data: Data) -> Data:
        return Data(data.x[1:], data.y[:-1], data.x_val[1:], data.y_val[:-1])

    return with_data(base, seed, skip_one)


@case("D09", "collate sorts the sentences by length", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def collate(examples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        ids, tags = default_collate(examples)
        longest_first = (ids != 0).sum(dim=1).argsort(descending=True)
        return ids[longest_first], tags

    p, spec = make(base, seed)
    p.train_loader = DataLoader(p.train_loader.dataset, 64, shuffle=True, generator=generator(seed), collate_fn=collate)
    return p, spec


class FlippedImages(Dataset):
    """Images and masks; half of the images are mirrored."""

    def __init__(self, images: Tensor, masks: Tensor) -> None:
        self.images, self.masks = images, masks

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        image, mask = self.images[i], self.masks[i]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        if torch.rand(()) < 0.5:
            image = image.flip(-2)
        return image, mask


def segmentation() -> Parts:
    """A healthy program: which pixels of a noisy image are bright. Images [N, 1, 16, 16], masks [N, 16, 16]."""
    x, x_val = shape_pixels()
    noise = generator(2)
    masks, masks_val = ((images[:, 0] > 0.5).long() for images in (x, x_val))
    x, x_val = (4 * images - 1 + 0.5 * torch.randn(images.shape, generator=noise) for images in (x, x_val))
    return Parts(
        lambda: Data(x, masks, x_val, masks_val),
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1)),
        F.cross_entropy,
        adamw,
        intersection_over_union,
        Spec(task="segmentation", classes=2, epochs=12),
    )


def intersection_over_union(outputs: Tensor, targets: Tensor) -> float:
    """Of the bright pixels."""
    found = outputs.argmax(dim=1) == 1
    return float((found & (targets == 1)).sum() / (found | (targets == 1)).sum().clamp(min=1))


@case("D09", "image flipped and mask not", "segmentation")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = segmentation()
    data = parts.data()
    p, spec = program(seed, parts, plain_loader=DataLoader(TensorDataset(data.x, data.y), 64))
    p.train_loader = shuffled(FlippedImages(data.x, data.y), seed)
    return p, spec


def classes_of(base: str) -> int:
    """How many there are."""
    return {"digits": 10, "shapes": 5, "sequence": TAGS}[base]


@case("D10", "a third of the labels guessed", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def guessed(data: Data) -> Data:
        order = generator(1)
        guesses = torch.randint(classes_of(base), data.y.shape, generator=order)
        careless = (torch.rand(data.y.shape, generator=order) < 0.35) & (data.y != -100)
        return replace(data, y=torch.where(careless, guesses, data.y))

    return with_data(base, seed, guessed)


@case("D10", "one annotator off by a class", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def one_off(data: Data) -> Data:
        y = data.y.clone()
        part = y[250:480]
        y[250:480] = torch.where(part == -100, part, (part + 1) % classes_of(base))
        return replace(data, y=y)

    return with_data(base, seed, one_off)


@case("D10", "a quarter of the targets from another row", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def mixed_up(data: Data) -> Data:
        order = generator(1)
        y, rows = data.y.clone(), torch.randperm(len(data.y), generator=order)[: len(data.y) // 4]
        y[rows] = y[rows.roll(1)]
        return replace(data, y=y)

    return with_data(base, seed, mixed_up)


@case("D10", "sign lost in the export", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def unsigned(data: Data) -> Data:
        lost = torch.rand(data.y.shape, generator=generator(1)) < 0.4
        return replace(data, y=torch.where(lost, data.y.abs(), data.y))

    return with_data(base, seed, unsigned)


@case("D36", "targets in euros", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return with_data(base, seed, lambda d: replace(d, y=3e5 + 1.2e5 * d.y, y_val=3e5 + 1.2e5 * d.y_val))


@case("D36", "pressure in pascals beside a share", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def two_targets(data: Data) -> Data:
        def measured(x: Tensor, y: Tensor) -> Tensor:
            return torch.cat([101_325 + 900 * x[:, 4:5] * x[:, 5:6], 0.5 + 0.1 * y], dim=1)

        return replace(data, y=measured(data.x, data.y), y_val=measured(data.x_val, data.y_val))

    p, spec = with_data(base, seed, two_targets, {"model": lambda: tanh_net(6, 2), "metric": mean_r2})
    return p, spec


def mean_r2(outputs: Tensor, targets: Tensor) -> float:
    """Mean of the explained shares of the targets' variances."""
    return float((1 - (outputs - targets).pow(2).mean(dim=0) / targets.var(dim=0, unbiased=False)).mean())


@case("D36", "targets in seconds since 1970", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def seconds(data: Data) -> Data:
        return replace(data, y=1.7e9 + 86_400 * data.y, y_val=1.7e9 + 86_400 * data.y_val)

    sgd = {"optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=1e-3)}
    return with_data(base, seed, seconds, sgd)
