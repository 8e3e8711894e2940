"""The weights are initialised after the pretrained ones were loaded instead of before: the frozen backbone that a small
head is fine-tuned on is a random one.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)
EPOCHS, LENGTH = 40, 64


class Classifier(nn.Module):
    """A convolutional backbone for signals and a linear head."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(1, 16, 9, stride=2, padding=4),
            nn.ReLU(),
            nn.Conv1d(16, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(16, 16, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv1d):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(module.bias)


def tones(count: int, pitches: list[float], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy tones of any phase; the class is the pitch."""
    y = torch.randint(0, len(pitches), (count,), generator=generator)
    pitch = torch.tensor(pitches)[y] + 0.2 * torch.randn(count, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator)
    x = torch.sin(2 * math.pi * pitch[:, None] * torch.linspace(0, 1, LENGTH) + phase)
    return (x + 0.7 * torch.randn(x.shape, generator=generator))[:, None], y


def pretrained(generator: torch.Generator) -> dict[str, Tensor]:
    """Weights of a backbone that has learnt to tell ten other pitches apart."""
    model = Classifier(10)
    x, y = tones(2000, [2 + 1.6 * i for i in range(10)], generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(10):
        for chosen in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return model.backbone.state_dict()


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, load_last: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    weights = pretrained(generator)
    model = Classifier(5)
    if load_last:
        model.apply(initialise)
        model.backbone.load_state_dict(weights)
    else:
        model.backbone.load_state_dict(weights)
        model.apply(initialise)
    model.backbone.requires_grad_(False)
    pitches = [3.5, 6.0, 8.5, 11.0, 13.5]
    train, val = TensorDataset(*tones(400, pitches, generator)), TensorDataset(*tones(800, pitches, generator))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.head.parameters(), lr=1e-2),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=5, epochs=EPOCHS, frozen=("backbone.*",))


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, load_last=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, load_last=True)
