"""Digits with a small CNN, batch norm and label smoothing; a moving average of the weights is what is evaluated.

Fault: the hand-written moving average goes over `parameters()` only. The running means and variances of the batch
norms are buffers: in the averaged copy they stay at 0 and 1, as on the first day. Nothing crashes; the model that is
trained is fine, the one that is evaluated (and would be shipped) normalises by statistics that are not those of its
data.

Validation accuracy after 8 epochs (seeds 0, 1): twin 0.98, 0.98; faulty 0.80, 0.74.
"""

from __future__ import annotations

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Batch, Program, Spec

PART = ("step", "model")
DECAY = 0.95


class Ema:
    """A copy of a model that follows it slowly."""

    def __init__(self, model: nn.Module, buffers: bool) -> None:
        self.model, self.buffers = copy.deepcopy(model).eval(), buffers

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Go a little towards the model."""
        for mine, its in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(its, 1 - DECAY)
        if self.buffers:
            for mine, its in zip(self.model.buffers(), model.buffers(), strict=True):
                mine.copy_(its)


def network() -> nn.Module:
    """Two convolutions, each with batch norm."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )


def build(seed: int, buffers: bool) -> tuple[Program, Spec]:
    """The program."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(digits.images, dtype=torch.float32)[order, None]  # 0 .. 16: the first batch norm takes care of it
    y = torch.tensor(digits.target)[order]
    torch.manual_seed(seed)
    model = network()
    ema = Ema(model, buffers)

    def step(program: Program, batch: Batch) -> None:
        images, labels = program.parts(batch)
        program.optimizer.zero_grad()
        F.cross_entropy(program.outputs(images), labels, label_smoothing=0.1).backward()
        program.optimizer.step()
        ema.update(program.model)

    def evaluate(program: Program) -> dict[str, float]:
        loss = right = count = 0.0
        with torch.no_grad():
            for batch in program.val_loader:
                images, labels = program.parts(batch)
                outputs = ema.model(images)
                loss += float(F.cross_entropy(outputs, labels, reduction="sum"))
                right += float((outputs.argmax(1) == labels).sum())
                count += len(labels)
        return {"loss": loss / count, "metric": right / count}

    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1),
        train_loader=DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=32, shuffle=True, drop_last=True),
        val_loader=DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=100),
        step=step,
        evaluate=evaluate,
        metric=lambda outputs, targets: float((outputs.argmax(1) == targets).float().mean()),
    )
    return program, Spec(task="classification", classes=10, epochs=8, mixes_labels=True)


def make(seed: int) -> tuple[Program, Spec]:
    """The averaged copy has the buffers of the first day."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The averaged copy takes the buffers along."""
    return build(seed, True)
