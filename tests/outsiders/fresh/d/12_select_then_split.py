"""Few samples, many columns: a classifier of tissue samples by the 30 most telling of 2000 gene readings.

Fault: the 30 columns are chosen by how they differ between the classes over all samples, and only then is a
validation set held out. Among 2000 columns some fit the validation samples by chance and are chosen for it, so
validation accuracy is far too high. The twin chooses with the training samples only.

Measured, reported accuracy on validation, faulty / twin: seed 0: 0.890 / 0.770; seed 1: 0.870 / 0.710.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
SAMPLES, GENES, KEPT = 240, 2000, 30


def tissue(generator):
    """A handful of genes are weakly related to the label."""
    y = torch.arange(SAMPLES) % 2
    x = torch.randn(SAMPLES, GENES, generator=generator)
    x[:, :6] += 0.8 * (y[:, None] - 0.5)
    order = torch.randperm(SAMPLES, generator=generator)
    return x[order], y[order]


def telling(x, y):
    """The columns that differ most between the classes, by Welch's t."""
    a, b = x[y == 0], x[y == 1]
    t = (a.mean(0) - b.mean(0)) / (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
    return t.abs().topk(KEPT).indices


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = tissue(torch.Generator().manual_seed(170 + seed))
    cut = 140
    kept = telling(x[:cut], y[:cut]) if ok else telling(x, y)
    x = x[:, kept]
    centre, spread = x[:cut].mean(0), x[:cut].std(0)
    x = (x - centre) / spread

    model = nn.Sequential(nn.Dropout(0.2), nn.Linear(KEPT, 8), nn.ReLU(), nn.Linear(8, 2))
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.3),
        nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=20, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=100),
        metric=lambda out, labels: float((out.argmax(1) == labels).float().mean()),
    )
    return program, Spec(task="classification", classes=2, epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
