"""Faults G24 to G27: modes of the model, and averages over validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_programs import other, parts_of
from .programs import BASES, Data, Tagger, make


class DropoutTagger(Tagger):
    """A tagger that forgets a part of its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.3)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(self.dropout(hidden)).transpose(1, 2)


def with_modes(base: str, layer: type[nn.Module] = nn.Dropout) -> nn.Module:
    """The model of a base program with dropout, or with BatchNorm as it is."""
    if base == "sequence":
        return DropoutTagger()
    model = parts_of(base).model()
    if base == "shapes" and layer is nn.Dropout:
        return model
    return nn.Sequential(*list(model)[:-1], layer(0.3), model[-1])


def measured(p: Program) -> dict[str, float]:
    """Loss and metric of all validation examples at once."""
    with torch.no_grad():
        found = [(p.model(x), y) for x, y in p.val_loader]
    outputs, targets = torch.cat([x for x, _ in found]), torch.cat([y for _, y in found])
    return {"loss": float(p.loss_fn(outputs, targets)), "metric": p.metric(outputs, targets)}


@case("G24", "no eval", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, {"evaluate": measured}, model=lambda: with_modes(base))


@case("G24", "one loop for training and validation that always calls train", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def run(p: Program, training: bool) -> dict[str, float]:
        p.model.train()
        if not training:
            return measured(p)
        for batch in p.train_loader:
            p.run_step(batch)
        return {}

    of_program = {"train_epoch": lambda p: run(p, training=True), "evaluate": lambda p: run(p, training=False)}
    return other(base, seed, of_program, model=lambda: with_modes(base))


class FunctionalDropout(nn.Module):
    """Dropout as a function."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p)


@case("G24", "dropout as a function that is not told the mode", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, model=lambda: with_modes(base, FunctionalDropout))


@case("G25", "validation leaves the model in eval", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        for batch in p.train_loader:
            p.run_step(batch)

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        return measured(p)

    return other(base, seed, {"train_epoch": train_epoch, "evaluate": evaluate}, model=lambda: with_modes(base))


@case("G25", "validation between the batches", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        return measured(p)

    def train_epoch(p: Program) -> None:
        p.model.train()
        for number, batch in enumerate(p.train_loader):
            if number % 5 == 4:
                evaluate(p)
            p.run_step(batch)

    return other(base, seed, {"train_epoch": train_epoch, "evaluate": evaluate}, model=lambda: with_modes(base))


def sorted_validation(base: str) -> Data:
    """The data of a base program, validation ordered by class or by target."""
    found = parts_of(base).data()
    order = found.y_val.flatten().argsort(stable=True)
    return replace(found, x_val=found.x_val[order], y_val=found.y_val[order])


def mean_loss(p: Program, x: Tensor, y: Tensor) -> float:
    """The loss of one batch."""
    with torch.no_grad():
        return p.loss_fn(p.model(x), y).item()


def with_validation(base: str, seed: int, batch_size: int, **of_program: Any) -> tuple[Program, Spec]:
    """A base program whose ordered validation comes in batches of another size."""
    data = sorted_validation(base)
    loader = DataLoader(TensorDataset(data.x_val, data.y_val), batch_size)
    return make(base, seed, val_loader=loader, **of_program)


@case("G27", "mean of the means of batches", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        losses = [mean_loss(p, x, y) for x, y in p.val_loader]
        p.model.train()
        return {"loss": sum(losses) / len(losses)}

    return with_validation(base, seed, 120, evaluate=evaluate)


@case("G27", "the last batch only", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        for x, y in p.val_loader:
            loss = mean_loss(p, x, y)
        p.model.train()
        return {"loss": loss}

    return with_validation(base, seed, 64, evaluate=evaluate)


@case("G27", "means of batches over the number of examples", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> float:
        p.model.eval()
        total, count = 0.0, 0
        for x, y in p.val_loader:
            total += mean_loss(p, x, y)
            count += len(y)
        p.model.train()
        return total / count

    return make(base, seed, evaluate=evaluate)


@case("G27", "right answers over batches times their size", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        right, batches, size = 0, 0, 0
        with torch.no_grad():
            for x, y in p.val_loader:
                right += int((p.model(x).argmax(dim=1) == y).sum())
                batches, size = batches + 1, max(size, len(y))
        p.model.train()
        return {"accuracy": right / (batches * size)}

    return with_validation(base, seed, 128, evaluate=evaluate)
