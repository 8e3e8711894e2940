"""Four kinds of motion from 30 steps of a three-axis sensor with a GRU; small batches, gradients of four accumulated.

Fault: the loop sets the gradients to zero before each micro-batch, so a step uses only the last of its four, at a
quarter of its size. The twin sets them to zero after each optimizer step.

Measured (seeds 0 and 1): accuracy in validation 0.86 and 0.79; the twin's 0.91 and 0.97.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "step"
ACCUMULATE = 4
SPEC = Spec(task="classification", classes=4, epochs=10, accumulate=ACCUMULATE)


def motions(n, rng, steps=30):
    """Sensor traces (n, steps, 3) of walking, running, climbing and turning, with noise and a random phase."""
    labels = rng.integers(0, 4, n)
    t = np.arange(steps) / 10
    phase, speed = rng.uniform(0, 2 * np.pi, (n, 1)), rng.normal(1, 0.12, (n, 1))
    pace = np.array([1.0, 1.7, 1.0, 0.5])[labels][:, None] * speed * 2 * np.pi * t + phase
    lag = np.array([0.0, 0.6, 1.5, 0.0])[labels][:, None]
    traces = np.stack([np.sin(pace), np.sin(pace + lag), 0.6 * np.sin(2 * pace + lag)], axis=2)
    traces += rng.normal(0, 0.6, traces.shape)
    return TensorDataset(torch.tensor(traces, dtype=torch.float32), torch.from_numpy(labels))


class MotionNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.gru = nn.GRU(3, hidden, batch_first=True)
        self.head = nn.Linear(2 * hidden, 4)

    def forward(self, traces):
        states, _ = self.gru(traces)
        return self.head(torch.cat([states.mean(dim=1), states.amax(dim=1)], dim=1))


def train_forgetting(program):
    program.model.train()
    for i, (traces, labels) in enumerate(program.train_loader):
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(traces), labels) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            program.optimizer.step()


def train_accumulating(program):
    program.model.train()
    program.optimizer.zero_grad()
    for i, (traces, labels) in enumerate(program.train_loader):
        loss = program.loss_fn(program.model(traces), labels) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            program.optimizer.step()
            program.optimizer.zero_grad()


def build(seed, train_epoch):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = motions(768, rng), motions(500, rng)
    model = MotionNet()
    return Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=16, shuffle=True, drop_last=True),
        val_loader=DataLoader(val, batch_size=100),
        train_epoch=train_epoch,
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, train_forgetting), SPEC


def twin(seed):
    return build(seed, train_accumulating), SPEC
