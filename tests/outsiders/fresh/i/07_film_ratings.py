"""Recommendation: matrix factorisation with biases predicts how users rate films (synthetic, with a long tail).

Fault: User and film ids are turned into consecutive codes separately for training and validation. As some films and
users are missing in validation, the codes shift and a validation code means another film than in training. The
training is sound. The twin takes both codes from the training ids and drops unknown ids.

Measured (seeds 0 and 1): reported validation R2 -0.78 and -0.80 with the fault, 0.85 and 0.86 in the twin (squared
error 1.705 and 1.741, 0.142 and 0.135); more than 90 % of the validation codes are wrong.
"""

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS = 20
USERS, FILMS = 400, 300


def ratings(seed):
    random = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, FILMS + 1) ** 0.9
    popularity = random.permutation(popularity / popularity.sum())
    user_taste, film_taste = random.normal(0, 1, (USERS, 2)), random.normal(0, 1, (FILMS, 2))
    user_bias, film_bias = random.normal(0, 0.5, USERS), random.normal(0, 0.6, FILMS)
    rows = []
    for user in range(USERS):
        for film in random.choice(FILMS, size=random.integers(5, 60), replace=False, p=popularity):
            liking = 3.4 + user_bias[user] + film_bias[film] + 0.45 * user_taste[user] @ film_taste[film]
            rows.append((1000 + 7 * user, 50 + 3 * film, np.clip(liking + random.normal(0, 0.3), 1, 5)))
    table = np.array(rows)
    return table[:, :2].astype(np.int64), table[:, 2].astype(np.float32)


def encode(train, val):
    def codes(pairs):
        return np.stack([np.unique(column, return_inverse=True)[1] for column in pairs.T], axis=1)

    return codes(train), codes(val), np.ones(len(val), dtype=bool)


def encode_twin(train, val):
    known = [np.unique(column) for column in train.T]
    seen = np.all([np.isin(column, ids) for column, ids in zip(val.T, known, strict=False)], axis=0)

    def codes(pairs):
        return np.stack([np.searchsorted(ids, column) for column, ids in zip(pairs.T, known, strict=False)], axis=1)

    return codes(train), codes(val[seen]), seen


class Factors(nn.Module):
    def __init__(self, users, films, mean, width=4):
        super().__init__()
        self.user, self.film = nn.Embedding(users, width), nn.Embedding(films, width)
        self.user_bias, self.film_bias = nn.Embedding(users, 1), nn.Embedding(films, 1)
        self.register_buffer("mean", torch.tensor(mean))
        for table in (self.user, self.film, self.user_bias, self.film_bias):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs):
        user, film = pairs.unbind(1)
        bias = self.user_bias(user).squeeze(1) + self.film_bias(film).squeeze(1)
        return self.mean + bias + (self.user(user) * self.film(film)).sum(1)


def r_squared(outputs, targets):
    return float(1 - (targets - outputs).square().sum() / (targets - targets.mean()).square().sum())


def build(seed, encoder):
    torch.manual_seed(seed)
    pairs, stars = ratings(seed)
    train, val = train_test_split(np.arange(len(stars)), test_size=0.15, random_state=seed)
    train_codes, val_codes, kept = encoder(pairs[train], pairs[val])
    train_set = TensorDataset(torch.from_numpy(train_codes), torch.from_numpy(stars[train]))
    val_set = TensorDataset(torch.from_numpy(val_codes), torch.from_numpy(stars[val][kept]))
    model = Factors(*(train_codes.max(0) + 1).tolist(), float(stars[train].mean()))
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train_set, batch_size=256, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val_set, batch_size=512),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, encode)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, encode_twin)
