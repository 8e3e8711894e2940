"""Losses that are meant to be as they are: smoothed, negative, of coupled samples, of rare classes, of two players."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import BASES, PARTS, Data, Parts, accuracy, changed, make, r2


@case("K04", "smoothed by the loss", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = changed(base, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1))
    return make(base, seed, replace(PARTS[base].spec, mixes_labels=True), parts)


@case("K04", "smoothed by hand", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        logs = F.log_softmax(outputs, dim=1)
        right = F.nll_loss(logs, targets, ignore_index=-100)
        return 0.9 * right - 0.1 * logs.mean(dim=1)[targets != -100].mean()

    return make(base, seed, replace(PARTS[base].spec, mixes_labels=True), changed(base, loss_fn=loss_fn))


def rare_data() -> Data:
    """4,000 and 4,000 rows of eight columns; one in fifty is positive."""
    generator = torch.Generator().manual_seed(12)
    x = torch.randn(8000, 8, generator=generator)
    score = 2 * x[:, 0] + x[:, 1] - x[:, 2] + 0.5 * torch.randn(8000, generator=generator)
    y = (score > score.quantile(0.98)).float()[:, None]
    return Data(x[:4000], y[:4000], x[4000:], y[4000:])


def average_precision(outputs: Tensor, targets: Tensor) -> float:
    """Area below the curve of precision over recall."""
    return float(average_precision_score(targets[:, 0].numpy(), outputs[:, 0].numpy()))


def rare_model() -> nn.Module:
    """Begins with the rate of positives."""
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    nn.init.constant_(model[-1].bias, -math.log(49))
    return model


RARE = Parts(
    rare_data,
    rare_model,
    F.binary_cross_entropy_with_logits,
    lambda model: torch.optim.AdamW(model.parameters(), lr=5e-3),
    average_precision,
    Spec(task="multi-label", classes=1, epochs=10),
    batch_size=100,
)


@case("K05", "prior in the bias", "rare")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=RARE)


@case("K05", "cross-entropy of two classes", "rare")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = rare_data()
        return replace(found, y=found.y[:, 0].long(), y_val=found.y_val[:, 0].long())

    def model() -> nn.Module:
        made = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
        made[-1].bias.data = torch.tensor([0.98, 0.02]).log()
        return made

    def of_positives(outputs: Tensor, targets: Tensor) -> float:
        return float(average_precision_score(targets.numpy(), outputs.softmax(dim=1)[:, 1].numpy()))

    spec = Spec(task="classification", classes=2, epochs=10)
    parts = replace(RARE, data=data, model=model, loss_fn=F.cross_entropy, metric=of_positives, spec=spec)
    return make(base, seed, parts=parts)


def mean_and_log_variance() -> nn.Module:
    """For the six columns."""
    return nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))


def precise_data() -> Data:
    """The regression data without noise: densities get above 1."""
    found = PARTS["regression"].data()

    def target(x: Tensor) -> Tensor:
        return (0.5 * torch.sin(2 * x[:, 0]) + 0.3 * x[:, 3])[:, None]

    return replace(found, y=target(found.x), y_val=target(found.x_val))


@case("K22", "Gaussian likelihood", "precise regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.gaussian_nll_loss(outputs[:, :1], targets, outputs[:, 1:].exp())

    parts = changed(
        "regression",
        data=precise_data,
        model=mean_and_log_variance,
        loss_fn=loss_fn,
        metric=lambda outputs, targets: r2(outputs[:, :1], targets),
    )
    return make(base, seed, parts=parts)


@case("K22", "projection with a minus", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return -(outputs * targets - outputs**2 / 2).mean()

    return make(base, seed, parts=changed(base, loss_fn=loss_fn))


@case("K28", "MixUp", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        share = float(torch.distributions.Beta(0.3, 0.3).sample())
        other = torch.randperm(len(x))
        outputs = p.model(share * x + (1 - share) * x[other])
        p.optimizer.zero_grad()
        (share * p.loss_fn(outputs, y) + (1 - share) * p.loss_fn(outputs, y[other])).backward()
        p.optimizer.step()

    return make(base, seed, replace(PARTS[base].spec, couples_samples=True, mixes_labels=True), step=step)


def supervised_contrast(outputs: Tensor, targets: Tensor) -> Tensor:
    """Samples of one class attract each other, the others repel."""
    unit = F.normalize(outputs, dim=1)
    similarity = (unit @ unit.T / 0.2).fill_diagonal_(-1e4)
    same = (targets[:, None] == targets).float().fill_diagonal_(0)
    each = (F.log_softmax(similarity, dim=1) * same).sum(dim=1) / same.sum(dim=1).clamp(min=1)
    return -each.mean()


def nearest_same(outputs: Tensor, targets: Tensor) -> float:
    """Share of samples whose nearest other sample has their class."""
    distance = torch.cdist(F.normalize(outputs, dim=1), F.normalize(outputs, dim=1)).fill_diagonal_(torch.inf)
    return float((targets[distance.argmin(dim=1)] == targets).float().mean())


@case("K28", "supervised contrastive loss", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    spec = Spec(epochs=12, couples_samples=True)
    return make(base, seed, spec, changed(base, model=model, loss_fn=supervised_contrast, metric=nearest_same))


@case("K32", "the same program", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed)


@case("K32", "training's own numbers are given, too", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            batches = [(p.model(x), y) for x, y in p.val_loader]
            train = accuracy(p.model(data.x[:300]), data.y[:300])
        outputs, targets = (torch.cat(found) for found in zip(*batches, strict=True))
        return {"accuracy": accuracy(outputs, targets), "training accuracy": train}

    return make(base, seed, evaluate=evaluate)
