"""A variational autoencoder of handwritten digits, on standardised images.

Images are standardised with the training images' mean and deviation, encoded to 8 latent values and decoded; the loss
is the squared error summed over pixels plus the KL term, in the mean over the images. Evaluation decodes the latent
mean, and reports that loss and the root of the mean squared error of the reconstructed pixels, in grey levels of 0
to 16.

Fault: the decoder ends in a sigmoid, as if the images lay between 0 and 1: values below 0 (the background) and above 1
(the strokes) cannot be given. The twin's decoder ends in its linear layer.

Measured (seeds 0 and 1): RMSE in grey levels 4.436 and 4.470 with the fault, 2.288 and 2.294 in the twin.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "inputs")


class VAE(nn.Module):
    def __init__(self, sigmoid: bool, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * latent))
        last = [nn.Sigmoid()] if sigmoid else []
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 64), *last)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        z = mean
        if self.training:
            z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(z), mean, log_variance


def elbo_loss(outputs, images):
    decoded, mean, log_variance = outputs
    error = ((decoded - images) ** 2).sum(1)
    kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
    return (error + kl).mean()


def build(seed: int, sigmoid: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    images = torch.tensor(load_digits().data, dtype=torch.float32)
    train, val = train_test_split(torch.arange(len(images)), test_size=0.25, random_state=seed)
    mean, std = images[train].mean(), images[train].std()
    images = (images - mean) / std
    model = VAE(sigmoid)

    def evaluate(program):
        program.model.eval()
        loss = squared = count = 0.0
        with torch.no_grad():
            for (batch,) in program.val_loader:
                outputs = program.model(batch)
                loss += float(program.loss_fn(outputs, batch)) * len(batch)
                squared += float(((outputs[0] - batch) ** 2).mean(1).sum())
                count += len(batch)
        program.model.train()
        return {"loss": loss / count, "rmse": float(std) * (squared / count) ** 0.5}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=4e-3),
        loss_fn=elbo_loss,
        train_loader=DataLoader(TensorDataset(images[train]), batch_size=64, shuffle=True),
        val_loader=DataLoader(TensorDataset(images[val]), batch_size=150),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, Spec(task=None, epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, sigmoid=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, sigmoid=False)
