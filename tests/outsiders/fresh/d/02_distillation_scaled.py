"""Distillation: a small student learns the digits from a larger teacher's softened outputs, in bfloat16 with a loss
scale.

Fault: the step clips the gradients to norm 1 before it divides them by the loss scale (128) - what one gets by adding
`clip_grad_norm_` to a mixed precision loop without `unscale_` in front of it. Every step is thus clipped to a norm of
at most 1/128. The loss goes down all the same, slowly and very smoothly.

Measured, accuracy of the student on validation (higher is better), faulty / twin: seed 0: 0.720 / 0.974; seed 1:
0.819 / 0.976.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
SCALE, MAX_NORM, HEAT = 128.0, 1.0, 3.0


def teach(x, y):
    """A teacher trained on the hard labels."""
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(15):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(teacher(x[rows]), y[rows]).backward()
            optimizer.step()
    return teacher.eval().requires_grad_(False)


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 8 - 0.6
    y = torch.tensor(data.target)
    rows, held = train_test_split(torch.arange(len(x)), test_size=0.3, random_state=seed, stratify=data.target)
    teacher = teach(x[rows], y[rows])
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)

    def step(program, batch):
        images, labels = batch
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = program.model(images).float()
        soft = F.kl_div(F.log_softmax(out / HEAT, 1), F.softmax(teacher(images) / HEAT, 1), reduction="batchmean")
        loss = 0.7 * HEAT**2 * soft + 0.3 * program.loss_fn(out, labels)

        program.optimizer.zero_grad()
        (loss * SCALE).backward()
        parameters = list(program.model.parameters())
        if not ok:
            nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        for parameter in parameters:
            parameter.grad.div_(SCALE)
        if ok:
            nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        program.optimizer.step()
        return loss.detach()

    def accuracy(out, labels):
        return float((out.argmax(1) == labels).float().mean())

    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        student,
        optimizer,
        nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[rows], y[rows]), batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(x[held], y[held]), batch_size=180),
        step=step,
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=25, max_norm=MAX_NORM)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
