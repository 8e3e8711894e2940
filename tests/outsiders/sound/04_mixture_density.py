"""An inverse problem with several answers: a mixture density network for y, x = y + 0.3 sin(2 pi y) + noise.

Unusual: twelve outputs for one target (weights, means and log widths of four Gaussians); none of them is a
prediction. The loss is a negative log density and falls below zero, since a density may exceed one; a mean squared
error would be no better than half-way between the branches. Weight logits, means and widths live on different scales,
and the means are initialised apart from each other over the range of y, so that the components do not start as
copies.

Metric: mean log density over that of one constant Gaussian fitted to the targets (0 for a constant answer).
Measured after 30 epochs: seed 0: loss -1.583, metric 1.771; seed 1: loss -1.669, metric 1.88.
"""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

COMPONENTS = 4


def network():
    model = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 3 * COMPONENTS))
    with torch.no_grad():
        model[-1].bias[:COMPONENTS] = 0.0
        model[-1].bias[COMPONENTS : 2 * COMPONENTS] = torch.linspace(0.1, 0.9, COMPONENTS)
        model[-1].bias[2 * COMPONENTS :] = math.log(0.2)
    return model


def simulate(count, generator):
    y = torch.rand(count, generator=generator)
    x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.03 * torch.randn(count, generator=generator)
    return TensorDataset((x[:, None] - 0.5) / 0.29, y)


def log_density(parameters, y):
    weights, means, log_widths = parameters.chunk(3, dim=1)
    log_widths = log_widths.clamp(min=-5)
    z = (y[:, None] - means) * (-log_widths).exp()
    components = weights.log_softmax(1) - 0.5 * z**2 - log_widths - 0.5 * math.log(2 * math.pi)
    return components.logsumexp(1)


def loss_fn(parameters, y):
    return -log_density(parameters, y).mean()


def metric(parameters, y):
    constant = -0.5 * math.log(2 * math.pi * math.e * y.var(unbiased=False).item())
    return log_density(parameters, y).mean().item() - constant


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(400 + seed)
    train, val = simulate(2000, generator), simulate(600, generator)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    epochs = 30
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 200),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs),
        metric=metric,
    )
    return program, Spec(task="regression", epochs=epochs, scheduler_steps="epoch")
