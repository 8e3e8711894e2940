"""Matrix factorisation of book ratings: a reader's and a book's bias and the product of their vectors give the rating
(less the mean rating of training).

Fault: the vectors keep nn.Embedding's own N(0, 1), so that the products of 64 numbers start with a spread of 8, on
a scale of ratings that spreads by about 1. The twin draws them with a standard deviation of 0.05.

Measured (seeds 0 and 1): validation R2 -0.14 and -0.18 (loss at the start 66 and 68), the twin's 0.80 and 0.80
(loss at the start 0.98 and 0.96; noise leaves room for about 0.83).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "initialisation"
SPEC = Spec(task="regression", epochs=10)
READERS, BOOKS, WIDTH = 400, 250, 64


def ratings(rng, n=40000):
    """Pairs of reader and book, each once, and ratings between 1 and 5."""
    taste, kind = rng.normal(size=(READERS, 3)), rng.normal(size=(BOOKS, 3))
    kindness, quality = rng.normal(size=READERS) * 0.4, rng.normal(size=BOOKS) * 0.5
    pairs = rng.permutation(READERS * BOOKS)[:n]
    reader, book = pairs // BOOKS, pairs % BOOKS
    raw = 3.4 + kindness[reader] + quality[book] + 0.45 * (taste[reader] * kind[book]).sum(1)
    return reader, book, np.clip(raw + rng.normal(size=n) * 0.4, 1, 5)


class Factors(nn.Module):
    """Biases and the product of two vectors."""

    def __init__(self, std):
        super().__init__()
        self.reader, self.book = nn.Embedding(READERS, WIDTH), nn.Embedding(BOOKS, WIDTH)
        self.reader_bias, self.book_bias = nn.Embedding(READERS, 1), nn.Embedding(BOOKS, 1)
        nn.init.zeros_(self.reader_bias.weight)
        nn.init.zeros_(self.book_bias.weight)
        if std is not None:
            nn.init.normal_(self.reader.weight, std=std)
            nn.init.normal_(self.book.weight, std=std)

    def forward(self, pairs):
        reader, book = pairs[:, 0], pairs[:, 1]
        bias = self.reader_bias(reader) + self.book_bias(book)
        return bias.squeeze(1) + (self.reader(reader) * self.book(book)).sum(1)


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    reader, book, rating = ratings(rng)
    pairs = torch.tensor(np.stack([reader, book], 1))
    cut = int(0.8 * len(pairs))  # The pairs come in random order.
    target = torch.tensor(rating - rating[:cut].mean(), dtype=torch.float32)
    train, val = TensorDataset(pairs[:cut], target[:cut]), TensorDataset(pairs[cut:], target[cut:])
    model = Factors(None if faulty else 0.05)
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, 256, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 1024),
        metric=lambda outputs, targets: 1 - ((outputs - targets) ** 2).mean().item() / targets.var().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
