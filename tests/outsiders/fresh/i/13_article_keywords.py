"""Multi-label: a network gives articles (word counts, synthetic) any of eight keywords; micro-averaged F1 is reported.

Fault: The loss takes logits, and so does the metric, which calls a keyword chosen above 0.5 as if it were a
probability; that is a probability of 0.62. The training is sound; the reported F1 is too low. The twin applies the
sigmoid first.

Measured (seeds 0 and 1): reported F1 0.464 and 0.506 with the fault, 0.555 and 0.611 in the twin, for the same weights
(loss 0.388 and 0.370 in both).
"""

import torch
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
EPOCHS = 20
KEYWORDS, WORDS = 8, 40


def datasets(seed):
    counts, keywords = make_multilabel_classification(
        n_samples=1600, n_features=WORDS, n_classes=KEYWORDS, n_labels=2, length=40, random_state=seed
    )
    counts = torch.tensor(counts, dtype=torch.float32).log1p()
    keywords = torch.tensor(keywords, dtype=torch.float32)
    train, val = train_test_split(range(len(counts)), test_size=0.25, random_state=seed)
    counts = (counts - counts[train].mean(0)) / counts[train].std(0)
    return TensorDataset(counts[train], keywords[train]), TensorDataset(counts[val], keywords[val])


def f1(chosen, targets):
    true = targets == 1
    hits = (chosen & true).sum()
    return float(2 * hits / (chosen.sum() + true.sum()).clamp(min=1))


def metric(outputs, targets):
    return f1(outputs > 0.5, targets)


def metric_twin(outputs, targets):
    return f1(outputs.sigmoid() > 0.5, targets)


def build(seed, score):
    torch.manual_seed(seed)
    train, val = datasets(seed)
    model = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, KEYWORDS))
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=100),
        metric=score,
    )
    return program, Spec(task="multi-label", classes=KEYWORDS, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, metric)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, metric_twin)
