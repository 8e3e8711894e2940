"""Six spoken commands: a command of 8 frames somewhere in a recording of 15 to 40 frames of background. Convolutions
over time, attention pooling over the recording's frames, and a linear head. Inputs are frames and lengths.

Fault: the attention's mask is inverted: the recording's frames are hidden and the filled-up ones stay. The twin
hides those beyond the recording's end.

Measured (seeds 0 and 1): validation accuracy 0.29 and 0.27 (guessing: 0.17), the twin's 0.94 and 0.95.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "layers"
SPEC = Spec(task="classification", classes=6, epochs=10)
LONGEST, BANDS, COMMAND = 40, 12, 8


def recordings(rng, n, shapes):
    """Frames (filled up with zeros), lengths and commands."""
    x = np.zeros((n, LONGEST, BANDS), np.float32)
    length, label = rng.integers(15, LONGEST + 1, n), rng.integers(0, len(shapes), n)
    for row in range(n):
        x[row, : length[row]] = rng.normal(size=(length[row], BANDS))
        start = rng.integers(0, length[row] - COMMAND + 1)
        x[row, start : start + COMMAND] += shapes[label[row]] * rng.uniform(0.7, 1.3)
    return TensorDataset(torch.tensor(x), torch.tensor(length), torch.tensor(label))


class Listener(nn.Module):
    """Convolutions, attention pooling, head."""

    def __init__(self, faulty):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv1d(BANDS, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU()
        )
        self.score = nn.Linear(32, 1)
        self.head = nn.Linear(32, 6)
        self.faulty = faulty

    def forward(self, frames, lengths):
        hidden = self.convolutions(frames.transpose(1, 2)).transpose(1, 2)
        beyond = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
        hide = ~beyond if self.faulty else beyond
        weights = self.score(hidden).squeeze(-1).masked_fill(hide, -1e4).softmax(1)
        return self.head((weights.unsqueeze(-1) * hidden).sum(1))


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shapes = np.cumsum(rng.normal(size=(6, COMMAND, BANDS)), 1) * 0.25
    shapes -= shapes.mean((1, 2), keepdims=True)
    model = Listener(faulty)
    stream = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(recordings(rng, 2400, shapes), 64, shuffle=True, generator=stream),
        val_loader=DataLoader(recordings(rng, 800, shapes), 200),
        unpack=lambda batch: ((batch[0], batch[1]), batch[2]),
        forward=lambda model, inputs: model(*inputs),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
