"""A variational autoencoder of the 8 x 8 digits, from which new digits are to be drawn.

Fault: the reconstruction is summed over the pixels, but the Kullback-Leibler term is averaged over the latent
dimensions as well as over the batch, so it counts a sixteenth of what it should, the codes fly apart, and draws from
the prior lie far from any digit. The twin sums both.

Measured (seeds 0 and 1): the validation digits' negative evidence bound, both terms summed, is 38.4 and 37.9 nats for
the faulty program and 24.6 and 24.5 for the twin; of 2,000 draws from the prior 0.42 and 0.43 lie among real digits
(within the third neighbour's distance of one) against 0.88 and 0.85 for the twin, whose draws are more alike. The loss
it reports is the lower one: 17.1 and 17.2 against 23.1 and 22.8.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
SPEC = Spec(epochs=40)
LATENT = 16


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.decoder(z), mu, logvar


def elbo_mean_kl(outputs, x):
    logits, mu, logvar = outputs
    reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
    return reconstruction + kl


def elbo(outputs, x):
    logits, mu, logvar = outputs
    reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    return reconstruction + kl


def itself(batch):
    return batch[0], batch[0]


def build(seed, faulty):
    torch.manual_seed(seed)
    x = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    order = torch.randperm(len(x))
    train, val = TensorDataset(x[order[:1300]]), TensorDataset(x[order[1300:]])
    model = VAE()
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=elbo_mean_kl if faulty else elbo,
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 128),
        unpack=itself,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
