"""The two terms of a variational autoencoder are reduced differently: the reconstruction is a mean over all points,
the divergence a sum over the latent dimensions. The divergence wins, the code collapses and every output is alike.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS, POINTS, LATENT = 30, 48, 6
Outputs = tuple[Tensor, Tensor, Tensor]


class Autoencoder(nn.Module):
    """A variational autoencoder of spectra."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(POINTS, 64), nn.ReLU(), nn.Linear(64, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, POINTS))

    def forward(self, x: Tensor) -> Outputs:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(code), mean, log_variance


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()


def bound_of_means(outputs: Outputs, x: Tensor) -> Tensor:
    """Negative evidence bound for points of standard deviation 0.3."""
    restored, mean, log_variance = outputs
    return 0.5 * ((restored - x) / 0.3).square().mean() + divergence(mean, log_variance)


def bound_of_sums(outputs: Outputs, x: Tensor) -> Tensor:
    """Negative evidence bound for points of standard deviation 0.3."""
    restored, mean, log_variance = outputs
    return 0.5 * ((restored - x) / 0.3).square().sum(1).mean() + divergence(mean, log_variance)


def spectra(count: int, generator: torch.Generator) -> Tensor:
    """Two peaks of any place, width and height on noise."""
    axis = torch.linspace(0, 1, POINTS)
    draw = torch.rand(count, 6, 1, generator=generator)
    found = 0.05 * torch.randn(count, POINTS, generator=generator)
    for place, width, height in (
        (0.1 + 0.35 * draw[:, 0], draw[:, 1], draw[:, 2]),
        (0.55 + 0.35 * draw[:, 3], draw[:, 4], draw[:, 5]),
    ):
        found = found + (0.5 + height) * torch.exp(-0.5 * ((axis - place) / (0.04 + 0.06 * width)) ** 2)
    return found


def evaluate(program: Program) -> dict[str, float]:
    """The bound and the part of the variance that the reconstruction from the mean code explains."""
    was = program.model.training
    program.model.eval()
    with torch.no_grad():
        x = torch.cat([batch[0] for batch in program.val_loader])
        outputs = program.outputs(x)
        loss = float(program.loss_fn(outputs, x))
    program.model.train(was)
    explained = 1 - float((outputs[0] - x).square().sum() / (x - x.mean(0)).square().sum())
    return {"loss": loss, "explained": explained}


def build(seed: int, loss_fn: Callable[[Outputs, Tensor], Tensor]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, x_val = spectra(1600, generator), spectra(600, generator)
    mean, std = x.mean(), x.std()
    train, val = TensorDataset((x - mean) / std), TensorDataset((x_val - mean) / std)
    model = Autoencoder()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=300),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, Spec(epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, bound_of_means)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, bound_of_sums)
