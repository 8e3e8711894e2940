"""A variational autoencoder of the digits with eight latent dimensions.

Fault: the reconstruction is averaged over the 64 pixels while the divergence is summed over the latent dimensions, so
that the divergence weighs 64 times too much and the code collapses to the prior; the twin sums both and averages over
the batch.

Measured (seeds 0 and 1): share of the pixels' variance that the reconstruction explains on validation -0.003 and
-0.006 with the fault, 0.615 and 0.620 in the twin.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=128, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU())
        self.mu, self.log_var = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, x):
        h = self.encoder(x)
        mu, log_var = self.mu(h), self.log_var(h)
        z = mu + torch.randn_like(mu) * (0.5 * log_var).exp() if self.training else mu
        return self.decoder(z), mu, log_var


def elbo(reduction):
    def loss(outputs, x):
        logits, mu, log_var = outputs
        if reduction == "mean":
            reconstruction = F.binary_cross_entropy_with_logits(logits, x)
        else:
            reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + log_var - mu**2 - log_var.exp()).sum(1).mean()
        return reconstruction + divergence

    return loss


@torch.no_grad()
def evaluate(program):
    was = program.model.training
    program.model.eval()
    error, spread, loss, seen = 0.0, 0.0, 0.0, 0
    centre = torch.cat([x for x, _ in program.val_loader]).mean(0)
    for x, _ in program.val_loader:
        outputs = program.model(x)
        loss += program.loss_fn(outputs, x).item() * len(x)
        seen += len(x)
        error += ((outputs[0].sigmoid() - x) ** 2).sum().item()
        spread += ((x - centre) ** 2).sum().item()
    program.model.train(was)
    return {"loss": loss / seen, "explained": 1 - error / spread}


def build(seed, reduction):
    torch.manual_seed(seed)
    raw = load_digits()
    x, y = torch.tensor(raw.data, dtype=torch.float32) / 16, torch.tensor(raw.target)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    model = VAE()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=elbo(reduction),
        train_loader=DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=50, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=200),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, Spec(epochs=40)


def make(seed):
    return build(seed, "mean")


def twin(seed):
    return build(seed, "sum")
