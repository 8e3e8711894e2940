"""A small network tells from windows of one long recording of a pump (five sensors) in which of three states of wear
the pump runs.

Fault: the windows overlap by three quarters and are dealt to training and validation at random, so every validation
window shares most of its points with training windows. The twin validates on the last quarter of the recording, with a
window's length left out in between.

Measured (seeds 0 and 1): the faulty program reports an accuracy of 0.877 and 0.856, while on a fresh recording of
40,000 points it has 0.763 and 0.738; the twin reports 0.686 and 0.795 (its validation holds only some forty runs of a
state) and has 0.721 and 0.745.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "split"
SPEC = Spec(task="classification", classes=3, epochs=15)
WINDOW, STRIDE, SENSORS = 64, 16, 5


def recording(rng, n):
    """Sensor values and the state at each point; temperature, load and the like drift slowly."""
    states = np.empty(n, dtype=np.int64)
    at = 0
    while at < n:
        length = int(rng.integers(150, 400))
        states[at : at + length] = rng.integers(0, 3)
        at += length
    drift = np.zeros((n, SENSORS))
    kick = rng.normal(scale=0.05, size=(n, SENSORS))
    for t in range(1, n):
        drift[t] = 0.997 * drift[t - 1] + kick[t]
    noise = rng.normal(size=(n, SENSORS))
    strength = np.array([[0.85, 0.85, 1.0, 1.0, 1.0], [1.0, 1.0, 0.85, 0.85, 1.0], [1.15, 1.0, 1.0, 1.0, 0.85]])
    return drift + noise * strength[states], states


def windows(values, states):
    starts = range(0, len(values) - WINDOW + 1, STRIDE)
    x = np.stack([values[s : s + WINDOW].T for s in starts])
    y = np.array([np.bincount(states[s : s + WINDOW], minlength=3).argmax() for s in starts])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


class WearNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Sequential(nn.Conv1d(SENSORS, 32, 7, padding=3), nn.ReLU(), nn.MaxPool1d(4))
        self.mixed = nn.Sequential(nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4))
        self.head = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.4), nn.Linear(128, 96), nn.ReLU(), nn.Dropout(0.4), nn.Linear(96, 3)
        )

    def forward(self, x):
        return self.head(self.mixed(self.filters(x)))


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    values, states = recording(rng, 40000)
    values = (values - values[:30000].mean(0)) / values[:30000].std(0)
    if faulty:
        x, y = windows(values, states)
        order = torch.tensor(rng.permutation(len(y)))
        cut = int(0.75 * len(y))
        train = TensorDataset(x[order[:cut]], y[order[:cut]])
        val = TensorDataset(x[order[cut:]], y[order[cut:]])
    else:
        train = TensorDataset(*windows(values[:30000], states[:30000]))
        val = TensorDataset(*windows(values[30000 + WINDOW :], states[30000 + WINDOW :]))
    model = WearNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 256),
        metric=accuracy,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
