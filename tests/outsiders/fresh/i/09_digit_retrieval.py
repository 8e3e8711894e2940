"""Metric learning: a network embeds digit images so that a query finds images of the same digit (batch-hard triplets).

Fault: The hardest negative is the minimum of distance * mask. Multiplying sets the masked-out distances to 0, so the
minimum is always 0 (the anchor itself) and no negative is ever pushed away: all embeddings collapse and the loss
settles at the margin. The twin fills the masked-out places with infinity.

Measured (seeds 0 and 1): validation R-precision 0.33 and 0.40 with the fault (0.47 and 0.43 before training), 0.96 and
0.94 in the twin.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS = 20
MARGIN = 0.3


def datasets(seed):
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    train, val = train_test_split(range(len(labels)), test_size=0.25, random_state=seed, stratify=digits.target)
    images = (images - images[train].mean()) / images[train].std()
    return TensorDataset(images[train], labels[train]), TensorDataset(images[val], labels[val])


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))

    def forward(self, images):
        return F.normalize(self.layers(images), dim=1)


def pairwise(embeddings, labels):
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    return torch.cdist(embeddings, embeddings), same


def loss(embeddings, labels):
    distance, same = pairwise(embeddings, labels)
    positive = (distance * same).max(1).values
    negative = (distance * ~same).min(1).values
    return F.relu(positive - negative + MARGIN).mean()


def loss_twin(embeddings, labels):
    distance, same = pairwise(embeddings, labels)
    positive = distance.masked_fill(~same, 0.0).max(1).values
    negative = distance.masked_fill(same, torch.inf).min(1).values
    return F.relu(positive - negative + MARGIN).mean()


def r_precision(embeddings, labels):
    distance, same = pairwise(embeddings, labels)
    distance.fill_diagonal_(torch.inf)
    precision = []
    for row, mates in zip(distance, same, strict=False):
        nearest = row.argsort()[: int(mates.sum()) - 1]
        precision.append(mates[nearest].float().mean())
    return float(torch.stack(precision).mean())


def build(seed, loss_fn):
    torch.manual_seed(seed)
    train, val = datasets(seed)
    model = Embedder()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=64, shuffle=True, drop_last=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=64),
        metric=r_precision,
    )
    return program, Spec(epochs=EPOCHS, couples_samples=True)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss_twin)
