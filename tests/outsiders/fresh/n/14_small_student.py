"""A small network learns from a large teacher's logits on 1000 examples of ten overlapping kinds, by distillation with
temperature 4.

Fault: the temperature is used the wrong way round: the teacher's logits are multiplied by it, which makes them
almost one-hot, and the student's are left as they are. The twin divides both by it.

Measured (seeds 0 and 1): cross-entropy with the true kinds in validation 1.44 and 1.81 (accuracy 0.71 and 0.64),
with the twin 0.81 and 0.99 (0.73 and 0.67).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
CLASSES, FEATURES, TEMPERATURE = 10, 12, 4.0
SPEC = Spec(classes=CLASSES, epochs=60)


def samples(seed, count):
    """Ten kinds that overlap."""
    rng = np.random.default_rng(seed)
    centres = 1.1 * rng.normal(size=(CLASSES, 2, FEATURES))
    kind = rng.integers(0, CLASSES, count)
    features = centres[kind, rng.integers(0, 2, count)] + rng.normal(size=(count, FEATURES)) * 1.3
    return torch.tensor(features, dtype=torch.float32), torch.tensor(kind)


def mlp(width):
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
    )


def teacher_of(features, kind):
    """A wide network, trained with labels."""
    teacher = mlp(160)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3, weight_decay=0.1)
    for _ in range(6):
        for chosen in torch.randperm(len(kind)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(teacher(features[chosen]), kind[chosen]).backward()
            optimizer.step()
    return teacher.eval()


class Distillation(nn.Module):
    """Divergence of the student from the teacher, both at a temperature."""

    def __init__(self, student_temperature, teacher_temperature):
        super().__init__()
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature

    def forward(self, student, teacher):
        student = nn.functional.log_softmax(student / self.student_temperature, 1)
        teacher = nn.functional.softmax(teacher / self.teacher_temperature, 1)
        return self.student_temperature**2 * nn.functional.kl_div(student, teacher, reduction="batchmean")


def evaluate(program):
    """Accuracy and cross-entropy of the student with the true kinds."""
    program.model.eval()
    right, loss, count = 0, 0.0, 0
    with torch.no_grad():
        for features, _, kind in program.val_loader:
            outputs = program.outputs(features)
            right += (outputs.argmax(1) == kind).sum().item()
            loss += nn.functional.cross_entropy(outputs, kind, reduction="sum").item()
            count += len(kind)
    return {"accuracy": right / count, "cross_entropy": loss / count}


def build(seed, student_temperature, teacher_temperature):
    torch.manual_seed(seed)
    features, kind = samples(seed, 10_400)
    labelled, train, val = slice(0, 8000), slice(8000, 9000), slice(9000, 10_400)
    features = (features - features[labelled].mean(0)) / features[labelled].std(0)
    teacher = teacher_of(features[labelled], kind[labelled])
    with torch.no_grad():
        guidance = teacher(features)
    model = mlp(48)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        loss_fn=Distillation(student_temperature, teacher_temperature),
        train_loader=DataLoader(
            TensorDataset(features[train], guidance[train], kind[train]), batch_size=50, shuffle=True
        ),
        val_loader=DataLoader(TensorDataset(features[val], guidance[val], kind[val]), batch_size=700),
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, student_temperature=1.0, teacher_temperature=1 / TEMPERATURE)


def twin(seed):
    return build(seed, student_temperature=TEMPERATURE, teacher_temperature=TEMPERATURE)
