"""Small trainings that need a learning rate: a task, a model and an optimizer, and how well a rate does there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.training import one_cycle

BATCH_SIZE = 64
Split = tuple[Tensor, Tensor, Tensor, Tensor]  # training inputs and labels, held-out inputs and labels


@cache
def digits() -> Split:
    """Images [N, 1, 8, 8], three quarters to train on."""
    found = load_digits()
    train, held = stratified_split(found.labels, (0.75, 0.25), seed=0)
    return found.images[train], found.labels[train], found.images[held], found.labels[held]


@cache
def friedman() -> Split:
    """Friedman's first regression: five of ten inputs count, one through a sine; noise of a fifth of the spread."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(n_samples=2000, n_features=10, noise=1.0, random_state=0)
    inputs = torch.as_tensor(x, dtype=torch.float32) * 2 - 1
    targets = torch.as_tensor((y - y.mean()) / y.std(), dtype=torch.float32)[:, None]
    return inputs[:1500], targets[:1500], inputs[1500:], targets[1500:]


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """One hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, outputs))


def deep_mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Six hidden layers with He's initialisation: with torch's own, the signal of so deep a network fades."""
    widths = [inputs] + [48] * 6
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layer = nn.Linear(before, after)
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(48, outputs))


def cnn(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions over 8x8 images."""
    assert inputs == 64
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, outputs),
    )  # fmt: skip


def batch_norm(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers, each normalised."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, outputs),
    )  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A task with a model and an optimizer; a seed fixes the first weights and the order of the batches."""

    task: str
    model: Callable[[int, int], nn.Sequential]
    optimizer: str

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.task}, {self.model.__name__}, {self.optimizer}"

    @property
    def data(self) -> Split:
        """The task's split."""
        return digits() if self.task == "digits" else friedman()

    @property
    def loss_fn(self) -> nn.Module:
        """A mean over the batch."""
        return nn.CrossEntropyLoss() if self.task == "digits" else nn.MSELoss()

    def make(self, seed: int, rate: float = 1e-3) -> tuple[nn.Sequential, torch.optim.Optimizer]:
        """A fresh model and its optimizer."""
        torch.manual_seed(seed)
        model = self.model(*((64, 10) if self.task == "digits" else (10, 1)))
        if self.optimizer == "SGD":
            return model, torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        return model, torch.optim.AdamW(model.parameters(), lr=rate)

    def loader(self, seed: int) -> DataLoader:
        """What every finder sweeps."""
        generator = torch.Generator().manual_seed(seed)
        return DataLoader(TensorDataset(*self.data[:2]), BATCH_SIZE, shuffle=True, generator=generator)

    def final_loss(self, seed: int, rate: float | None, steps: int) -> float:
        """The held-out loss after a one-cycle training with this greatest rate.

        At most the loss before training: that is also what a run counts that diverged, or had no rate to begin with.
        """
        model, optimizer = self.make(seed, rate or 1e-3)
        before = self._held_out_loss(model)
        if rate is None:
            return before
        loss_fn, scheduler = self.loss_fn, one_cycle(rate)(optimizer, steps)
        loader = TensorLoader(*self.data[:2], batch_size=BATCH_SIZE, shuffle=True, seed=seed + 1000)
        for _, (x, y) in zip(range(steps), _again(loader), strict=False):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            if not math.isfinite(loss.item()):
                return before
            loss.backward()
            optimizer.step()
            scheduler.step()
        after = self._held_out_loss(model)
        return min(after, before) if math.isfinite(after) else before

    def _held_out_loss(self, model: nn.Module) -> float:
        model.eval()
        with torch.no_grad():
            loss = self.loss_fn(model(self.data[2]), self.data[3]).item()
        model.train()
        return loss


def _again(loader: TensorLoader) -> Iterator[tuple[Tensor, ...]]:
    while True:
        yield from loader


OPTIMIZERS = ("SGD", "AdamW")
PROBLEMS = [
    *(Problem("digits", model, optimizer) for model in (mlp, deep_mlp, cnn, batch_norm) for optimizer in OPTIMIZERS),
    *(Problem("regression", model, optimizer) for model in (mlp, batch_norm) for optimizer in OPTIMIZERS),
]
