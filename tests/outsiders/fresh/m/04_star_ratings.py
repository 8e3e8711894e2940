"""Star ratings from 0 to 4 by ordinal regression: four cumulative yes/no questions, "more than k stars?", on an MLP.

Fault: the targets are encoded with `>=` in place of `>`: the first question is always true, nobody asks for the fourth
star, and a rating, counted as the number of questions affirmed, comes out one too high. The twin encodes with `>`.

Measured (seeds 0 and 1): mean error against the true stars of 2000 new reviews 0.85 and 0.86, right in 27 % and 25 %
of them; the twin's 0.27 and 0.28, right in 73 % and 73 %. What the faulty program reports looks better (0.24 and
0.24).
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
SPEC = Spec(task="multi-label", classes=4, epochs=15)
STARS = 5


def reviews(n, rng):
    """Ten features of a review and its stars, which follow a curved score with some noise."""
    x = rng.normal(size=(n, 10))
    score = x[:, 0] + 0.8 * x[:, 1] * x[:, 2] - 0.7 * np.abs(x[:, 3]) + 0.5 * x[:, 4] + rng.normal(0, 0.3, n)
    return x.astype(np.float32), np.digitize(score, [-1.6, -0.8, 0.0, 0.9])


def encode(stars, faulty):
    """The answers to the questions k = 0 ... 3 for each rating."""
    k = np.arange(STARS - 1)
    answers = stars[:, None] >= k if faulty else stars[:, None] > k
    return answers.astype(np.float32)


def decode(logits):
    """The rating: how many questions are affirmed."""
    return (logits > 0).sum(1)


def closeness(outputs, targets):
    """Minus the mean absolute error in stars."""
    return -(decode(outputs) - targets.sum(1)).abs().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    loaders = []
    for n, shuffle in ((1600, True), (500, False)):
        x, stars = reviews(n, rng)
        data = TensorDataset(torch.from_numpy(x), torch.from_numpy(encode(stars, faulty)))
        loaders.append(DataLoader(data, batch_size=50, shuffle=shuffle))
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, STARS - 1))
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=loaders[0],
        val_loader=loaders[1],
        metric=closeness,
    )


def make(seed):
    return build(seed, faulty=True), SPEC


def twin(seed):
    return build(seed, faulty=False), SPEC
