"""The moving average of the weights, which is what is evaluated, follows the parameters only: the running statistics
of its batch normalisation stay at their starting values, and the average scores far below what was trained.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import make_classification
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step", "model")
EPOCHS = 25


class Averaged(nn.Module):
    """A network with the moving average of it; training uses the one, evaluation the other."""

    def __init__(self, net: nn.Module, decay: float = 0.98, follow_buffers: bool = False) -> None:
        super().__init__()
        self.net = net
        self.average = copy.deepcopy(net).requires_grad_(False)
        self.decay = decay
        self.follow_buffers = follow_buffers

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) if self.training else self.average(x)

    @torch.no_grad()
    def update(self) -> None:
        for ours, theirs in zip(self.average.parameters(), self.net.parameters(), strict=True):
            ours.lerp_(theirs, 1 - self.decay)
        if self.follow_buffers:
            for ours, theirs in zip(self.average.buffers(), self.net.buffers(), strict=True):
                ours.copy_(theirs)


def block(width_in: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, width), nn.BatchNorm1d(width), nn.ReLU())


def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    inputs, targets = batch
    program.optimizers[0].zero_grad()
    program.loss_fn(program.outputs(inputs), targets).backward()
    program.optimizers[0].step()
    program.model.update()


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, follow_buffers: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = make_classification(
        3600,
        24,
        n_informative=14,
        n_redundant=4,
        n_classes=6,
        n_clusters_per_class=1,
        class_sep=1.6,
        flip_y=0.02,
        random_state=seed,
    )
    features, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    mean, std = features[:2400].mean(0), features[:2400].std(0)
    features = (features - mean) / std
    train = TensorDataset(features[:2400], labels[:2400])
    val = TensorDataset(features[2400:], labels[2400:])
    net = nn.Sequential(block(24, 48), block(48, 48), block(48, 48), nn.Linear(48, 6))
    model = Averaged(net, follow_buffers=follow_buffers)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.net.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(
            train, batch_size=64, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(val, batch_size=256),
        step=step,
        metric=accuracy,
    )
    spec = Spec(task="classification", classes=6, epochs=EPOCHS, frozen=("average.*",), examples=37 * 64)
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, follow_buffers=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, follow_buffers=True)
