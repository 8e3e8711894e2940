"""Compressing 8 by 8 patches of two photographs to four codes each: a vector-quantised autoencoder.

Fault: in the straight-through step z and q have changed places: `q + (z - q).detach()` instead of
`z + (q - z).detach()`.
Forwards, the decoder gets the unquantised z, so that the reported error says nothing of the codes; backwards, the
gradient goes into the codebook instead of the encoder, which only follows the codes and collapses onto a few. The
line is usually written from memory, and both orders look alike.

Measured (seeds 0 and 1): squared error from the codes themselves 0.135 and 0.242 after 15 epochs (reported: 0.104
and 0.233), with 3 and 5 of 32 codes in use; twin 0.086 and 0.088, reported alike, with 16 and 21 codes.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_sample_images
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")

PATCH, SLOTS, WIDTH, CODES, COMMITMENT = 8, 4, 8, 32, 0.25


def patches(first_column: int, last_column: int, count: int, generator: torch.Generator) -> Tensor:
    """Grey patches (count, 64) from these columns of the two photographs, standardised by fixed numbers."""
    found = []
    for image in load_sample_images().images:
        grey = torch.tensor(image, dtype=torch.float32).mean(2)[:, first_column:last_column]
        found.append(grey.unfold(0, PATCH, PATCH).unfold(1, PATCH, PATCH).reshape(-1, PATCH * PATCH))
    rows = torch.cat(found)
    return (rows[torch.randperm(len(rows), generator=generator)[:count]] - 110) / 70


class Quantiser(nn.Module):
    """Replaces each vector by the nearest of a codebook and hands the gradient straight through."""

    def __init__(self, exchanged: bool) -> None:
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(CODES, WIDTH))
        self.exchanged = exchanged

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors for the decoder, and what pulls codes and vectors together."""
        nearest = torch.cdist(z.detach(), self.codebook.detach()).argmin(-1)
        q = self.codebook[nearest]
        pull = F.mse_loss(q, z.detach()) + COMMITMENT * F.mse_loss(z, q.detach())
        through = q + (z - q).detach() if self.exchanged else z + (q - z).detach()
        return through, pull


class Autoencoder(nn.Module):
    """Encoder, quantiser and decoder of a patch."""

    def __init__(self, exchanged: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PATCH * PATCH, 96), nn.ReLU(), nn.Linear(96, SLOTS * WIDTH), nn.Unflatten(1, (SLOTS, WIDTH))
        )
        self.quantiser = Quantiser(exchanged)
        self.decoder = nn.Sequential(
            nn.Flatten(), nn.Linear(SLOTS * WIDTH, 96), nn.ReLU(), nn.Linear(96, PATCH * PATCH)
        )

    def forward(self, patch: Tensor) -> tuple[Tensor, Tensor]:
        """The patch again, and the quantiser's part of the loss."""
        through, pull = self.quantiser(self.encoder(patch))
        return self.decoder(through), pull


def loss(outputs: tuple[Tensor, Tensor], patch: Tensor) -> Tensor:
    """Squared error and the quantiser's part."""
    return F.mse_loss(outputs[0], patch) + outputs[1]


def report(program: Program) -> dict[str, float]:
    """Squared error over the validation patches."""
    program.model.eval()
    with torch.no_grad():
        errors = [(program.model(patch)[0] - target).square().mean(1) for patch, target in program.val_loader]
    program.model.train()
    return {"squared_error": torch.cat(errors).mean().item()}


def build(seed: int, exchanged: bool) -> tuple[Program, Spec]:
    """The program, with z and q exchanged in the straight-through step or in their places."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = patches(0, 480, 4000, generator)
    val = patches(480, 640, 1500, generator)

    model = Autoencoder(exchanged)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=loss,
        train_loader=DataLoader(TensorDataset(train, train), 64, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val, val), 500),
        evaluate=report,
    )
    return program, Spec(epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, exchanged=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the gradient handed to the encoder."""
    return build(seed, exchanged=False)
