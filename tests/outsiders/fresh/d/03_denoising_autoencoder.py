"""A denoising autoencoder of the digits: noisy 8x8 image in, clean image out.

Fault: `torch.optim.Adam(..., weight_decay=3e-3)`: the decay was tuned with AdamW, where it is decoupled from the
gradient, and somebody "simplified" the optimizer's name. Adam adds it to the gradient before its normalisation, and
as the gradients of a mean over 64 pixels are small, the decay is most of what the steps follow. The loss still falls,
and stops early with blurred images.

Measured, mean squared error of the validation images in pixel units of 0..1 (lower is better), faulty / twin: seed 0:
0.0556 / 0.0195; seed 1: 0.0536 / 0.0187.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
SIGMA = 0.25


class Noisy(Dataset):
    """Clean images with new noise each time."""

    def __init__(self, clean):
        self.clean = clean

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, index):
        clean = self.clean[index]
        return {"noisy": clean + SIGMA * torch.randn_like(clean), "clean": clean}


class Fixed(TensorDataset):
    """The same noise each time, for validation."""

    def __getitem__(self, index):
        noisy, clean = super().__getitem__(index)
        return {"noisy": noisy, "clean": clean}


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 24))
        self.decoder = nn.Sequential(nn.Linear(24, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x - 0.3))


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, val = train_test_split(images, test_size=0.25, random_state=seed)
    fixed = val + SIGMA * torch.randn(val.shape, generator=torch.Generator().manual_seed(seed + 9))
    model = Autoencoder()
    kind = torch.optim.AdamW if ok else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=2e-3, weight_decay=3e-3)
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        optimizer,
        nn.MSELoss(),
        train_loader=DataLoader(Noisy(train), batch_size=64, shuffle=True, generator=shuffle),
        val_loader=DataLoader(Fixed(fixed, val), batch_size=128),
        unpack=lambda batch: (batch["noisy"], batch["clean"]),
    )
    return program, Spec(task="regression", epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
