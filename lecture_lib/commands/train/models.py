"""The models and optimizers that `lecture train` offers."""

from __future__ import annotations

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from ...data import ImageData
from ...training import parameter_groups

MODELS = ("mlp", "cnn")
OPTIMIZERS = ("sgd", "adamw")


def make_model(name: str, data: ImageData) -> nn.Module:
    """A small model for images [N, C, H, W]; without batch statistics, so that it is the same in several processes."""
    channels, height, width = data.train[0].shape[1:]
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * height * width, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, data.classes),
        )
    layers: list[nn.Module] = []
    for wide in (32, 64, 128):
        layers += [nn.Conv2d(channels, wide, 3, padding=1, bias=False), nn.GroupNorm(8, wide), nn.ReLU()]
        layers += [nn.MaxPool2d(2, ceil_mode=True)]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, data.classes))


def make_optimizer(name: str, model: nn.Module) -> Optimizer:
    """SGD with Nesterov momentum or AdamW, without decay on biases and norms; the schedule sets the rate."""
    if name == "sgd":
        return SGD(parameter_groups(model, weight_decay=5e-4), lr=0.1, momentum=0.9, nesterov=True)
    return AdamW(parameter_groups(model, weight_decay=0.01), lr=1e-3)
