"""Fine-tuning: a backbone pretrained to tell even from odd digits gets a head for ten classes; after a short probe of
the head alone, the backbone is unfrozen and the whole is trained (this program is that second stage).

Fault: the optimizer was built over the parameters that required a gradient while the backbone was frozen, so that the
unfrozen backbone has gradients and never moves; the twin builds it over all parameters.

Measured (seeds 0 and 1): validation accuracy 0.292 and 0.335 with the fault, 0.962 and 0.960 in the twin.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "optimizer"


class Classifier(nn.Module):
    def __init__(self, backbone, features, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def set_trainable(module, flag):
    for parameter in module.parameters():
        parameter.requires_grad_(flag)


def one_pass(model, optimizer, loader, relabel=lambda y: y):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), relabel(y)).backward()
        optimizer.step()


def accuracy(logits, y):
    return (logits.argmax(1) == y).float().mean().item()


def build(seed, only_trainable):
    torch.manual_seed(seed)
    raw = load_digits()
    x, y = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1), torch.tensor(raw.target)
    order = torch.randperm(len(y))
    x, y = x[order], y[order]
    pretrain, train, val = slice(0, 700), slice(700, 1400), slice(1400, None)
    x = (x - x[pretrain].mean()) / x[pretrain].std()

    backbone = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 16),
        nn.ReLU(),
    )
    parity = Classifier(backbone, 16, 2)
    pretrain_optimizer = torch.optim.Adam(parity.parameters(), lr=2e-3)
    pretrain_loader = DataLoader(TensorDataset(x[pretrain], y[pretrain]), batch_size=50, shuffle=True)
    for _ in range(12):
        one_pass(parity, pretrain_optimizer, pretrain_loader, lambda y: y % 2)

    model = Classifier(backbone, 16, 10)
    train_loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=50, shuffle=True)
    set_trainable(model.backbone, False)
    parameters = [p for p in model.parameters() if p.requires_grad] if only_trainable else model.parameters()
    optimizer = torch.optim.Adam(parameters, lr=2e-3)
    for _ in range(2):
        one_pass(model, optimizer, train_loader)
    set_trainable(model.backbone, True)

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=train_loader,
        val_loader=DataLoader(TensorDataset(x[val], y[val]), batch_size=200),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=15)


def make(seed):
    return build(seed, only_trainable=True)


def twin(seed):
    return build(seed, only_trainable=False)
