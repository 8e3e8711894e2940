"""The models, optimizers, losses and schedules that `lecture train` offers."""

from __future__ import annotations

from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from ...data import ImageData
from ...training import one_cycle, parameter_groups, step_decay, warmup_cosine, with_warmup
from ...training.types import Schedule

MODELS = ("mlp", "cnn")
OPTIMIZERS = ("sgd", "adamw")
LOSSES = ("cross-entropy", "smoothed")
SCHEDULES = ("one-cycle", "cosine", "step", "constant")


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


def make_loss(name: str) -> nn.Module:
    """Cross-entropy, or cross-entropy with label smoothing 0.1."""
    return nn.CrossEntropyLoss(label_smoothing=0.1 if name == "smoothed" else 0.0)


def make_schedule(name: str, rate: float) -> Schedule:
    """A schedule with this peak; all but one-cycle, which has a rise of its own, begin with a warm-up of a tenth."""
    if name == "one-cycle":
        return one_cycle(rate)
    if name == "cosine":
        return _from(rate, warmup_cosine(0.1))
    if name == "step":
        return _from(rate, with_warmup(step_decay(1 / 3), 0.1))
    return _from(rate, with_warmup(lambda optimizer, _: LambdaLR(optimizer, lambda step: 1.0), 0.1))


def _from(rate: float, schedule: Schedule) -> Schedule:
    """The schedule, with this rate instead of the optimizer's own; the groups keep their ratio to the first."""

    def started(optimizer: Optimizer, total_steps: int) -> LRScheduler:
        first = float(optimizer.param_groups[0]["lr"])
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * rate / first
        return schedule(optimizer, total_steps)

    return started
