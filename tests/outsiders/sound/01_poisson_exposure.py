"""Counts of events under unequal exposure: a Poisson regression.

Unusual: the outputs are log rates and not counts, they are below zero where the targets never are, and the log of the
exposure is added after the model as an offset without a weight. The Poisson loss without its constant term falls
below zero. Three micro-batches make one optimizer step, and the last group of an epoch is shorter; each group is
divided by the examples that it really has, so that its gradient is the mean over them. That is how such a model is
meant to be.

Metric: the share of the deviance that is explained over a constant rate per exposure (0 for a constant answer).
Measured after 20 epochs: seed 0: loss -0.7848, deviance_explained 0.5516; seed 1: loss -0.5686, deviance_explained
0.5544.
"""

import torch
from torch import nn
from torch.nn.functional import poisson_nll_loss
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

ACCUMULATE = 3


def simulate(count, generator):
    x = torch.randn(count, 6, generator=generator)
    exposure = torch.empty(count).uniform_(0.2, 5.0, generator=generator)
    log_rate = -0.5 + 0.8 * torch.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] - 0.4 * x[:, 2] * (x[:, 3] > 0)
    counts = torch.poisson(exposure * log_rate.exp(), generator=generator)
    return TensorDataset(x, exposure, counts)


def unpack(batch):
    x, exposure, counts = batch
    return (x, exposure), counts


def forward(model, inputs):
    x, exposure = inputs
    return model(x).squeeze(1) + exposure.log()


def loss_fn(log_mean, counts):
    return poisson_nll_loss(log_mean, counts, log_input=True, full=False)


def deviance(log_mean, counts):
    return 2 * (torch.xlogy(counts, counts) - counts * log_mean - counts + log_mean.exp()).mean()


def evaluate(program):
    program.model.eval()
    with torch.no_grad():
        parts = [(program.outputs(x), x[1], y) for x, y in map(program.parts, program.val_loader)]
    program.model.train()
    log_mean, exposure, counts = (torch.cat(part) for part in zip(*parts, strict=True))
    constant = (exposure * counts.sum() / exposure.sum()).log()
    explained = 1 - deviance(log_mean, counts) / deviance(constant, counts)
    return {"loss": loss_fn(log_mean, counts).item(), "deviance_explained": explained.item()}


def train_group(program, group):
    total = sum(len(batch[0]) for batch in group)
    program.optimizer.zero_grad()
    for batch in group:
        inputs, targets = program.parts(batch)
        (program.loss_fn(program.outputs(inputs), targets) * len(targets) / total).backward()
    program.optimizer.step()


def train_epoch(program):
    program.model.train()
    group = []
    for batch in program.train_loader:
        group.append(batch)
        if len(group) == ACCUMULATE:
            train_group(program, group)
            group = []
    if group:
        train_group(program, group)


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(100 + seed)
    train, val = simulate(1600, generator), simulate(600, generator)
    model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 16, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 200),
        unpack=unpack,
        forward=forward,
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    return program, Spec(task="regression", epochs=20, accumulate=ACCUMULATE)
