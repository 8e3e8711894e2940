"""Triage in an emergency ward: four ordered levels of urgency from eight vital signs, ordinal regression (MLP).

Fault: the levels come as words, and their numbers are taken from the sorted set of words (as `LabelEncoder` or
`np.unique` give them): critical, high, low, moderate. The ordinal loss, one shared score with three thresholds,
takes these for a scale. Each part is right by itself, and for a softmax over classes it would do no harm.

Measured (seeds 0 and 1): validation accuracy 0.60 and 0.59 after 15 epochs; twin 0.73 and 0.70.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)

LEVELS = ("low", "moderate", "high", "critical")
SIGNS = 8


def admissions(count: int, generator: torch.Generator) -> tuple[Tensor, np.ndarray]:
    """Vital signs (standardised) and the word the nurse wrote down."""
    signs = torch.randn(count, SIGNS, generator=generator)
    alarm = 0.9 * signs[:, 0] + 0.7 * signs[:, 1].abs() - 0.8 * signs[:, 2] + 0.5 * signs[:, 3] * signs[:, 4]
    alarm = alarm + 0.4 * torch.randn(count, generator=generator)
    level = torch.bucketize(alarm, torch.tensor([-0.2, 0.8, 1.9]))
    return signs, np.array(LEVELS)[level.numpy()]


def encode(words: np.ndarray, alphabetical: bool) -> Tensor:
    """A number for each word."""
    names = sorted(set(LEVELS)) if alphabetical else LEVELS
    index = {name: number for number, name in enumerate(names)}
    return torch.tensor([index[word] for word in words])


class OrdinalRegression(nn.Module):
    """Logits of "above level k" for each k but the last: one score, a threshold for each k."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(
            nn.Linear(SIGNS, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1, bias=False)
        )
        self.threshold = nn.Parameter(torch.tensor([-1.0, 0.0, 1.0]))

    def forward(self, signs: Tensor) -> Tensor:
        """(batch, signs) -> (batch, levels - 1)."""
        return self.score(signs) - self.threshold


def ordinal_loss(logits: Tensor, level: Tensor) -> Tensor:
    """Cross-entropy of the questions "above level k?"."""
    above = (level[:, None] > torch.arange(len(LEVELS) - 1)).float()
    return F.binary_cross_entropy_with_logits(logits, above)


def accuracy(logits: Tensor, level: Tensor) -> float:
    """Share of patients given their level."""
    return ((logits > 0).sum(1) == level).float().mean().item()


def build(seed: int, alphabetical: bool) -> tuple[Program, Spec]:
    """The program, with the levels in the order of the alphabet or of urgency."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    signs, words = admissions(2500, generator)
    val_signs, val_words = admissions(800, generator)

    model = OrdinalRegression()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=ordinal_loss,
        train_loader=DataLoader(
            TensorDataset(signs, encode(words, alphabetical)), 64, shuffle=True, generator=generator
        ),
        val_loader=DataLoader(TensorDataset(val_signs, encode(val_words, alphabetical)), 200),
        metric=accuracy,
    )
    return program, Spec(epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, alphabetical=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the levels in the order of urgency."""
    return build(seed, alphabetical=False)
