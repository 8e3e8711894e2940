"""Two counts (claims, calls) per policy are regressed with a shared trunk and a Poisson loss; rate cut on plateau.

Fault: `ReduceLROnPlateau(mode="max")` was copied from a classifier where it watched accuracy, but here it gets the
validation loss. As long as the loss falls, that counts as "no improvement": the rate is cut every third epoch from
the start and training has all but stopped after a dozen epochs. The loss curve looks like one that has converged.

Measured, explained deviance D2 over both counts on validation (higher is better), faulty / twin: seed 0: 0.434 /
0.543; seed 1: 0.400 / 0.515.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)


class TwoCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.claims = nn.Linear(64, 1)
        self.calls = nn.Linear(64, 1)

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([self.claims(h), self.calls(h)], 1)


def policies(count, generator):
    x = torch.randn(count, 8, generator=generator)
    claims = 0.9 * torch.sin(2 * x[:, 0]) + 0.7 * x[:, 1] * x[:, 2] + 0.2
    calls = 0.8 * torch.cos(2 * x[:, 3]) + 0.6 * (x[:, 4] * x[:, 0]) - 0.4 * x[:, 5].abs() + 0.9
    rates = torch.stack([claims, calls], 1).clamp(max=3).exp()
    return x, torch.poisson(rates, generator=generator)


def d_squared(log_rate, y):
    """Share of the Poisson deviance of the constant prediction that the model explains."""

    def deviance(rate):
        return 2 * (torch.special.xlogy(y, y) - torch.special.xlogy(y, rate) - y + rate).sum()

    return float(1 - deviance(log_rate.exp()) / deviance(y.mean(0, keepdim=True).expand_as(y)))


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(40 + seed)
    train, val = policies(3000, generator), policies(1000, generator)
    model = TwoCounts()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="min" if ok else "max", factor=0.3, patience=2
    )

    def train_epoch(program):
        program.model.train()
        for batch in program.train_loader:
            program.run_step(batch)
        program.model.eval()
        total = count = 0
        with torch.no_grad():
            for x, y in program.val_loader:
                total += float(program.loss_fn(program.model(x), y)) * len(y)
                count += len(y)
        program.scheduler.step(total / count)

    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        optimizer,
        nn.PoissonNLLLoss(log_input=True),
        train_loader=DataLoader(TensorDataset(*train), batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(*val), batch_size=500),
        scheduler=scheduler,
        train_epoch=train_epoch,
        metric=d_squared,
    )
    return program, Spec(task="regression", epochs=25, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
