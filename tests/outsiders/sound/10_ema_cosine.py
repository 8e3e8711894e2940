"""Digits under heavy augmentation, with a cosine classifier, warm-up and averaged weights that are evaluated.

Unusual: the model holds two networks. Training mode runs the first; evaluation mode runs the second, a moving average
of it that gets no gradients (declared frozen) and is updated after each optimizer step. The logits are cosines times
a fixed scale of 16, so that the loss has a floor. Training pictures are shifted, dimmed, noisy and lose a square, so
that the training loss stays well above that of validation; the plain pictures are in plain_loader. The rate begins
near zero (warm-up) and falls by a cosine, after each batch.

Metric: accuracy of validation (0.1 for a constant answer).
Measured after 24 epochs: seed 0: loss 0.09484, metric 0.9775; seed 1: loss 0.133, metric 0.96.
"""

import copy
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, linear, normalize, pad
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

DECAY = 0.97


class Cosine(nn.Module):
    def __init__(self, width, classes, scale=16.0):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(classes, width))
        self.scale = scale

    def forward(self, x):
        return self.scale * linear(normalize(x, dim=1), normalize(self.prototypes, dim=1))


class Averaged(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.average = copy.deepcopy(net).requires_grad_(False)

    def forward(self, x):
        return self.net(x) if self.training else self.average(x)

    @torch.no_grad()
    def update(self):
        for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
            mean.lerp_(now, 1 - DECAY)


def augment(rows, generator):
    images, labels = torch.utils.data.default_collate(rows)
    out = torch.empty_like(images)
    draws = torch.randint(3, (len(images), 2), generator=generator)
    corners = torch.randint(7, (len(images), 2), generator=generator)
    padded = pad(images, (1, 1, 1, 1))
    for i, ((dy, dx), (y, x)) in enumerate(zip(draws.tolist(), corners.tolist(), strict=True)):
        out[i] = padded[i, :, dy : dy + 8, dx : dx + 8]
        out[i, :, y : y + 2, x : x + 2] = 0
    out *= 0.6 + 0.4 * torch.rand(len(images), 1, 1, 1, generator=generator)
    return out + 0.1 * torch.randn(out.shape, generator=generator), labels


def train_epoch(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
        program.model.update()
        program.scheduler.step()


def metric(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


def make(seed):
    torch.manual_seed(seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    train = TensorDataset(images[order[:1397]], labels[order[:1397]])
    val = TensorDataset(images[order[1397:]], labels[order[1397:]])
    noise, shuffle = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    loader = DataLoader(train, 64, shuffle=True, generator=shuffle, collate_fn=lambda rows: augment(rows, noise))
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, 48), Cosine(48, 10),
    )  # fmt: skip
    model = Averaged(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    epochs = 24
    warm, total = 2 * len(loader), epochs * len(loader)

    def factor(i):
        return (i + 1) / warm if i < warm else 0.5 * (1 + math.cos(math.pi * min(1.0, (i - warm) / (total - warm))))

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=cross_entropy,
        train_loader=loader,
        val_loader=DataLoader(val, 200),
        plain_loader=DataLoader(train, 64),
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, factor),
        train_epoch=train_epoch,
        metric=metric,
    )
    return program, Spec(
        task="classification", classes=10, epochs=epochs, frozen=("average.*",), scheduler_steps="batch"
    )
