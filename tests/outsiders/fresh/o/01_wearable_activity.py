"""Activity recognition from a wrist sensor: windows of six channels in physical units, five activities, a small 1-D
CNN. The people in validation are not in training, and each recording is stored in the order in which it was made.

Fault: the collate function of the validation loader standardises each batch with that batch's own mean and standard
deviation; the weights were trained on inputs that are standardised with the training set's. A batch of a recording
holds one to three activities, so that what tells them apart (tilt, amplitude) is scaled away. The twin uses the
training set's statistics in both loaders.

Measured (seeds 0 and 1): validation accuracy 0.71 and 0.70, the twin 1.00 and 1.00 (training accuracy 1.00 in both;
guessing 0.20).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
ACTIVITIES, BOUT, LENGTH = 5, 20, 50
GROUPS = {"train": np.repeat(np.arange(30), ACTIVITIES * BOUT), "val": np.repeat(np.arange(30, 42), ACTIVITIES * BOUT)}
SPEC = Spec(
    task="classification",
    classes=ACTIVITIES,
    epochs=8,
    train_groups=GROUPS["train"].tolist(),
    val_groups=GROUPS["val"].tolist(),
)


def recordings(rng, people):
    """Windows (n, 6, LENGTH) and activities: lying, sitting, walking, running, cycling."""
    tilt = np.array([[0.5, 0.2, 9.7], [3.0, 8.8, 3.0], [1.0, 9.6, 1.0], [2.0, 9.2, 2.5], [7.0, 6.5, 2.0]])
    swing = np.array([0.05, 0.15, 1.6, 5.0, 0.9])
    pace = np.array([0.3, 0.4, 1.8, 2.7, 1.3])
    x, y = [], []
    seconds = np.arange(LENGTH) / 25
    for _ in range(people):
        offset, gain, speed = rng.normal(0, 0.5, 3), rng.uniform(0.75, 1.3), rng.uniform(0.9, 1.1)
        for activity in rng.permutation(ACTIVITIES):
            for _ in range(BOUT):
                phase = rng.uniform(0, 2 * np.pi, 6)
                wave = np.sin(2 * np.pi * pace[activity] * speed * seconds[None] + phase[:, None])
                window = wave * swing[activity] * gain * np.array([1, 1, 1, 20, 20, 20])[:, None]
                window[:3] += (tilt[activity] + offset + rng.normal(0, 0.6, 3))[:, None]
                window += rng.normal(0, 1, window.shape) * np.array([0.4, 0.4, 0.4, 6, 6, 6])[:, None]
                x.append(window)
                y.append(activity)
    return torch.tensor(np.array(x), dtype=torch.float32), torch.tensor(np.array(y))


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train = TensorDataset(*recordings(rng, 30))
    val = TensorDataset(*recordings(rng, 12))
    mean = train.tensors[0].mean((0, 2), keepdim=True)
    std = train.tensors[0].std((0, 2), keepdim=True)

    def collate(samples):
        x = torch.stack([window for window, _ in samples])
        return (x - mean) / std, torch.stack([activity for _, activity in samples])

    def collate_val(samples):
        x = torch.stack([window for window, _ in samples])
        x = (x - x.mean((0, 2), keepdim=True)) / x.std((0, 2), keepdim=True) if faulty else (x - mean) / std
        return x, torch.stack([activity for _, activity in samples])

    model = nn.Sequential(
        nn.Conv1d(6, 24, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(24, 32, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, ACTIVITIES),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            train, batch_size=32, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(val, batch_size=32, collate_fn=collate_val),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
