"""Transfer to rare heart beats: a 1-D CNN that was pretrained on eight common kinds of beat gets a new head for five
rare kinds, and is fine-tuned on 400 labelled beats, the backbone with a small rate and the head with a larger one.

Fault: the optimizer is made before the head is replaced. It holds the old head; the new one keeps its random weights,
and only the backbone adapts to it, slowly. The twin replaces the head first.

Measured (seeds 0 and 1): validation accuracy 0.61 and 0.49, the twin 0.96 and 0.88 (guessing 0.20).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "optimizer"
COMMON, RARE, LENGTH = 8, 5, 96
SPEC = Spec(task="classification", classes=RARE, epochs=30)


def beats(rng, kinds, n):
    """Beats of the kinds given: each is a sum of five waves, with jitter and noise."""
    y = rng.integers(0, len(kinds), n)
    t = np.linspace(0, 1, LENGTH)
    place, width, height = np.moveaxis(kinds[y], 2, 0)
    place = place + rng.normal(0, 0.015, place.shape) + rng.normal(0, 0.02, (n, 1))
    height = height * rng.uniform(0.7, 1.3, height.shape)
    waves = height[:, :, None] * np.exp(-(((t - place[:, :, None]) / width[:, :, None]) ** 2))
    x = waves.sum(1) + rng.normal(0, 0.25, (n, LENGTH))
    return torch.tensor(x, dtype=torch.float32)[:, None], torch.tensor(y)


class BeatNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(3),
            nn.Conv1d(16, 32, 5, padding=2),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(4),
            nn.Flatten(),
            nn.Linear(128, 32),
            nn.ReLU(),
        )
        self.head = nn.Linear(32, classes)

    def forward(self, beat):
        return self.head(self.backbone(beat))


def pretrained(x, y, seed):
    model = BeatNet(COMMON)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(x, y), 50, shuffle=True, generator=torch.Generator().manual_seed(seed))
    for _ in range(4):
        for beat, kind in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(beat), kind).backward()
            optimizer.step()
    return model


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    base = np.array([[0.2, 0.04, 0.4], [0.38, 0.02, -0.4], [0.45, 0.02, 2.0], [0.52, 0.02, -0.5], [0.75, 0.07, 0.6]])
    kinds = base + rng.normal(0, 1, (COMMON + RARE, 5, 3)) * np.array([0.02, 0.0, 0.3])
    kinds[:, :, 1] *= rng.uniform(0.7, 1.6, (COMMON + RARE, 5))
    source_x, source_y = beats(rng, kinds[:COMMON], 2000)
    mean, std = source_x.mean(), source_x.std()
    model = pretrained((source_x - mean) / std, source_y, seed)
    x, y = beats(rng, kinds[COMMON:], 1000)
    x = (x - mean) / std

    def make_optimizer():
        return torch.optim.Adam(
            [{"params": model.backbone.parameters(), "lr": 5e-5}, {"params": model.head.parameters(), "lr": 5e-3}]
        )

    torch.manual_seed(seed + 1)
    if faulty:
        optimizer = make_optimizer()
        model.head = nn.Linear(32, RARE)
    else:
        model.head = nn.Linear(32, RARE)
        optimizer = make_optimizer()
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            TensorDataset(x[:400], y[:400]),
            batch_size=25,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(x[400:], y[400:]), batch_size=200),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
