"""Ratings of films by matrix factorisation: the product of a user's and a film's factors, plus their biases.

Ratings from 1 to 5 are generated from a hidden factor model with noise. A rating's prediction is the mean rating plus
two biases plus the product of 16 factors; validation reports the RMSE in stars.

Fault: the factors keep nn.Embedding's own initialisation, normal with standard deviation 1, so the products start with
a standard deviation of 4 stars. The twin draws them with a standard deviation of 0.05.

Measured (seeds 0 and 1): RMSE 1.323 and 1.410 with the fault, 0.455 and 0.461 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)
USERS, FILMS = 250, 200


def ratings(seed, count=13000):
    rng = np.random.default_rng(seed)
    users, films = rng.normal(size=(USERS, 3)), rng.normal(size=(FILMS, 3))
    user_bias, film_bias = rng.normal(0, 0.3, USERS), rng.normal(0, 0.4, FILMS)
    pairs = rng.choice(USERS * FILMS, size=count, replace=False)
    u, f = pairs // FILMS, pairs % FILMS
    stars = 3.3 + user_bias[u] + film_bias[f] + 0.4 * (users[u] * films[f]).sum(1) + rng.normal(0, 0.4, count)
    return torch.from_numpy(np.stack([u, f], 1)), torch.tensor(np.clip(stars, 1, 5), dtype=torch.float32)


class Factors(nn.Module):
    def __init__(self, mean, std, width=16):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.user, self.film = nn.Embedding(USERS, width), nn.Embedding(FILMS, width)
        self.user_bias, self.film_bias = nn.Embedding(USERS, 1), nn.Embedding(FILMS, 1)
        if std is not None:
            nn.init.normal_(self.user.weight, std=std)
            nn.init.normal_(self.film.weight, std=std)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.film_bias.weight)

    def forward(self, pairs):
        user, film = pairs[:, 0], pairs[:, 1]
        product = (self.user(user) * self.film(film)).sum(1)
        return self.mean + self.user_bias(user).squeeze(1) + self.film_bias(film).squeeze(1) + product


def build(seed: int, std: float | None) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    pairs, stars = ratings(seed)
    train, val = slice(0, 10500), slice(10500, None)
    model = Factors(float(stars[train].mean()), std)

    def evaluate(program):
        program.model.eval()
        squared = count = 0.0
        with torch.no_grad():
            for inputs, targets in program.val_loader:
                squared += float(((program.model(inputs) - targets) ** 2).sum())
                count += len(targets)
        program.model.train()
        return {"rmse": (squared / count) ** 0.5}

    biases = [model.user_bias.weight, model.film_bias.weight]
    factors = [model.user.weight, model.film.weight]
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(
            [{"params": factors, "weight_decay": 5e-4}, {"params": biases, "weight_decay": 0.0}], lr=1e-2
        ),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(TensorDataset(pairs[train], stars[train]), batch_size=128, shuffle=True),
        val_loader=DataLoader(TensorDataset(pairs[val], stars[val]), batch_size=500),
        evaluate=evaluate,
    )
    return program, Spec(task="regression", epochs=8)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, std=None)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, std=0.05)
