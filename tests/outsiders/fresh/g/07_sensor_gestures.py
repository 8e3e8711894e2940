"""Classify gestures from sequences of four accelerometer channels with a GRU.

Fault: `nn.GRU` is made without `batch_first=True`, while batches are (batch, time, channels). It takes the batch for
time: its state runs from sample to sample, and `states[:, -1]` is what it made of each sample's last reading and those
of the samples before it in the batch. Shapes fit all the way, so nothing raises.

Measured (seeds 0 and 1): validation accuracy 0.433 and 0.408 faulty, 0.995 and 0.995 repaired (chance: 0.17).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model", "layers")
EPOCHS = 10
GESTURES, STEPS, CHANNELS = 6, 40, 4


class GestureNet(nn.Module):
    """A GRU over time; the last state is classified."""

    def __init__(self, gru: nn.GRU) -> None:
        super().__init__()
        self.gru = gru
        self.head = nn.Linear(gru.hidden_size, GESTURES)

    def forward(self, readings: Tensor) -> Tensor:
        """Logits for readings of shape (batch, time, channels)."""
        states, _ = self.gru(readings)
        return self.head(states[:, -1])


def _data(count: int, shapes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    labels = torch.randint(GESTURES, (count,), generator=generator)
    time = torch.linspace(0, 1, STEPS)[None, :, None]
    speed = 0.8 + 0.4 * torch.rand(count, 1, 1, generator=generator)
    frequency, phase, slope = shapes[labels].unbind(1)
    signal = torch.sin(2 * torch.pi * (frequency[:, None] * speed * time + phase[:, None])) + slope[:, None] * time
    return signal + 0.6 * torch.randn(count, STEPS, CHANNELS, generator=generator), labels


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def _build(seed: int, *, batch_first: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    scale = torch.tensor([3.0, 1.0, 0.5])[None, :, None]
    shapes = torch.rand(GESTURES, 3, CHANNELS, generator=generator) * scale
    x, y = _data(1000, shapes, generator)
    x_val, y_val = _data(400, shapes, generator)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    model = GestureNet(nn.GRU(CHANNELS, 48, batch_first=batch_first))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            TensorDataset((x - mean) / std, y), 32, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset((x_val - mean) / std, y_val), 50),
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=GESTURES, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, batch_first=False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, batch_first=True)
