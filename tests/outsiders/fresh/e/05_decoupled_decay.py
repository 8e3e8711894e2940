"""Autoencoder: squeeze scanned digits to 12 numbers and restore them.

Fault: the optimizer is Adam with weight_decay=0.01 where AdamW was meant: the decay was tuned for AdamW, and in Adam
it is added to the gradient and then rescaled with it, so that it swamps the small gradients of a reconstruction. One
letter went missing when the optimizer became a setting of the configuration.

Measured (seeds 0 and 1): explained variance 0.00 and 0.00 faulty, 0.85 and 0.85 twin.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
CONFIG = {"lr": 3e-3, "weight_decay": 0.01}


class Autoencoder(nn.Module):
    def __init__(self, code=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, code))
        self.decoder = nn.Sequential(nn.Linear(code, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def explained(out, x):
    """Share of the pixels' variance that the reconstruction explains."""
    return (1 - ((out - x) ** 2).sum() / ((x - x.mean(0)) ** 2).sum()).item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    pixels = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    pixels = pixels[torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))]
    train, val = pixels[:1400], pixels[1400:]
    mean = train.mean(0)
    train, val = train - mean, val - mean
    model = Autoencoder()
    kind = torch.optim.AdamW if ok else torch.optim.Adam
    program = Program(
        model=model,
        optimizer=kind(model.parameters(), **CONFIG),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(TensorDataset(train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(val), 200),
        unpack=lambda batch: (batch[0], batch[0]),
        metric=explained,
    )
    return program, Spec(task="regression", epochs=30)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
