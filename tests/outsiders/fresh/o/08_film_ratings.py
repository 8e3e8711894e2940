"""Film ratings by matrix factorisation: 300 viewers, 200 films, each rating is the viewer's and the film's bias and
the product of their vectors. Trained on two ratings in five of all, reported by R2 on ratings held out.

Fault: viewers and films have vectors of size 1, while the tastes in the data have eight directions: the model can't
hold them. The twin's vectors have sixteen numbers.

Measured (seeds 0 and 1): R2 on validation 0.31 and 0.30 (on training 0.36 and 0.34), the twin 0.88 and 0.89.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "model"
VIEWERS, FILMS, DIRECTIONS = 300, 200, 8
SPEC = Spec(task="regression", epochs=15)


class Factors(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.viewer = nn.Embedding(VIEWERS, size)
        self.film = nn.Embedding(FILMS, size)
        self.viewer_bias = nn.Embedding(VIEWERS, 1)
        self.film_bias = nn.Embedding(FILMS, 1)
        for table in (self.viewer, self.film):
            nn.init.normal_(table.weight, std=0.3 / size**0.25)
        for table in (self.viewer_bias, self.film_bias):
            nn.init.zeros_(table.weight)

    def forward(self, pairs):
        viewer, film = pairs[:, 0], pairs[:, 1]
        product = (self.viewer(viewer) * self.film(film)).sum(1, keepdim=True)
        return product + self.viewer_bias(viewer) + self.film_bias(film)


def ratings(rng):
    taste = rng.normal(0, 1, (VIEWERS, DIRECTIONS))
    style = rng.normal(0, 1, (FILMS, DIRECTIONS)) / DIRECTIONS**0.5
    score = taste @ style.T + rng.normal(0, 0.4, (VIEWERS, 1)) + rng.normal(0, 0.4, (1, FILMS))
    score = 3.2 + 0.9 * (score + rng.normal(0, 0.35, score.shape))
    cells = rng.permutation(VIEWERS * FILMS)[:28000]
    pairs = np.column_stack([cells // FILMS, cells % FILMS])
    return torch.tensor(pairs), torch.tensor(score.ravel()[cells], dtype=torch.float32)[:, None]


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    pairs, stars = ratings(rng)
    train, val = slice(0, 24000), slice(24000, None)
    stars = (stars - stars[train].mean()) / stars[train].std()
    model = Factors(size=1 if faulty else 16)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(
            TensorDataset(pairs[train], stars[train]),
            batch_size=128,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(pairs[val], stars[val]), batch_size=1000),
        metric=lambda outputs, targets: 1 - ((outputs - targets) ** 2).mean().item() / targets.var().item(),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
