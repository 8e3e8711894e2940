"""Predict ratings of films by users with biases and factors (a recommender by matrix factorisation).

Fault: a `LabelEncoder` turns the ids of users and films into rows of the embeddings, and it is fitted anew on the
validation part (`fit_transform` in a function called for either part). Ids that the part lacks shift all later ones, so
that validation looks up other users' and films' embeddings. Training is sound; what is reported is not.

Measured (seeds 0 and 1): reported validation R2 -0.85 and -0.60 faulty, 0.84 and 0.82 repaired, for the same training;
MSE 1.41 and 1.12 against 0.12 and 0.12.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.preprocessing import LabelEncoder
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS = 12
USERS, FILMS = 300, 200


class Factors(nn.Module):
    """Mean, biases and the product of factors."""

    def __init__(self, mean: float) -> None:
        super().__init__()
        self.mean = mean
        self.user_factors = nn.Embedding(USERS, 8)
        self.film_factors = nn.Embedding(FILMS, 8)
        self.user_bias = nn.Embedding(USERS, 1)
        self.film_bias = nn.Embedding(FILMS, 1)
        for embedding in (self.user_factors, self.film_factors, self.user_bias, self.film_bias):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, pairs: Tensor) -> Tensor:
        """Ratings of pairs (user, film)."""
        users, films = pairs.unbind(1)
        match = (self.user_factors(users) * self.film_factors(films)).sum(1)
        return self.mean + match + self.user_bias(users).squeeze(1) + self.film_bias(films).squeeze(1)


def _ratings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids of users, ids of films and ratings, every user and film at least three times."""
    activity, fame = rng.pareto(1.5, USERS) + 0.3, rng.pareto(1.5, FILMS) + 0.3
    users = np.concatenate([np.arange(USERS).repeat(3), rng.choice(USERS, 13000, p=activity / activity.sum())])
    films = np.concatenate([rng.permutation(np.arange(900) % FILMS), rng.choice(FILMS, 13000, p=fame / fame.sum())])
    match = (rng.normal(size=(USERS, 3))[users] * rng.normal(size=(FILMS, 3))[films]).sum(1) * 0.3
    bias = 0.5 * rng.normal(size=USERS)[users] + 0.6 * rng.normal(size=FILMS)[films]
    ratings = (3.4 + match + bias + 0.3 * rng.normal(size=len(users))).clip(0.5, 5)
    user_ids = np.sort(rng.choice(100_000, USERS, replace=False))
    film_ids = np.sort(rng.choice(100_000, FILMS, replace=False))
    return user_ids[users], film_ids[films], ratings.round(1)


def _r2(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - ((outputs - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def _build(seed: int, *, refit: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    users, films, ratings = _ratings(rng)
    order = rng.permutation(np.arange(900, len(users)))
    val, train = order[:1500], np.concatenate([np.arange(900), order[1500:]])
    user_encoder, film_encoder = LabelEncoder().fit(users[train]), LabelEncoder().fit(films[train])

    def tensors(rows: np.ndarray) -> TensorDataset:
        if refit:
            codes = user_encoder.fit_transform(users[rows]), film_encoder.fit_transform(films[rows])
        else:
            codes = user_encoder.transform(users[rows]), film_encoder.transform(films[rows])
        return TensorDataset(torch.tensor(np.stack(codes, 1)), torch.tensor(ratings[rows], dtype=torch.float32))

    model = Factors(float(ratings[train].mean()))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(tensors(train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(tensors(val), 500),
        metric=_r2,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, refit=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, refit=False)
