"""Handwritten digits with a small convolutional network with dropout, and the author's own evaluation loop.

Training is an own epoch loop with Adam; the evaluation reports the mean loss and the accuracy over the validation
images.

Fault: the evaluation loop is under no_grad but does not call model.eval(), so that the dropout layers still drop half
of the units while validating. The twin switches to evaluation mode and back.

Measured (seeds 0 and 1): reported accuracy 0.929 and 0.924 with the fault, 0.969 and 0.971 in the twin.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric", "model")


def build(seed: int, switch: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)
    y = torch.tensor(digits.target)
    train, val = train_test_split(torch.arange(len(y)), test_size=0.25, stratify=y, random_state=seed)
    x = (x - x[train].mean()) / x[train].std()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.25),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )

    def train_epoch(program):
        program.model.train()
        for images, labels in program.train_loader:
            program.optimizer.zero_grad()
            loss = program.loss_fn(program.model(images), labels)
            loss.backward()
            program.optimizer.step()

    @torch.no_grad()
    def evaluate(program):
        if switch:
            program.model.eval()
        loss, right, count = 0.0, 0, 0
        for images, labels in program.val_loader:
            out = program.model(images)
            loss += float(F.cross_entropy(out, labels, reduction="sum"))
            right += int((out.argmax(1) == labels).sum())
            count += len(labels)
        if switch:
            program.model.train()
        return {"loss": loss / count, "accuracy": right / count}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), batch_size=150),
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    return program, Spec(task="classification", classes=10, epochs=8)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, switch=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, switch=True)
