"""Handwritten digits of which some are rare, with a CNN and a sampler that draws all classes equally often.

Fault: WeightedRandomSampler gets the weights of the ten classes, where it wants a weight for each example. It then
draws the examples 0..9 of the data set, and no other, as often as num_samples says. An epoch has the right length,
batches have the right shape, training accuracy goes to 1, and nothing crashes.

Balanced accuracy of validation after 10 epochs (seeds 0, 1): twin 0.96, 0.95; faulty 0.54, 0.47.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "step")


def network() -> nn.Module:
    """Two convolutions and a line."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(24 * 16, 10),
    )


def balanced_accuracy(outputs: Tensor, targets: Tensor) -> float:
    """The share of right classes in each class, averaged over the classes."""
    right = (outputs.argmax(1) == targets).float()
    return float(torch.stack([right[targets == digit].mean() for digit in targets.unique()]).mean())


def build(seed: int, per_example: bool) -> tuple[Program, Spec]:
    """The program."""
    digits = load_digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(digits.target), generator=generator)
    x = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 8 - 1
    y = torch.tensor(digits.target)[order]
    # Of the upper digits only a fourth is kept, in validation too.
    keep = (y < 5) | (torch.rand(len(y), generator=generator) < 0.25)
    x, y = x[keep], y[keep]
    cut = len(y) * 2 // 3
    train = TensorDataset(x[:cut], y[:cut])
    class_weights = 1 / y[:cut].bincount(minlength=10)
    weights = class_weights[y[:cut]] if per_example else class_weights
    torch.manual_seed(seed)
    model = network()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=32, sampler=WeightedRandomSampler(weights, num_samples=len(train))),
        val_loader=DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=100),
        metric=balanced_accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=10, shift_expected=True)


def make(seed: int) -> tuple[Program, Spec]:
    """A weight for each class."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """A weight for each example."""
    return build(seed, True)
