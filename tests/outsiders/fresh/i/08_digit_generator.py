"""Generation: a variational autoencoder with eight latent dimensions learns to draw handwritten digits (8 x 8 pixels).

Fault: The reconstruction loss is the mean over all pixels (the default reduction), the divergence a sum over the
latent dimensions: the divergence weighs 64 times too much and the code collapses to the prior. The twin sums the
reconstruction over the pixels of an image, as the evidence bound does.

Measured (seeds 0 and 1): validation squared error per image 4.71 and 4.74 with the fault (all outputs are the mean
image; divergence 0.000 nats), 1.98 and 1.95 in the twin (2.8 nats).
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS = 40
PIXELS, LATENT = 64, 8


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, PIXELS))

    def forward(self, images):
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def divergence(mean, log_variance):
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()


def loss(outputs, images):
    logits, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy_with_logits(logits, images)
    return reconstruction + divergence(mean, log_variance)


def loss_twin(outputs, images):
    logits, mean, log_variance = outputs
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="none").sum(1).mean()
    return reconstruction + divergence(mean, log_variance)


@torch.no_grad()
def evaluate(program):
    was = program.model.training
    program.model.eval()
    error, nats, count = 0.0, 0.0, 0
    for batch in program.val_loader:
        images, _ = program.parts(batch)
        logits, mean, log_variance = program.outputs(images)
        error += float((logits.sigmoid() - images).square().sum())
        nats += float(divergence(mean, log_variance)) * len(images)
        count += len(images)
    program.model.train(was)
    return {"squared_error": error / count, "divergence": nats / count}


def build(seed, loss_fn):
    torch.manual_seed(seed)
    images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, val = train_test_split(images, test_size=0.25, random_state=seed)
    model = Autoencoder()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(train), batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(val), batch_size=150),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, Spec(epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, loss_twin)
