"""The teacher's answers for distillation are cached by going through a shuffled loader, but are stored beside the
examples in their own order: the student gets the soft labels of other pictures.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
EPOCHS, TEMPERATURE, SHARE = 40, 2.0, 0.5
Batch = tuple[Tensor, Tensor, Tensor]


def train_teacher(x: Tensor, y: Tensor, generator: torch.Generator) -> nn.Module:
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3, weight_decay=1e-2)
    for _ in range(25):
        for chosen in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(teacher(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return teacher.eval()


@torch.no_grad()
def cache(teacher: nn.Module, x: Tensor, generator: torch.Generator, shuffle: bool) -> Tensor:
    """The teacher's logits for all pictures."""
    loader = DataLoader(TensorDataset(x), batch_size=100, shuffle=shuffle, generator=generator)
    return torch.cat([teacher(pictures) for (pictures,) in loader])


def unpack(batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return batch[0], (batch[1], batch[2])


def distillation(outputs: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
    """Half the labels, half the softened answers of the teacher."""
    labels, teacher = targets
    soft = F.kl_div(
        F.log_softmax(outputs / TEMPERATURE, dim=1), F.softmax(teacher / TEMPERATURE, dim=1), reduction="batchmean"
    )
    return (1 - SHARE) * F.cross_entropy(outputs, labels) + SHARE * TEMPERATURE**2 * soft


def evaluate(program: Program) -> dict[str, float]:
    """Cross-entropy and accuracy of the student with respect to the labels."""
    was = program.model.training
    program.model.eval()
    with torch.no_grad():
        found = [(program.outputs(batch[0]), batch[1]) for batch in program.val_loader]
    program.model.train(was)
    outputs, labels = (torch.cat(part) for part in zip(*found, strict=True))
    return {
        "loss": float(F.cross_entropy(outputs, labels)),
        "accuracy": float((outputs.argmax(1) == labels).float().mean()),
    }


def build(seed: int, shuffle: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    pictures, digits = load_digits(return_X_y=True)
    order = torch.randperm(len(pictures), generator=generator)
    x, y = torch.tensor(pictures, dtype=torch.float32)[order], torch.tensor(digits)[order]
    x = (x - x[:1000].mean()) / x[:1000].std()
    teacher = train_teacher(x[:1000], y[:1000], generator)
    train = TensorDataset(x[:1000], y[:1000], cache(teacher, x[:1000], generator, shuffle))
    val = TensorDataset(x[1000:], y[1000:], cache(teacher, x[1000:], generator, shuffle=False))
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    program = Program(
        model=student,
        optimizer=torch.optim.Adam(student.parameters(), lr=2e-3),
        loss_fn=distillation,
        train_loader=DataLoader(train, batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        unpack=unpack,
        evaluate=evaluate,
    )
    return program, Spec(epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, shuffle=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, shuffle=False)
