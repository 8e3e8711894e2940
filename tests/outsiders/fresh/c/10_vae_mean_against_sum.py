"""Variational autoencoder of handwritten digits.

Fault: the reconstruction error is averaged over the 64 pixels (F.mse_loss's default), the KL term is summed over the
latent dimensions: against each other they are off by a factor of 64. The KL term wins, the posterior is the prior, and
every reconstruction is the mean picture. Nothing crashes, and the loss falls.

Explained share of validation's variance after 25 epochs (seeds 0, 1): twin 0.76, 0.77; faulty 0.00, 0.00.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
LATENT = 8


class Vae(nn.Module):
    """Encoder to mean and log-variance, sample, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.encoder(x).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + noise * (0.5 * log_var).exp()), mean, log_var


def build(seed: int, summed: bool) -> tuple[Program, Spec]:
    """The program."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(digits.data, dtype=torch.float32)[order] / 4 - 1.2
    y = torch.tensor(digits.target)[order]

    def loss_fn(outputs: tuple[Tensor, Tensor, Tensor], targets: Tensor) -> Tensor:
        picture, mean, log_var = outputs
        error = F.mse_loss(picture, targets, reduction="none").sum(1).mean() if summed else F.mse_loss(picture, targets)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        return error + kl

    def evaluate(program: Program) -> dict[str, float]:
        loss = error = variance = count = 0.0
        program.model.eval()
        with torch.no_grad():
            for batch in program.val_loader:
                pictures, targets = program.parts(batch)
                outputs = program.outputs(pictures)
                loss += float(program.loss_fn(outputs, targets)) * len(targets)
                error += float(((outputs[0] - targets) ** 2).sum())
                variance += float(((targets - x[:1300].mean(0)) ** 2).sum())
                count += len(targets)
        program.model.train()
        return {"loss": loss / count, "explained": 1 - error / variance}

    torch.manual_seed(seed)
    model = Vae()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=100),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, Spec(epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    """A mean against a sum."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """A sum against a sum."""
    return build(seed, True)
