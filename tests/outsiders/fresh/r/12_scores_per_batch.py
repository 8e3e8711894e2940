"""An autoencoder finds odd transactions: trained on ordinary ones, it scores each by the error of its reconstruction.
Validation holds transactions of ten branches, branch by branch, with different shares of odd ones; judged by the AUC.

Fault: the evaluation scales the scores to 0...1 in each batch, and then puts the batches together, so scores of
different batches do not compare. The twin puts the scores together as they are.

Measured (seeds 0 and 1): the faulty program reports an AUC of 0.817 and 0.813, the twin, which has the same model,
0.979 and 0.980; on fresh branches it is 0.972 and 0.979.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("evaluation", "metric")
SPEC = Spec(epochs=25, shift_expected=True)  # Only validation has odd transactions.
SIZE = 30


def ordinary(rng, mixing, n):
    return np.tanh(rng.normal(size=(n, 6)) @ mixing) + 0.15 * rng.normal(size=(n, SIZE))


def odd(rng, mixing, n):
    """Ordinary ones with a few of their values from other transactions."""
    x, other = ordinary(rng, mixing, n), ordinary(rng, mixing, n)
    swapped = rng.random((n, SIZE)) < rng.uniform(0.1, 0.5, (n, 1))
    return np.where(swapped, other, x)


def branches(rng, mixing, each=100):
    """Transactions of ten branches one after the other, and whether they are odd."""
    rows, labels = [], []
    for share in (0.0, 0.02, 0.05, 0.6, 0.0, 0.1, 0.03, 0.4, 0.0, 0.2):
        count = round(share * each)
        x = np.concatenate([ordinary(rng, mixing, each - count), odd(rng, mixing, count)])
        order = rng.permutation(each)
        rows.append(x[order])
        labels.append((np.arange(each) >= each - count)[order])
    return np.concatenate(rows), np.concatenate(labels).astype(np.int64)


def scores(model, x):
    return ((model(x) - x) ** 2).mean(1)


def evaluate_by_batch(program):
    program.model.eval()
    found, truth = [], []
    with torch.no_grad():
        for x, label in program.val_loader:
            score = scores(program.model, x)
            found.append((score - score.min()) / (score.max() - score.min()))
            truth.append(label)
    return {"auc": roc_auc_score(torch.cat(truth), torch.cat(found))}


def evaluate(program):
    program.model.eval()
    found, truth = [], []
    with torch.no_grad():
        for x, label in program.val_loader:
            found.append(scores(program.model, x))
            truth.append(label)
    found = torch.cat(found)
    return {"auc": roc_auc_score(torch.cat(truth), (found - found.min()) / (found.max() - found.min()))}


def build(seed, evaluation):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    mixing = rng.normal(size=(6, SIZE)) * 0.6
    x = ordinary(rng, mixing, 3000)
    val_x, val_labels = branches(rng, mixing)
    train = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.zeros(len(x), dtype=torch.int64))
    val = TensorDataset(torch.tensor(val_x, dtype=torch.float32), torch.tensor(val_labels))
    model = nn.Sequential(
        nn.Linear(SIZE, 64), nn.ReLU(), nn.Linear(64, 6), nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, SIZE)
    )
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 50),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluation,
    )


def make(seed):
    return build(seed, evaluate_by_batch), SPEC


def twin(seed):
    return build(seed, evaluate), SPEC
