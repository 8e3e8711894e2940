"""A variational autoencoder of handwritten digits (8 x 8, scikit-learn), eight latent dimensions.

Fault: the reconstruction term is the mean over the pixels, the KL term the sum over the latent dimensions, so the KL
term weighs 64 times too much and the latent variables carry nothing. The twin sums both.

Measured (seeds 0 and 1): latent dimensions whose mean varies 0 and 0 with the fault, 8 and 7 in the twin; squared error
of reconstructions of held-out digits 0.0745 and 0.0722, 0.0291 and 0.0285 in the twin.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
SPEC = Spec(epochs=40)


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp() if self.training else mean
        return self.decoder(z), mean, log_var


def kl(mean, log_var):
    return -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()


def elbo_mean(outputs, x):
    logits, mean, log_var = outputs
    return F.binary_cross_entropy_with_logits(logits, x) + kl(mean, log_var)


def elbo_sum(outputs, x):
    logits, mean, log_var = outputs
    return F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x) + kl(mean, log_var)


def evaluate(program):
    """Loss, and the squared error of the reconstructions, per pixel."""
    program.model.eval()
    loss, error, count = 0.0, 0.0, 0
    with torch.no_grad():
        for x, _ in program.val_loader:
            outputs = program.model(x)
            loss += program.loss_fn(outputs, x).item() * len(x)
            error += ((outputs[0].sigmoid() - x) ** 2).mean(1).sum().item()
            count += len(x)
    return {"loss": loss / count, "reconstruction_mse": error / count}


def build(seed, loss_fn):
    torch.manual_seed(seed)
    images, labels = load_digits(return_X_y=True)
    x, val_x, y, val_y = train_test_split(images / 16, labels, test_size=400, random_state=seed, stratify=labels)
    train = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
    val = TensorDataset(torch.tensor(val_x, dtype=torch.float32), torch.tensor(val_y))
    model = VAE()
    return Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 200),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )


def make(seed):
    return build(seed, elbo_mean), SPEC


def twin(seed):
    return build(seed, elbo_sum), SPEC
