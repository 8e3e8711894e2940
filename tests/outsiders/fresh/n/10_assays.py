"""A network predicts the results of eight assays from a molecule's fingerprint; 70 % of the results are missing, and
the loss leaves out those marked with -1.

Fault: missing results are filled with 0 rather than -1, so they count as inactive in training and in validation.
The twin fills them with -1.

Measured (seeds 0 and 1): reported validation accuracy 0.85 and 0.85; on the results that are known 0.52 and 0.51
(guessing: 0.5), with the twin 0.80 and 0.79.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "labels"
ASSAYS, BITS, MISSING = 8, 64, -1
SPEC = Spec(task="multi-label", classes=ASSAYS, epochs=12, ignore_index=MISSING)


def molecules(seed, count):
    """Fingerprints and results of the assays: 0, 1, or nan where the assay was not run."""
    rng = np.random.default_rng(seed)
    fragments = rng.random((count, 12)) < 0.4
    bits = (fragments @ rng.integers(0, 2, (12, BITS)) > 2) ^ (rng.random((count, BITS)) < 0.05)
    hidden = np.tanh((fragments - 0.4) @ rng.normal(size=(12, 16)))
    activity = hidden @ rng.normal(size=(16, ASSAYS))
    results = (activity > np.median(activity, 0)).astype(float)
    results[rng.random((count, ASSAYS)) < 0.7] = np.nan
    return bits.astype(np.float32), results


def masked_loss(outputs, targets):
    """Binary cross-entropy over the results that there are."""
    known = targets != MISSING
    losses = nn.functional.binary_cross_entropy_with_logits(outputs, targets.clamp(min=0), reduction="none")
    return (losses * known).sum() / known.sum().clamp(min=1)


def accuracy(outputs, targets):
    known = targets != MISSING
    return ((outputs > 0) == (targets > 0.5))[known].float().mean().item()


def build(seed, fill):
    torch.manual_seed(seed)
    bits, results = molecules(seed, 9000)
    train, val = slice(0, 8000), slice(8000, 9000)
    bits = torch.tensor((bits - bits[train].mean(0)) / bits[train].std(0).clip(1e-3))
    targets = torch.tensor(np.nan_to_num(results, nan=fill), dtype=torch.float32)
    model = nn.Sequential(nn.Linear(BITS, 96), nn.ReLU(), nn.Dropout(0.3), nn.Linear(96, ASSAYS))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=masked_loss,
        train_loader=DataLoader(TensorDataset(bits[train], targets[train]), batch_size=64, shuffle=True),
        val_loader=DataLoader(TensorDataset(bits[val], targets[val]), batch_size=500),
        metric=accuracy,
    )
    return program, SPEC


def make(seed):
    return build(seed, fill=0)


def twin(seed):
    return build(seed, fill=MISSING)
