"""The class weights for imbalanced data are computed in the order of Counter.most_common, not in the order of the
class indices: the weights land on the wrong classes, and the rarest class is even played down.
"""

from __future__ import annotations

from collections import Counter

import torch
from sklearn.datasets import make_classification
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS, CLASSES = 25, 4
SHARES = [0.04, 0.62, 0.09, 0.25]


def balanced_weights(labels: Tensor, by_class: bool) -> Tensor:
    """Weights that make all classes count the same, with mean one over the examples."""
    counts = Counter(labels.tolist())
    found = sorted(counts.items()) if by_class else counts.most_common()
    return torch.tensor([len(labels) / (CLASSES * count) for _, count in found])


def balanced_accuracy(outputs: Tensor, targets: Tensor) -> float:
    hits = (outputs.argmax(1) == targets).float()
    return float(torch.stack([hits[targets == c].mean() for c in range(CLASSES)]).mean())


def build(seed: int, by_class: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = make_classification(
        9000,
        16,
        n_informative=8,
        n_redundant=2,
        n_classes=CLASSES,
        n_clusters_per_class=1,
        weights=SHARES,
        class_sep=0.9,
        flip_y=0.0,
        random_state=seed,
    )
    features, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    features = (features - features[:6000].mean(0)) / features[:6000].std(0)
    train = TensorDataset(features[:6000], labels[:6000])
    val = TensorDataset(features[6000:], labels[6000:])
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2),
        loss_fn=nn.CrossEntropyLoss(weight=balanced_weights(labels[:6000], by_class)),
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=500),
        metric=balanced_accuracy,
    )
    meant = 6000 / (CLASSES * torch.bincount(labels[:6000], minlength=CLASSES))
    return program, Spec(task="classification", classes=CLASSES, epochs=EPOCHS, class_weights=tuple(meant.tolist()))


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, by_class=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, by_class=True)
