"""The learning rates of fine-tuning decay from the first layer to the last instead of from the last to the first: the
new head, which knows nothing, gets the lowest rate of all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
EPOCHS = 30
RATE, DECAY = 1e-2, 0.1


def pretrain(encoder: nn.Module, x: Tensor, digits: Tensor, generator: torch.Generator) -> None:
    """Teach the encoder which digit a picture shows."""
    model = nn.Sequential(encoder, nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(20):
        for chosen in torch.randperm(len(x), generator=generator).split(64):
            noisy = x[chosen] + 0.3 * torch.randn(x[chosen].shape, generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(model(noisy), digits[chosen]).backward()
            optimizer.step()


def from_the_bottom(layers: list[nn.Module]) -> list[dict]:
    """Parameter groups with a rate that decays from layer to layer."""
    return [{"params": layer.parameters(), "lr": RATE * DECAY**depth} for depth, layer in enumerate(layers)]


def from_the_top(layers: list[nn.Module]) -> list[dict]:
    """Parameter groups with a rate that decays from layer to layer."""
    return [{"params": layer.parameters(), "lr": RATE * DECAY**depth} for depth, layer in enumerate(reversed(layers))]


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, groups: Callable[[list[nn.Module]], list[dict]]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    pictures, digits = load_digits(return_X_y=True)
    x = torch.tensor(pictures, dtype=torch.float32)
    y = torch.tensor(digits)
    order = torch.randperm(len(x), generator=generator)
    x, y = x[order], y[order]
    x = (x - x[:1000].mean()) / x[:1000].std()
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    pretrain(encoder, x[:1000], y[:1000], generator)
    odd = y % 2
    model = nn.Sequential(*encoder, nn.Linear(32, 2))
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    train, val = TensorDataset(x[1000:1160], odd[1000:1160]), TensorDataset(x[1160:], odd[1160:])
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(groups(layers), lr=RATE, weight_decay=1e-2),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=256),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, from_the_bottom)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, from_the_top)
