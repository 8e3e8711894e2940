"""Models that know no more than a dumb rule, or that never see their input."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_sources import classifier, generator, program, regressor, tanh_net, with_data
from .programs import BASES, PAD, PARTS, TAGS, Data, Tagger, changed, make


@case("E01", "columns that know nothing", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return with_data(
        base, seed, lambda d: replace(d, x=d.x[:, 4:], x_val=d.x_val[:, 4:]), {"model": lambda: tanh_net(2, 1)}
    )


@case("E01", "only the margin of the page", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def margin(x: Tensor) -> Tensor:
        cut = x.clone().view(-1, 8, 8)
        cut[:, :, 1:7] = x.min()
        return cut.flatten(1)

    return with_data(base, seed, lambda d: replace(d, x=margin(d.x), x_val=margin(d.x_val)))


@case("E01", "tag of a word that is yet to come", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def of_the_next(data: Data) -> Data:
        def tags(ids: Tensor) -> Tensor:
            following = torch.cat([ids[:, 1:], torch.zeros_like(ids[:, :1])], dim=1)
            return torch.where((ids == PAD) | (following == PAD), -100, following % TAGS)

        return replace(data, y=tags(data.x), y_val=tags(data.x_val))

    return with_data(base, seed, of_the_next)


@lru_cache
def applications() -> Data:
    """800 and 400 applications by twelve columns, of which seven in ten are granted whatever the columns say."""
    order = generator(31)
    x = torch.randn(1200, 12, generator=order)
    y = (torch.rand(1200, generator=order) < 0.7).long()
    return Data(x[:800], y[:800], x[800:], y[800:])


@case("E01", "decided by who was on duty", "applications")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(applications(), classes=2, epochs=4))


@lru_cache
def few_rows() -> Data:
    """120 and 300 rows of 40 columns; the target is a weighted sum of them, and noise."""
    order = generator(33)
    x = torch.randn(420, 40, generator=order)
    y = x @ torch.randn(40, 1, generator=order) / 40**0.5 + 0.2 * torch.randn(420, 1, generator=order)
    return Data(x[:120], y[:120], x[120:], y[120:])


@case("E01", "few rows for a large net", "few rows")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    return program(seed, replace(regressor(few_rows(), epochs=40), model=model))


class Unfilled(nn.Module):
    """Works on an empty array that the input was to be copied into."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        padded = torch.zeros_like(x)
        return self.body(padded)


@case("E02", "array that is never filled", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: Unfilled(PARTS[base].model())))


@case("E02", "noise gate for values of 0 to 255", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model(x * (x.abs() > 20))

    return make(base, seed, forward=forward)


@case("E02", "positions in place of words", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    class Positions(Tagger):
        def forward(self, ids: Tensor) -> Tensor:
            words = torch.arange(1, ids.shape[1] + 1).expand_as(ids)
            hidden, _ = self.memory(self.embedding(words))
            return self.head(hidden).transpose(1, 2)

    return make(base, seed, parts=changed(base, model=Positions))


@case("E02", "inputs of the batch before", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        before = None
        for x, y in p.train_loader:
            if before is not None:
                p.optimizer.zero_grad()
                p.loss_fn(p.model(before), y).backward()
                p.optimizer.step()
            before = x

    p, spec = make(base, seed, train_epoch=train_epoch)
    order = generator(seed)
    p.train_loader = DataLoader(p.train_loader.dataset, 64, shuffle=True, drop_last=True, generator=order)
    return p, spec


class Gated(nn.Module):
    """Two ways through, and a gate that was set to take the one that knows nothing."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.body = PARTS[base].model()
        self.prior = nn.Parameter(torch.zeros({"digits": 10, "shapes": 5, "regression": 1}[base]))
        self.register_buffer("gate", torch.tensor(1 // 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.gate * self.body(x) + (1 - self.gate) * self.prior


@case("E02", "gate of a half by integer division", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: Gated(base)))
