"""A small convolutional network with batch normalisation tells the ten handwritten digits of scikit-learn apart.
Training images are shifted by up to a pixel; the rate follows a cosine.

Fault: the training images are normalised with the training set's mean and standard deviation, and the validation
images are not: they come as grey values from 0 to 16. The twin normalises both alike.

Measured (seeds 0 and 1): validation accuracy 0.86 and 0.62 (loss 0.89 and 3.43), with the twin 0.98 and 0.97 (0.14
and 0.15). The faulty program's network gets the twin's figures once the images are normalised.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="classification", classes=10, epochs=10, scheduler_steps="epoch")


class Digits(Dataset):
    """Images of digits, shifted by up to a pixel where `shift` is set."""

    def __init__(self, images, labels, shift=False, normalize=None):
        self.images = torch.tensor(images, dtype=torch.float32).unsqueeze(1)
        self.labels = torch.tensor(labels, dtype=torch.long)
        self.shift = shift
        self.normalize = normalize

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.shift:
            dy, dx = torch.randint(0, 3, (2,)).tolist()
            image = nn.functional.pad(image, (1, 1, 1, 1))[:, dy : dy + 8, dx : dx + 8]
        if self.normalize is not None:
            mean, std = self.normalize
            image = (image - mean) / std
        return image, self.labels[index]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 4, 10),
    )


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, same_preparation):
    torch.manual_seed(seed)
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    train, val = order[:1400], order[1400:]
    statistics = float(digits.images[train].mean()), float(digits.images[train].std())
    train_set = Digits(digits.images[train], digits.target[train], shift=True, normalize=statistics)
    plain_set = Digits(digits.images[train], digits.target[train], normalize=statistics)
    val_set = Digits(digits.images[val], digits.target[val], normalize=statistics if same_preparation else None)

    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train_set, batch_size=64, shuffle=True),
        val_loader=DataLoader(val_set, batch_size=256),
        plain_loader=DataLoader(plain_set, batch_size=64),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=SPEC.epochs),
        metric=accuracy,
    )
    return program, SPEC


def make(seed):
    return build(seed, same_preparation=False)


def twin(seed):
    return build(seed, same_preparation=True)
