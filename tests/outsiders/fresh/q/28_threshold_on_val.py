"""Tags for support tickets: eight tags, most of them rare, from forty word counts. Each tag has a threshold of its own
at which it is given; the report is the macro F1.

Fault: the thresholds are picked on the very validation tickets whose F1 is then reported. The twin picks them on
tickets set apart for it.

Measured (seeds 0 and 1): the faulty program reports a macro F1 of 0.486 and 0.417, while at its thresholds it has 0.410
and 0.387 on 20,000 fresh tickets; the twin reports 0.433 and 0.367 and has 0.445 and 0.378. Over seeds 0 to 5 the
report is 0.073 too high on average, the twin's 0.030 too low.
"""

import numpy as np
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("evaluation", "metric")
SPEC = Spec(task="multi-label", classes=8, epochs=12)
TAGS, WORDS = 8, 40


class Desk:
    """What words belong to what tags."""

    def __init__(self, rng):
        self.weights = rng.normal(size=(WORDS, TAGS)) * (rng.random((WORDS, TAGS)) < 0.2) * 1.2
        self.offsets = np.linspace(-2.0, -4.0, TAGS)

    def tickets(self, rng, n):
        x = np.log1p(rng.poisson(rng.gamma(1.0, 1.0, size=(n, WORDS))))
        logits = (x - 0.5) @ self.weights + self.offsets
        y = rng.random((n, TAGS)) < 1 / (1 + np.exp(-logits))
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


@torch.no_grad()
def probabilities(model, loader):
    was = model.training
    model.eval()
    pairs = [(model(x).sigmoid(), y) for x, y in loader]
    model.train(was)
    return torch.cat([p for p, _ in pairs]).numpy(), torch.cat([y for _, y in pairs]).numpy()


def best_thresholds(scores, truth):
    grid = np.linspace(0.05, 0.9, 35)
    f1 = [[f1_score(truth[:, k], scores[:, k] > t, zero_division=0) for t in grid] for k in range(TAGS)]
    return grid[np.argmax(f1, axis=1)]


def macro_f1(scores, truth, thresholds):
    return float(np.mean([f1_score(truth[:, k], scores[:, k] > thresholds[k], zero_division=0) for k in range(TAGS)]))


def evaluate_on(tuning_loader):
    def evaluate(program):
        thresholds = best_thresholds(*probabilities(program.model, tuning_loader))
        return {"macro_f1": macro_f1(*probabilities(program.model, program.val_loader), thresholds)}

    return evaluate


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    desk = Desk(rng)
    train = TensorDataset(*desk.tickets(rng, 2500))
    tuning = TensorDataset(*desk.tickets(rng, 400))
    val = TensorDataset(*desk.tickets(rng, 120))
    val_loader = DataLoader(val, 120)
    model = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, TAGS))
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=val_loader,
        evaluate=evaluate_on(val_loader if faulty else DataLoader(tuning, 400)),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
