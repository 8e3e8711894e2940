"""Six ordered grades from ten measurements: ordinal regression with cumulative thresholds.

Unusual: for six classes there are five outputs, and the class is not their argmax: output k is the logit of "the
grade is above k". All five share one score and differ by a threshold only, so that the last layer has a single row
without a bias. The thresholds are ordered by construction (cumulative softplus). Each threshold gets a binary
cross-entropy; the class is the number of thresholds that are passed. Thresholds have a higher rate and no weight
decay (two groups).

Metric: quadratic weighted kappa (0 for a constant answer).
Measured after 25 epochs: seed 0: loss 0.1591, metric 0.9191; seed 1: loss 0.1633, metric 0.9319.
"""

import torch
from sklearn.metrics import cohen_kappa_score
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

GRADES = 6


class Ordinal(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
        self.last = nn.Linear(24, 1, bias=False)
        self.first = nn.Parameter(torch.tensor(-1.0))
        self.gaps = nn.Parameter(torch.zeros(GRADES - 2))

    def forward(self, x):
        thresholds = torch.cat([self.first[None], self.first + softplus(self.gaps).cumsum(0)])
        return self.last(self.score(x)) - thresholds


def simulate(count, generator):
    x = torch.randn(count, 10, generator=generator)
    latent = x[:, 0] + (x[:, 1] - 1).abs() - x[:, 2] * x[:, 3] + 0.5 * x[:, 4]
    latent = latent + 0.4 * torch.randn(count, generator=generator)
    grades = torch.bucketize(latent, torch.tensor([-0.8, 0.2, 1.0, 1.9, 3.0]))
    return TensorDataset(x, grades)


def loss_fn(logits, grades):
    above = (grades[:, None] > torch.arange(GRADES - 1)).float()
    return binary_cross_entropy_with_logits(logits, above)


def metric(logits, grades):
    predicted = (logits > 0).sum(1)
    return cohen_kappa_score(grades.numpy(), predicted.numpy(), weights="quadratic", labels=list(range(GRADES)))


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(200 + seed)
    train, val = simulate(2000, generator), simulate(600, generator)
    model = Ordinal()
    network = [*model.score.parameters(), *model.last.parameters()]
    optimizer = torch.optim.AdamW(
        [
            {"params": network, "lr": 3e-3, "weight_decay": 1e-2},
            {"params": [model.first, model.gaps], "lr": 1e-2, "weight_decay": 0.0},
        ]
    )
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 50, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 200),
        metric=metric,
    )
    return program, Spec(task="classification", classes=GRADES, epochs=25)
