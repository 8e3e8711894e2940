"""A generative adversarial network with hinge loss learns points around eight centres on a ring; each step trains the
discriminator and then the generator.

Fault: each optimizer clears its own gradients only, so what the generator's backward pass leaves in the
discriminator is added to the discriminator's next gradient and cancels what it learns from generated points. The
twin clears the discriminator's gradients before its backward pass too.

Measured (seeds 0 and 1): energy distance between generated and validation points 21,800 and 27,800 (0.88 and 0.87
before training: the generated points run away), with the twin 0.010 and 0.009.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "step"
NOISE = 8
SPEC = Spec(epochs=25)


def ring(rng, count):
    """Points around eight centres on a ring, in units of their standard deviation."""
    angle = rng.integers(0, 8, count) * math.pi / 4
    centres = np.stack([np.cos(angle), np.sin(angle)], 1)
    return torch.tensor((centres + 0.1 * rng.normal(size=(count, 2))) * 2**0.5, dtype=torch.float32)


def layers(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2), nn.Linear(96, outputs)
    )


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = layers(NOISE, 2)
        self.discriminator = layers(2, 1)

    def forward(self, points):
        return self.discriminator(points)


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def evaluate(program):
    """Energy distance between validation points and generated ones."""
    noise = torch.randn(1000, NOISE, generator=torch.Generator().manual_seed(1))
    real = torch.cat([batch[0] for batch in program.val_loader])
    with torch.no_grad():
        return {"energy_distance": energy_distance(program.model.generator(noise), real)}


def build(seed, clear_before):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Gan()
    rates = {"lr": 1e-3, "betas": (0.5, 0.99)}
    generator_optimizer = torch.optim.Adam(model.generator.parameters(), **rates)
    discriminator_optimizer = torch.optim.Adam(model.discriminator.parameters(), **rates)

    def step(program, batch):
        real, model = batch[0], program.model

        if clear_before:
            discriminator_optimizer.zero_grad()
        fake = model.generator(torch.randn(len(real), NOISE)).detach()
        hinges = torch.relu(1 - model.discriminator(real)), torch.relu(1 + model.discriminator(fake))
        (hinges[0].mean() + hinges[1].mean()).backward()
        discriminator_optimizer.step()
        discriminator_optimizer.zero_grad()

        generator_optimizer.zero_grad()
        fake = model.generator(torch.randn(len(real), NOISE))
        (-model.discriminator(fake).mean()).backward()
        generator_optimizer.step()

    program = Program(
        model=model,
        optimizer=[generator_optimizer, discriminator_optimizer],
        loss_fn=None,
        train_loader=DataLoader(TensorDataset(ring(rng, 4000)), batch_size=100, shuffle=True),
        val_loader=DataLoader(TensorDataset(ring(rng, 1000)), batch_size=500),
        unpack=lambda batch: (batch[0], batch[0]),
        step=step,
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, clear_before=False)


def twin(seed):
    return build(seed, clear_before=True)
