"""A variational autoencoder with a latent space of 8 dimensions is trained on the 8x8 digits.

Fault: the reconstruction error is averaged over pixels and batch (`F.mse_loss` by default), while the KL term is summed
over the latent dimensions: the KL term then weighs 64 times what the evidence bound says. It comes from putting
together the usual KL line with the loss of a plain autoencoder. The posterior collapses: every image is reconstructed
as the mean digit.

Measured (seeds 0 and 1): error of a validation pixel 0.521 and 0.517 faulty, 0.135 and 0.130 repaired; KL of
an image 0.0002 faulty (both), 7.0 and 6.9 repaired.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS = 30
Output = tuple[Tensor, Tensor, Tensor]


class VAE(nn.Module):
    """Encoder to mean and log-variance, a sample of the latent, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x: Tensor) -> Output:
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.decoder(z), mu, logvar


def _kl(mu: Tensor, logvar: Tensor) -> Tensor:
    return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()


def _loss(output: Output, target: Tensor) -> Tensor:
    reconstruction, mu, logvar = output
    return F.mse_loss(reconstruction, target) + _kl(mu, logvar)


def _loss_repaired(output: Output, target: Tensor) -> Tensor:
    reconstruction, mu, logvar = output
    return F.mse_loss(reconstruction, target, reduction="none").sum(1).mean() + _kl(mu, logvar)


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.tensor(load_digits().data, dtype=torch.float32)
    x = x[torch.randperm(len(x), generator=generator)]
    x = (x - x[:1400].mean()) / x[:1400].std()
    train_set, val_set = TensorDataset(x[:1400]), TensorDataset(x[1400:])
    return DataLoader(train_set, 64, shuffle=True, generator=generator), DataLoader(val_set, 256)


def _unpack(batch: list[Tensor]) -> tuple[Tensor, Tensor]:
    return batch[0], batch[0]


def _evaluate(program: Program) -> dict[str, float]:
    was = program.model.training
    program.model.eval()
    with torch.no_grad():
        x = torch.cat([batch[0] for batch in program.val_loader])
        output = program.model(x)
        loss, error = program.loss_fn(output, x).item(), F.mse_loss(output[0], x).item()
        result = {"loss": loss, "pixel mse": error, "kl": _kl(output[1], output[2]).item()}
    program.model.train(was)
    return result


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = VAE()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=_loss,
        train_loader=train_loader,
        val_loader=val_loader,
        unpack=_unpack,
        evaluate=_evaluate,
    )
    return program, Spec(epochs=EPOCHS)


def twin(seed: int) -> tuple[Program, Spec]:
    program, spec = make(seed)
    program.loss_fn = _loss_repaired
    return program, spec
