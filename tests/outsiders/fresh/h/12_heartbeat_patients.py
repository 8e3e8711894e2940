"""A 1-d convolutional network tells ill from healthy by single heartbeats, 20 beats from each patient.

Fault: the beats are split at random into training and validation, and not the patients, so that each patient is on both
sides. All beats of a patient look alike and have the same label: the network recognises the patients, and validation
rewards it. The reported accuracy is too high for patients that are new.

Measured (seeds 0 and 1): reported accuracy 0.938 and 0.938 faulty, 0.668 and 0.907 repaired (validated on 30
patients only, which scatters). On 120 newly drawn patients the faulty program's network has about 0.82 (both).
"""

from __future__ import annotations

import torch
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
EPOCHS = 20
PATIENTS, BEATS, LENGTH = 120, 20, 48


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(1, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * LENGTH // 4, 2),
    )  # fmt: skip


def _beats(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    time = torch.linspace(0, 1, LENGTH)
    patient = torch.arange(PATIENTS).repeat_interleave(BEATS)
    ill = (torch.arange(PATIENTS) % 2)[torch.randperm(PATIENTS, generator=generator)]
    spike = 2 * torch.exp(-(((time - 0.4) / 0.04) ** 2))
    wave = torch.exp(-(((time - 0.7) / 0.08) ** 2))
    # Each patient has a curve of his own: a few sines of random height and phase.
    height = 0.42 * torch.randn(PATIENTS, 5, 1, generator=generator)
    phase = 6.3 * torch.rand(PATIENTS, 5, 1, generator=generator)
    own = (height * torch.sin(6.3 * torch.arange(1, 6).view(1, 5, 1) * time + phase)).sum(1)
    curve = spike + (1.1 - 0.65 * ill.unsqueeze(1)) * wave + own
    beats = curve[patient] + 0.25 * torch.randn(len(patient), LENGTH, generator=generator)
    return beats.unsqueeze(1), ill[patient], patient


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def _build(seed: int, splitter: ShuffleSplit | GroupShuffleSplit) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y, patient = _beats(seed)
    train, val = next(splitter.split(x, y, groups=patient))
    x = (x - x[train].mean()) / x[train].std()
    model = _network()
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[train], y[train]), 50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), 250),
        metric=_accuracy,
    )
    spec = Spec(
        task="classification",
        classes=2,
        epochs=EPOCHS,
        train_groups=patient[train].tolist(),
        val_groups=patient[val].tolist(),
    )
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, ShuffleSplit(1, test_size=0.25, random_state=seed))


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, GroupShuffleSplit(1, test_size=0.25, random_state=seed))
