"""Images that the model does not get as it should: channels and axes in another order, statistics of another set."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.data import shapes
from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import adamw, colour_net, coloured, generator, program, shape_pixels, with_data
from .programs import Data, Parts, accuracy, digits_data, shapes_data


def colours(data: Data) -> Parts:
    """A healthy program for the coloured shapes."""
    spec = Spec(task="classification", classes=15, epochs=12)
    return Parts(lambda: data, colour_net, F.cross_entropy, adamw, accuracy, spec)


def standardised(x: Tensor) -> Tensor:
    """Coloured images with training's mean and deviation of each channel."""
    train = coloured().x
    return (x - train.mean(dim=(0, 2, 3), keepdim=True)) / train.std(dim=(0, 2, 3), keepdim=True)


@case("D08", "channels brought to the front by reshape", "colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = coloured()
    x, x_val = (standardised(images).permute(0, 2, 3, 1).contiguous() for images in (data.x, data.x_val))
    return program(seed, colours(replace(data, x=x.reshape(-1, 3, 16, 16), x_val=x_val.reshape(-1, 3, 16, 16))))


@case("D08", "view before the model", "colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        n, height, width, channels = x.shape
        return model(x.view(n, channels, height, width))

    data = coloured()
    x, x_val = (standardised(images).permute(0, 2, 3, 1).contiguous() for images in (data.x, data.x_val))
    return program(seed, colours(replace(data, x=x, x_val=x_val)), forward=forward)


@case("D08", "tiles put together by reshape", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def from_tiles(images: Tensor) -> Tensor:
        tiles = (
            images.unfold(2, 4, 4).unfold(3, 4, 4).contiguous()
        )  # as stored: row and column of the tile, then pixels
        return tiles.reshape(-1, 1, 16, 16)

    return with_data(base, seed, lambda d: replace(d, x=from_tiles(d.x), x_val=from_tiles(d.x_val)))


@case("D08", "time steps first", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def batch_first(steps: Tensor) -> Tensor:
        return steps.t().contiguous().reshape(steps.shape)  # the recorder writes [T, N]

    def change(data: Data) -> Data:
        return Data(*(batch_first(part) for part in (data.x, data.y, data.x_val, data.y_val)))

    return with_data(base, seed, change)


class Pretrained(nn.Module):
    """A backbone that stays as it is, and a new head."""

    def __init__(self, backbone: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(backbone).requires_grad_(False)
        self.head = nn.Linear(features, classes)

    def train(self, mode: bool = True) -> Pretrained:
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def stained(images: Tensor, seed: int) -> Tensor:
    """Grey images [N, 1, H, W] from 0 to 1 in reddish colours."""
    tints = torch.rand(len(images), 3, generator=generator(seed)) * 0.3 + torch.tensor([0.7, 0.35, 0.05])
    return (images * 0.7 + 0.3) * tints[:, :, None, None]


def fit(model: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    """The model after training, in evaluation mode."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    order = generator(2)
    for _ in range(12):
        for rows in torch.randperm(len(x), generator=order).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


@lru_cache
def colour_checkpoint() -> tuple[nn.Module, Tensor, Tensor]:
    """A backbone trained on other images of this kind, and the mean and deviation of each channel that it expects."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = shapes(1000, seed=21, size=16)
        x = stained(drawn.images, 3)
        mean, deviation = x.mean(dim=(0, 2, 3)), x.std(dim=(0, 2, 3))
        backbone = nn.Sequential(
            *(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        )
        fit(
            nn.Sequential(backbone, nn.Linear(384, 5)),
            (x - mean[:, None, None]) / deviation[:, None, None],
            drawn.labels,
        )
    return backbone, mean, deviation


@lru_cache
def digits_checkpoint() -> tuple[nn.Module, Tensor, Tensor]:
    """The same for scanned digits [N, 64] of 0 to 16."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x, y = scanned()
        mean, deviation = x[900:].mean(dim=0), x[900:].std(dim=0) + 1
        backbone = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        fit(nn.Sequential(backbone, nn.Linear(32, 10)), (x[900:] - mean) / deviation, y[900:])
    return backbone, mean, deviation


def scanned() -> tuple[Tensor, Tensor]:
    """The digits as numbers from 0 to 16."""
    data = digits_data()
    x = torch.cat([data.x, data.x_val])
    return 16 * (x - x.min()) / (x.max() - x.min()), torch.cat([data.y, data.y_val])


def colour_tuning(seed: int, prepare: str = "right") -> tuple[Program, Spec]:
    """Fine-tuning on stained shapes."""
    backbone, mean, deviation = colour_checkpoint()
    prepares = {
        "right": lambda x: (x - mean[:, None, None]) / deviation[:, None, None],
        "0 to 1": lambda x: x,
        "BGR": lambda x: (x.flip(1) - mean[:, None, None]) / deviation[:, None, None],
        "halves": lambda x: (x - 0.5) / 0.5,
        "bytes": lambda x: (x * 255 - mean[:, None, None]) / deviation[:, None, None],
    }
    grey, data = shape_pixels(), shapes_data()
    x, x_val = prepares[prepare](stained(grey[0], 4)), prepares[prepare](stained(grey[1], 5))
    spec = tuning_spec(5, mean, deviation)
    parts = Parts(
        lambda: Data(x, data.y, x_val, data.y_val),
        lambda: Pretrained(backbone, 384, 5),
        F.cross_entropy,
        adamw,
        accuracy,
        spec,
    )
    return program(seed, parts)


def tuning_spec(classes: int, mean: Tensor, deviation: Tensor) -> Spec:
    """What both fine-tunings declare."""
    return Spec(
        task="classification",
        classes=classes,
        epochs=12,
        frozen=("backbone.*",),
        eval_modules=("backbone", "backbone.*"),
        input_mean=mean.tolist(),
        input_std=deviation.tolist(),
    )


@case("D04", "0 to 1 as the images are", "pretrained colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return colour_tuning(seed, "0 to 1")


@case("D04", "blue first", "pretrained colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return colour_tuning(seed, "BGR")


@case("D04", "a half as mean and deviation", "pretrained colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return colour_tuning(seed, "halves")


@case("D04", "bytes minus the mean of 0 to 1", "pretrained colours")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return colour_tuning(seed, "bytes")


def digits_tuning(seed: int, factor: float, standardise: bool) -> tuple[Program, Spec]:
    """Fine-tuning on scans, after 0 to 16 became 0 to 16 * factor."""
    backbone, mean, deviation = digits_checkpoint()
    x, y = scanned()
    x = x[:900] * factor
    x = (x - mean) / deviation if standardise else x
    data = Data(x[:600], y[:600], x[600:], y[600:900])
    parts = Parts(
        lambda: data,
        lambda: Pretrained(backbone, 32, 10),
        F.cross_entropy,
        adamw,
        accuracy,
        tuning_spec(10, mean, deviation),
    )
    return program(seed, parts)


@case("D04", "scans of 0 to 255", "pretrained digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return digits_tuning(seed, 255 / 16, standardise=True)


@case("D04", "nothing subtracted", "pretrained digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return digits_tuning(seed, 1 / 16, standardise=False)
