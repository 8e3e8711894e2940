"""Where a three-jointed robot arm's hand is (x, y, in standardised units), from its angles: regression, MLP.

Fault: the helper that builds an MLP from a list of widths puts a ReLU behind every linear layer, the last
included. The network cannot give a negative number, and half of the standardised targets are negative. The loss
falls all the same, as far as the positive half can be learned. It comes about when the layers are made in a loop.

Measured (seeds 0 and 1): validation R2 0.50 and 0.54 after 15 epochs; twin 0.998 and 0.998.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)

LENGTHS = torch.tensor([1.0, 0.7, 0.4])
WIDTHS = (6, 64, 64, 2)


def poses(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sines and cosines of the joints' angles, and the measured position of the hand."""
    angle = (2 * torch.rand(count, 3, generator=generator) - 1) * math.pi * torch.tensor([1.0, 0.7, 0.7])
    direction = angle.cumsum(1)
    hand = torch.stack([(LENGTHS * direction.cos()).sum(1), (LENGTHS * direction.sin()).sum(1)], 1)
    return torch.cat([angle.sin(), angle.cos()], 1), hand + 0.02 * torch.randn(count, 2, generator=generator)


def perceptron(widths: Sequence[int], last_activation: bool) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them, and behind the last if asked for."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if last_activation else layers[:-1]))


def r_squared(prediction: Tensor, hand: Tensor) -> float:
    """Share of the variance explained, over both coordinates."""
    return (1 - (prediction - hand).square().mean() / hand.var(0, unbiased=False).mean()).item()


def build(seed: int, last_activation: bool) -> tuple[Program, Spec]:
    """The program, with or without a ReLU at the end of the network."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train_x, train_y = poses(3000, generator)
    val_x, val_y = poses(1000, generator)
    mean, std = train_y.mean(0), train_y.std(0)

    model = perceptron(WIDTHS, last_activation)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(TensorDataset(train_x, (train_y - mean) / std), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val_x, (val_y - mean) / std), 250),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, last_activation=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same ending in a linear layer."""
    return build(seed, last_activation=False)
