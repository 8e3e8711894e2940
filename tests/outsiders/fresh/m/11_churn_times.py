"""Time until a customer leaves, with censored cases, by an exponential survival model: an MLP gives the log rate.

Fault: the data's second target column says "censored", and the likelihood takes it for "event": the customers still
there count as gone, and the reverse. The twin turns the flag round.

Measured (seeds 0 and 1): concordance in validation 0.61 and 0.46; the twin's 0.78 and 0.77.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
SPEC = Spec(epochs=15, max_norm=5.0)


def customers(n, rng):
    """Features; and for each customer the months observed and whether that time is censored."""
    x = rng.normal(size=(n, 8))
    log_rate = 0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.6 * x[:, 2] * x[:, 3] - 0.3
    leaves, study_ends = rng.exponential(np.exp(-log_rate)), rng.exponential(1.6, n)
    censored = leaves > study_ends
    targets = np.stack([np.minimum(leaves, study_ends), censored], axis=1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)


class RateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU())
        self.log_rate = nn.Linear(48, 1)

    def forward(self, x):
        return self.log_rate(self.body(x)).squeeze(1)


def negative_log_likelihood(log_rate, time, event):
    return (log_rate.exp() * time - event * log_rate).mean()


def concordance(outputs, targets):
    """Of the pairs that can be compared, in how many the one that left earlier has the higher rate."""
    time, left = targets[:, 0], targets[:, 1] == 0
    comparable = left[:, None] & (time[:, None] < time)
    right = (outputs[:, None] > outputs).float() + 0.5 * (outputs[:, None] == outputs).float()
    return (right * comparable).sum().item() / comparable.sum().item()


def clipped_step(program, batch):
    inputs, targets = batch
    program.optimizer.zero_grad()
    loss = program.loss_fn(program.model(inputs), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(program.model.parameters(), 5.0)
    program.optimizer.step()
    return loss.item()


def build(seed, loss_fn):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = customers(1500, rng), customers(600, rng)
    model = RateNet()
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(*train), batch_size=50, shuffle=True),
        val_loader=DataLoader(TensorDataset(*val), batch_size=200),
        step=clipped_step,
        metric=concordance,
    )


def make(seed):
    return build(seed, lambda log_rate, y: negative_log_likelihood(log_rate, y[:, 0], y[:, 1])), SPEC


def twin(seed):
    return build(seed, lambda log_rate, y: negative_log_likelihood(log_rate, y[:, 0], 1 - y[:, 1])), SPEC
