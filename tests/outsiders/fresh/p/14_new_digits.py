"""Transfer: a small convolutional network with batch normalisation has learned the digits 0 to 4, its backbone is
frozen, and a new head learns the digits 5 to 9. They come on sheets of handwriting practice, one digit six times on
each; the network sees one sheet at a time and is stepped after six sheets. Validation has other sheets.

Fault: each epoch begins with model.train() and nothing more, so that the frozen backbone normalises by the sheet at
hand and its running statistics move on. The twin puts the backbone into evaluation mode after it.

Measured (seeds 0 and 1): validation accuracy 0.15 and 0.21 (guessing: 0.2), the twin's 0.94 and 0.90.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "step"
MEAN, STD = 4.9, 6.0  # of the digits' grey values, as in pretraining
SHEET, TRAINING, VALIDATION, TOGETHER = 6, 96, 48, 6  # scans on a sheet, sheets, sheets for each step
SPEC = Spec(
    task="classification",
    classes=5,
    epochs=25,
    accumulate=TOGETHER,
    frozen=("backbone.*",),
    input_mean=(MEAN,),
    input_std=(STD,),
    train_groups=tuple(np.repeat(np.arange(TRAINING), SHEET).tolist()),
    val_groups=tuple(np.repeat(np.arange(TRAINING, TRAINING + VALIDATION), SHEET).tolist()),
)


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class Net(nn.Module):
    """A backbone and a linear head."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            block(1, 16),
            block(16, 32),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


def pretrain(model, x, y, stream):
    """Five epochs on the old digits."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(5):
        for inputs, targets in DataLoader(TensorDataset(x, y), 64, shuffle=True, drop_last=True, generator=stream):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


class Sheets:
    """Batches of one sheet each, in a new order in each epoch."""

    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        for sheet in torch.randperm(TRAINING, generator=self.stream).tolist():
            yield list(range(sheet * SHEET, (sheet + 1) * SHEET))

    def __len__(self):
        return TRAINING


def train_epoch(faulty):
    def epoch(program):
        program.model.train()
        if not faulty:
            program.model.backbone.eval()
        program.optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(program.train_loader, 1):
            (program.loss_fn(program.model(inputs), targets) / TOGETHER).backward()
            if number % TOGETHER == 0:
                program.optimizer.step()
                program.optimizer.zero_grad()

    return epoch


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    stream = torch.Generator().manual_seed(seed)
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor((images.reshape(-1, 1, 8, 8) - MEAN) / STD, dtype=torch.float32)
    y = torch.tensor(labels)
    model = Net()
    pretrain(model, x[y < 5], y[y < 5], stream)
    model.backbone.requires_grad_(False)
    model.head = nn.Linear(64, 5)
    rows = [rng.permutation(np.flatnonzero(labels == digit)) for digit in range(5, 10)]
    sheets = np.concatenate([found[: len(found) // SHEET * SHEET].reshape(-1, SHEET) for found in rows])
    order = rng.permutation(len(sheets))[: TRAINING + VALIDATION]
    train, val = (
        TensorDataset(x[kept], y[kept] - 5)
        for kept in (torch.tensor(sheets[part].flatten()) for part in (order[:TRAINING], order[TRAINING:]))
    )
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.head.parameters(), lr=5e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_sampler=Sheets(stream)),
        val_loader=DataLoader(val, 96),
        train_epoch=train_epoch(faulty),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
