"""A variational autoencoder of scikit-learn's 8 by 8 digits: six latent numbers, Bernoulli pixels. Reported are the
bound on the log likelihood per image and the share of the pixels' variance that is reconstructed from the latent
means.

Fault: the loss adds the reconstruction averaged over pixels and images to a divergence that is summed over latents
and images. The divergence weighs 3200 times too much (64 pixels, 50 images), and the posterior collapses to the
prior: all digits are reconstructed as the mean one. The twin sums both over an image and averages both over the
batch.

Measured (seeds 0 and 1): share reconstructed on validation -0.01 and -0.01, the twin 0.64 and 0.63; bound -27.3 and
-27.2, the twin -22.6 and -22.8.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
LATENT = 6
SPEC = Spec(epochs=60)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, image):
        mean, log_variance = self.encoder(image - 0.3).chunk(2, dim=1)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(code), mean, log_variance


def terms(outputs, image):
    """Reconstruction loss of each pixel and divergence of each latent."""
    logits, mean, log_variance = outputs
    pixels = F.binary_cross_entropy_with_logits(logits, image, reduction="none")
    return pixels, -0.5 * (1 + log_variance - mean**2 - log_variance.exp())


def loss_mixed(outputs, image):
    pixels, divergence = terms(outputs, image)
    return pixels.mean() + divergence.sum()


def loss_per_image(outputs, image):
    pixels, divergence = terms(outputs, image)
    return pixels.sum(1).mean() + divergence.sum(1).mean()


def evaluate(program):
    was_training = program.model.training
    program.model.eval()
    bound, error, spread, count = 0.0, 0.0, 0.0, 0
    with torch.no_grad():
        for (image,) in program.val_loader:
            outputs = program.outputs(image)
            pixels, divergence = terms(outputs, image)
            bound -= (pixels.sum() + divergence.sum()).item()
            error += ((torch.sigmoid(outputs[0]) - image) ** 2).sum().item()
            spread += ((image - image.mean(0)) ** 2).sum().item()
            count += len(image)
    program.model.train(was_training)
    return {"bound": bound / count, "reconstructed": 1 - error / spread}


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    images = torch.tensor(load_digits().data / 16, dtype=torch.float32)[torch.tensor(rng.permutation(1797))]
    model = Autoencoder()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss_mixed if faulty else loss_per_image,
        train_loader=DataLoader(
            TensorDataset(images[:1400]), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(images[1400:]), batch_size=397),
        unpack=lambda batch: (batch[0], batch[0]),
        evaluate=evaluate,
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
