"""A network with batch norm and strong dropout classifies 8x8 digits from noisy images.

Fault: `model.train()` is called once, before the first epoch, and the validation at the end of every epoch calls
`model.eval()` without going back. It comes about when a validation is added to a loop that had none. From the second
epoch on dropout is off and batch norm uses (and never again updates) the running statistics of the first epoch.

Measured (seeds 0 and 1): validation loss 0.73 and 0.84 faulty, 0.53 and 0.61 repaired (over-confident);
accuracy 0.817 and 0.803 faulty, 0.831 and 0.808 repaired.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
EPOCHS = 25


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10),
    )  # fmt: skip


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    images, labels = load_digits(return_X_y=True)
    generator = torch.Generator().manual_seed(seed)
    x = torch.tensor(images, dtype=torch.float32) / 16
    x = x + 0.35 * torch.randn(x.shape, generator=generator)
    y = torch.tensor(labels)
    train, val = train_test_split(range(len(y)), train_size=900, random_state=seed, stratify=labels)
    mean, std = x[train].mean(), x[train].std()
    x = (x - mean) / std
    train_set, val_set = TensorDataset(x[train], y[train]), TensorDataset(x[val], y[val])
    return DataLoader(train_set, 32, shuffle=True, generator=generator), DataLoader(val_set, 256)


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def _validate(program: Program) -> dict[str, float]:
    program.model.eval()
    with torch.no_grad():
        logits, labels = zip(*((program.model(x), y) for x, y in program.val_loader), strict=True)
        outputs, targets = torch.cat(logits), torch.cat(labels)
        return {"loss": program.loss_fn(outputs, targets).item(), "metric": _accuracy(outputs, targets)}


def _train_epoch(program: Program) -> None:
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step(_validate(program)["loss"])


def _train_epoch_repaired(program: Program) -> None:
    program.model.train()
    _train_epoch(program)


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = _network()
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=train_loader,
        val_loader=val_loader,
        scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=10),
        train_epoch=_train_epoch,
        evaluate=_validate,
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=EPOCHS, scheduler_steps="epoch")


def twin(seed: int) -> tuple[Program, Spec]:
    program, spec = make(seed)
    program.train_epoch = _train_epoch_repaired
    return program, spec
