"""Augmentation that changes what an example is, or that is left on for validation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, default_collate, random_split

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import Transformed, generator, shuffled
from .programs import PARTS, changed, make

Transform = Callable[[Tensor], Tensor]


def augmented(base: str, seed: int, transform: Transform, validation: bool = False) -> tuple[Program, Spec]:
    """A base program whose training, or validation too, goes through the transform."""
    data = PARTS[base].data()
    p, spec = make(base, seed)
    p.plain_loader = DataLoader(TensorDataset(data.x, data.y), 64)
    p.train_loader = shuffled(Transformed(data.x, data.y, transform), seed)
    if validation:
        p.val_loader = DataLoader(Transformed(data.x_val, data.y_val, transform), 64)
    return p, spec


@case("D28", "digits mirrored and upside down", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def flip(x: Tensor) -> Tensor:
        image = x.view(8, 8)
        if torch.rand(()) < 0.5:
            image = image.flip(0)
        if torch.rand(()) < 0.5:
            image = image.flip(1)
        return image.reshape(64)

    return augmented(base, seed, flip)


@case("D28", "crops without the object", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def crop(x: Tensor) -> Tensor:
        top, left = torch.randint(0, 13, (2,)).tolist()
        window = x[:, top : top + 4, left : left + 4]
        return window.repeat_interleave(4, dim=1).repeat_interleave(4, dim=2)

    return augmented(base, seed, crop)


@case("D28", "words in another order", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def reorder(ids: Tensor) -> Tensor:
        words = int((ids != 0).sum())
        return torch.cat([ids[:words][torch.randperm(words)], ids[words:]])

    return augmented(base, seed, reorder)


@case("D28", "columns change their sign", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return augmented(base, seed, lambda x: x * (1 - 2 * torch.randint(0, 2, x.shape)))


@case("D28", "noise larger than the signal", "regression", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    size = {"regression": 2.0, "digits": 5.0}[base]
    return augmented(base, seed, lambda x: x + size * torch.randn(x.shape))


@case("D28", "inputs of a batch mixed but not their labels", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            share = torch.rand(len(x), *[1] * (x.dim() - 1))
            mixed = share * x + (1 - share) * x[torch.randperm(len(x))]
            p.optimizer.zero_grad()
            p.loss_fn(p.model(mixed), y).backward()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


def shift(x: Tensor) -> Tensor:
    """An image moved by a pixel or two, brighter or darker."""
    by = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(x, by, dims=(1, 2)) * (1 + 0.3 * torch.randn(()))


@case("D30", "one transform for both splits", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    transforms = {
        "digits": lambda x: x + 0.6 * torch.randn(x.shape),
        "shapes": shift,
        "regression": lambda x: x + 0.2 * torch.randn(x.shape),
    }
    return augmented(base, seed, transforms[base], validation=True)


@case("D30", "split after the data set got its transform", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    transform = shift if base == "shapes" else lambda x: x * (torch.rand(x.shape) > 0.25)
    everything = Transformed(torch.cat([data.x, data.x_val]), torch.cat([data.y, data.y_val]), transform)
    train, val = random_split(everything, [len(data.x), len(data.x_val)], generator=generator(6))
    return make(base, seed, train_loader=shuffled(train, seed), val_loader=DataLoader(val, 64))


@case("D30", "noise in forward in every mode", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    size = {"digits": 0.4, "shapes": 0.15, "regression": 0.15}[base]

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = PARTS[base].model()

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x + size * torch.randn_like(x))

    return make(base, seed, parts=changed(base, model=Noisy))


@case("D30", "words dropped when batches are put together", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def collate(examples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        ids, tags = default_collate(examples)
        unknown = torch.rand(ids.shape) < 0.1
        return ids.masked_fill(unknown, 0), tags.masked_fill(unknown, -100)

    data = PARTS[base].data()
    return make(
        base,
        seed,
        train_loader=DataLoader(
            TensorDataset(data.x, data.y), 64, shuffle=True, generator=generator(seed), collate_fn=collate
        ),
        val_loader=DataLoader(TensorDataset(data.x_val, data.y_val), 64, collate_fn=collate),
    )
