"""Electricity load of an hour from calendar and weather, as mean and spread: a small MLP.

Fault: the network gives a mean and the logarithm of the variance, and the hand-written Gaussian likelihood has
lost the half in front of the squared error while it keeps the one in front of the log-variance. The minimum then
lies at twice the true variance: means are fine, the loss falls, and every interval is about 1.4 times too wide.
Such a constant gets lost when a formula with sigma is rewritten for log-variances by hand.

Measured (seeds 0 and 1): after 12 epochs the 80 % interval holds 94 and 92 % of the validation loads, log-density
-0.52 and -0.49; twin 82 and 78 %, log-density -0.40 and -0.41. The squared error is the same (0.27).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)

# Half of the width of a central 80 % interval, in standard deviations.
Z_80 = 1.2816


def hours(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features (time of day as an angle, weekend, temperature, wind) and load; evenings are harder to foretell."""
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    weekend = (torch.rand(count, generator=generator) < 2 / 7).float()
    temperature, wind = torch.randn(2, count, generator=generator)
    mean = 0.8 * angle.sin() - 0.5 * weekend + 0.3 * temperature.square() - 0.1 * wind
    spread = (-1.2 - 0.8 * angle.cos() + 0.5 * weekend).exp()
    features = torch.stack([angle.sin(), angle.cos(), weekend, temperature, wind], 1)
    return features, mean + spread * torch.randn(count, generator=generator)


def likelihood(outputs: Tensor, load: Tensor, weight: float) -> Tensor:
    """Negative log-likelihood of a Gaussian up to a constant; `weight` stands before the squared error."""
    mean, log_variance = outputs.unbind(1)
    return (weight * (load - mean).square() / log_variance.exp() + 0.5 * log_variance).mean()


def report(program: Program) -> dict[str, float]:
    """Squared error, how often the 80 % interval holds the load, and the mean logarithm of its density."""
    program.model.eval()
    with torch.no_grad():
        pairs = [(program.model(features), load) for features, load in program.val_loader]
    program.model.train()
    mean, log_variance = torch.cat([outputs for outputs, _ in pairs]).unbind(1)
    load = torch.cat([load for _, load in pairs])
    z = (load - mean) / (0.5 * log_variance).exp()
    density = -0.5 * (z.square() + log_variance + math.log(2 * math.pi))
    return {
        "squared_error": (load - mean).square().mean().item(),
        "coverage_80": (z.abs() < Z_80).float().mean().item(),
        "log_density": density.mean().item(),
    }


def build(seed: int, weight: float) -> tuple[Program, Spec]:
    """The program, with this weight before the squared error."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = TensorDataset(*hours(3000, generator))
    val = TensorDataset(*hours(1500, generator))

    model = nn.Sequential(nn.Linear(5, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=lambda outputs, load: likelihood(outputs, load, weight),
        train_loader=DataLoader(train, 64, shuffle=True, generator=generator),
        val_loader=DataLoader(val, 500),
        evaluate=report,
    )
    return program, Spec(task="regression", epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, weight=1.0)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the half restored."""
    return build(seed, weight=0.5)
