"""Ordinal regression: five grades of wear from 16 sensor readings, by a network with cumulative thresholds.

Fault: the little data is enlarged to eight times by slightly jittered copies, and only then split at random into
training and validation: practically every validation record has siblings in training, whose grade - the graders'
whims included - the network remembers. The twin splits first and enlarges training only.

Measured, reported share of exact grades on validation, faulty / twin (the faulty figure is the leak): seed 0: 0.676 /
0.512; seed 1: 0.653 / 0.488.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
READINGS, GRADES, COPIES = 16, 5, 8


class OrdinalNet(nn.Module):
    """Gives for each threshold between grades the logit that the grade lies above it."""

    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(
            nn.Linear(READINGS, 96),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(96, 48),
            nn.ReLU(),
            nn.Linear(48, 1, bias=False),
        )
        self.first = nn.Parameter(torch.tensor(-1.5))
        self.gaps = nn.Parameter(torch.zeros(GRADES - 2))

    def forward(self, x):
        thresholds = torch.cat([self.first[None], self.first + F.softplus(self.gaps).cumsum(0)])
        return self.score(x) - thresholds


def ordinal_loss(logits, grade):
    above = (grade[:, None] > torch.arange(GRADES - 1)).float()
    return F.binary_cross_entropy_with_logits(logits, above)


def exact(logits, grade):
    return float(((logits > 0).sum(1) == grade).float().mean())


def machines(count, generator):
    x = torch.randn(count, READINGS, generator=generator)
    wear = x[:, 0] + 0.7 * x[:, 1] - 0.6 * x[:, 2] + 0.8 * torch.randn(count, generator=generator)
    return x, torch.bucketize(wear, torch.tensor([-1.4, -0.4, 0.4, 1.4]))


def enlarge(x, grade, generator):
    copies = x.repeat(COPIES, 1)
    return copies + 0.1 * torch.randn(copies.shape, generator=generator), grade.repeat(COPIES)


def split(x, grade, generator):
    order = torch.randperm(len(x), generator=generator)
    cut = int(0.7 * len(x))
    return (x[order[:cut]], grade[order[:cut]]), (x[order[cut:]], grade[order[cut:]])


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(160 + seed)
    x, grade = machines(700, generator)
    if ok:
        train, val = split(x, grade, generator)
        train = enlarge(*train, generator)
    else:
        train, val = split(*enlarge(x, grade, generator), generator)

    model = OrdinalNet()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05),
        ordinal_loss,
        train_loader=DataLoader(TensorDataset(*train), batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(*val), batch_size=200),
        metric=exact,
    )
    return program, Spec(epochs=10)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
