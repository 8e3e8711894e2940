"""A recommender foretells ratings from embeddings and biases of users and films, with a small network on top. A few
users rate much, most of them rarely.

Fault: Adam's weight_decay of 0.01 reaches the embedding tables too, where it pulls every row at every step while a row
has a gradient only when its user is in the batch: what is learned of rare users and films is pulled to zero. The twin
decays the network's weights only.

Measured (seeds 0 and 1): on 20,000 fresh ratings the faulty program has an RMSE of 0.712 and 0.706 (0.798 and 0.775 on
users with fewer than 12 ratings), the twin 0.664 and 0.655 (0.725 and 0.715); the noise alone is 0.4. (With the decay
of 1e-4 first tried the fault made no difference; it was raised to 0.01.)
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "optimizer"
SPEC = Spec(task="regression", epochs=12)
USERS, FILMS = 800, 300


class Ratings:
    """Tastes of users and films, and who rates what."""

    def __init__(self, rng):
        self.user_bias, self.film_bias = rng.normal(size=USERS), rng.normal(size=FILMS)
        self.user, self.film = rng.normal(size=(USERS, 3)), rng.normal(size=(FILMS, 3))
        self.user_share = rng.permutation(1 / np.arange(8, USERS + 8))
        self.film_share = rng.permutation(1 / np.arange(8, FILMS + 8))
        self.user_share /= self.user_share.sum()
        self.film_share /= self.film_share.sum()

    def draw(self, rng, n):
        u, f = rng.choice(USERS, n, p=self.user_share), rng.choice(FILMS, n, p=self.film_share)
        return u, f, self.rating(rng, u, f)

    def rating(self, rng, u, f):
        taste = (self.user[u] * self.film[f]).sum(1) * 0.3
        return 3.4 + self.user_bias[u] + self.film_bias[f] + taste + rng.normal(scale=0.4, size=len(u))


class Recommender(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.users, self.films = nn.Embedding(USERS, width), nn.Embedding(FILMS, width)
        self.user_bias, self.film_bias = nn.Embedding(USERS, 1), nn.Embedding(FILMS, 1)
        self.mlp = nn.Sequential(nn.Linear(3 * width, 32), nn.ReLU(), nn.Linear(32, 1))
        for table in (self.users, self.films):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_bias, self.film_bias):
            nn.init.zeros_(table.weight)

    def forward(self, pairs):
        u, f = pairs[:, 0], pairs[:, 1]
        a, b = self.users(u), self.films(f)
        return self.mlp(torch.cat([a, b, a * b], dim=1)) + self.user_bias(u) + self.film_bias(f)


def adam(model, faulty):
    if faulty:
        return torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.01)
    tables = [model.users, model.films, model.user_bias, model.film_bias]
    groups = [
        {"params": [table.weight for table in tables], "weight_decay": 0.0},
        {"params": model.mlp.parameters(), "weight_decay": 0.01},
    ]
    return torch.optim.Adam(groups, lr=1e-2)


def tensors(u, f, rating):
    return TensorDataset(torch.tensor(np.stack([u, f], 1)), torch.tensor(rating, dtype=torch.float32).unsqueeze(1))


def r2(outputs, targets):
    return 1 - ((outputs - targets) ** 2).sum().item() / ((targets - targets.mean()) ** 2).sum().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    ratings = Ratings(rng)
    train, val = ratings.draw(rng, 20000), ratings.draw(rng, 3000)
    model = Recommender()
    generator = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=adam(model, faulty),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(tensors(*train), 256, shuffle=True, generator=generator),
        val_loader=DataLoader(tensors(*val), 1000),
        metric=r2,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
