"""A network gives a film any of ten tags (drama, comedy, ...) from 40 features of its description. Judged by micro F1.
Taggers disagree, so the same description has not always the same tags.

Fault: the metric asks whether the network's outputs, which are logits, are over 0.5, which is a probability of 0.62.
The twin takes the sigmoid first.

Measured (seeds 0 and 1): the faulty program reports an F1 of 0.505 and 0.481, the twin, which has the same model, 0.627
and 0.614; on 5,000 fresh films it is 0.627 and 0.621.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "metric"
TAGS = 10
SPEC = Spec(task="multi-label", classes=TAGS, epochs=12)


def films(rng, weights, n):
    """Features of films, and whether they have each tag."""
    x = rng.normal(size=(n, 40))
    logits = 0.22 * x @ weights + np.linspace(-1.2, 0.2, TAGS)
    tags = rng.random((n, TAGS)) < 1 / (1 + np.exp(-logits))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(tags, dtype=torch.float32)


def micro_f1(guess, targets):
    hits = (guess * targets).sum()
    return (2 * hits / (guess.sum() + targets.sum()).clamp(min=1)).item()


def f1_of_outputs(outputs, targets):
    return micro_f1((outputs > 0.5).float(), targets)


def f1_of_probabilities(outputs, targets):
    return micro_f1((outputs.sigmoid() > 0.5).float(), targets)


def build(seed, metric):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    weights = rng.normal(size=(40, TAGS))
    model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, TAGS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    train = TensorDataset(*films(rng, weights, 4000))
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*films(rng, weights, 1500)), 500),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=metric,
    )


def make(seed):
    return build(seed, f1_of_outputs), SPEC


def twin(seed):
    return build(seed, f1_of_probabilities), SPEC
