"""Quantile regression: how much stock to hold so that it covers the demand on 90 of 100 days.

Fault: the pinball loss takes the error as forecast minus demand where the formula has demand minus forecast, so that
the 10% quantile is learnt in place of the 90% one. The sign was turned when the loss was rewritten from memory.

Measured (seeds 0 and 1): share covered 0.12 and 0.12 (cost 10.8 and 11.2) faulty, 0.91 and 0.90 (cost 1.7 and 1.9)
twin.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
TAU = 0.9


def days(count, g):
    """Features of a day and its demand, whose spread grows with price promotions."""
    x = torch.randn(count, 6, generator=g)
    level = 3 + 1.2 * x[:, 0] + torch.sin(2 * x[:, 1]) + 0.5 * x[:, 2] * x[:, 3]
    spread = 0.4 + 0.8 * torch.sigmoid(1.5 * x[:, 4])
    return x, (level + spread * torch.randn(count, generator=g))[:, None]


class Pinball(nn.Module):
    def __init__(self, tau, ok):
        super().__init__()
        self.tau, self.ok = tau, ok

    def forward(self, forecast, demand):
        error = demand - forecast if self.ok else forecast - demand
        return torch.maximum(self.tau * error, (self.tau - 1) * error).mean()


def evaluate(program):
    """Share of days that the stock covers, and the cost: 9 for a missing unit, 1 for one too many."""
    program.model.eval()
    covered, cost, count = 0, 0.0, 0
    with torch.no_grad():
        for x, demand in program.val_loader:
            stock = program.model(x)
            short = demand - stock
            covered += (short <= 0).sum().item()
            cost += (9 * short.clamp(min=0) + (-short).clamp(min=0)).sum().item()
            count += len(x)
    program.model.train()
    return {"covered": covered / count, "cost": cost / count}


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train, val = days(3000, g), days(800, g)
    model = nn.Sequential(nn.Linear(6, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=Pinball(TAU, ok),
        train_loader=DataLoader(TensorDataset(*train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*val), 400),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        evaluate=evaluate,
    )
    return program, Spec(task="regression", epochs=20, scheduler_steps="epoch")


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
