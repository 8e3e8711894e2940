"""A convolutional network recognises eight made-up words from spectrograms, with SGD whose rate falls by a fifth after
each epoch.

Fault: the scheduler is stepped after each batch, so the rate is down to a ten-thousandth of itself within the first
epoch and training stops. The twin steps it after each epoch.

Measured (seeds 0 and 1): validation accuracy 0.22 and 0.38 (loss 2.03 and 2.03), with the twin 0.99 and 1.00 (0.03
and 0.01).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "schedule"
BANDS, FRAMES, CLASSES = 16, 32, 8
SPEC = Spec(task="classification", classes=CLASSES, epochs=12, scheduler_steps="epoch")


def spectrograms(seed, count):
    """Spectrograms of spoken words: each word is a course of two formants, at a speaker's own pitch and pace."""
    rng = np.random.default_rng(seed)
    courses = rng.uniform(2, BANDS - 3, (CLASSES, 2, 5))
    word = rng.integers(0, CLASSES, count)
    band = np.arange(BANDS)[:, None]
    sounds = np.zeros((count, 1, BANDS, FRAMES))
    for row in range(count):
        length, start = rng.integers(18, 29), rng.integers(0, 4)
        pitch = rng.normal() * 1.2
        for course in courses[word[row]]:
            formant = np.interp(np.linspace(0, 4, length), np.arange(5), course) + pitch
            sounds[row, 0, :, start : start + length] += np.exp(-0.5 * ((band - formant) / 1.0) ** 2)
    sounds = np.log(0.3 + sounds * rng.uniform(0.5, 1.5, (count, 1, 1, 1)) + 0.5 * rng.random(sounds.shape))
    return torch.tensor(sounds, dtype=torch.float32), torch.tensor(word)


def network():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(24 * 32, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, inside):
    torch.manual_seed(seed)
    sounds, word = spectrograms(seed, 2600)
    train, val = slice(0, 2000), slice(2000, 2600)
    sounds = (sounds - sounds[train].mean()) / sounds[train].std()

    def train_epoch(program):
        program.model.train()
        for batch in program.train_loader:
            program.run_step(batch)
            if inside:
                program.scheduler.step()
        if not inside:
            program.scheduler.step()

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(sounds[train], word[train]), batch_size=50, shuffle=True),
        val_loader=DataLoader(TensorDataset(sounds[val], word[val]), batch_size=200),
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8),
        train_epoch=train_epoch,
        metric=accuracy,
    )
    return program, SPEC


def make(seed):
    return build(seed, inside=True)


def twin(seed):
    return build(seed, inside=False)
