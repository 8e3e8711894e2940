"""Statistics of BatchNorm that are wrong in evaluation."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PARTS, changed, make


def normed(base: str, **of_norm: Any) -> nn.Module:
    """The base's model with BatchNorm after each layer but the last."""
    if base == "shapes":
        return nn.Sequential(
            *(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12, **of_norm), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24, **of_norm), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(24 * 16, 5)),
        )
    inputs, outputs = (64, 10) if base == "digits" else (6, 1)
    return nn.Sequential(
        *(nn.Linear(inputs, 48), nn.BatchNorm1d(48, **of_norm), nn.ReLU()),
        *(nn.Linear(48, 48), nn.BatchNorm1d(48, **of_norm), nn.ReLU(), nn.Linear(48, outputs)),
    )


@case("P17", "momentum 0", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: normed(base, momentum=0.0), batch_size=50))


@case("P17", "momentum as Keras counts it", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = changed(base, model=lambda: normed(base, momentum=0.99), batch_size=8)
    return make(base, seed, parts=parts)


@case("P17", "no running statistics, small batches", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    data = PARTS[base].data()
    val_loader = DataLoader(TensorDataset(data.x_val, data.y_val), batch_size=3)
    parts = changed(base, model=lambda: normed(base, track_running_stats=False), batch_size=50)
    return make(base, seed, parts=parts, val_loader=val_loader)


@case("P17", "statistics are reset after each epoch", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()
        for layer in p.model.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                layer.reset_running_stats()

    return make(base, seed, parts=changed(base, model=lambda: normed(base), batch_size=50), train_epoch=train_epoch)


class Shared(nn.Module):
    """One norm for layers of different scale."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(inputs, 48), nn.Linear(48, 48), nn.Linear(48, outputs)
        self.norm = nn.BatchNorm1d(48)
        nn.init.orthogonal_(self.second.weight, gain=4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        return self.third(self.norm(self.second(x)).relu())


@case("P17", "one norm for two layers", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    sizes = (64, 10) if base == "digits" else (6, 1)
    return make(base, seed, parts=changed(base, model=lambda: Shared(*sizes), batch_size=50))
