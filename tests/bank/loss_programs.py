"""Healthy programs for faults of the loss that need other targets than the four bases have."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .programs import PARTS, Data, Parts, changed, digits_data, make, r2, regression_data, sequence_data


def share_of_signs(outputs: Tensor, targets: Tensor) -> float:
    """Share of the scores whose sign is that of a label of 0 or 1."""
    return float(((outputs > 0) == (targets > 0.5)).float().mean())


def share_above_half(outputs: Tensor, targets: Tensor) -> float:
    """Share of the probabilities that are on the label's side of 0.5."""
    return float(((outputs > 0.5) == (targets > 0.5)).float().mean())


def odd_digits() -> Data:
    """Whether the digit is odd, as 0.0 or 1.0: [N, 1]."""
    data = digits_data()
    return Data(data.x, (data.y % 2)[:, None].float(), data.x_val, (data.y_val % 2)[:, None].float())


def digit_properties() -> Data:
    """Three questions to each digit: odd, five or more, with a closed loop: [N, 3]."""
    data = digits_data()

    def answers(y: Tensor) -> Tensor:
        return torch.stack([y % 2 == 1, y >= 5, torch.isin(y, torch.tensor([0, 6, 8, 9]))], dim=1).float()

    return Data(data.x, answers(data.y), data.x_val, answers(data.y_val))


def bright_squares() -> Data:
    """600 and 200 noisy images with a square of 5 pixels [N, 1, 12, 12], and where it is [N, 1, 12, 12]."""
    generator = torch.Generator().manual_seed(6)
    corner = torch.randint(0, 8, (800, 2), generator=generator)
    place = torch.arange(12)
    rows = (place >= corner[:, :1]) & (place < corner[:, :1] + 5)
    columns = (place >= corner[:, 1:]) & (place < corner[:, 1:] + 5)
    masks = (rows[:, :, None] & columns[:, None, :])[:, None].float()
    images = masks * 1.5 - 0.26 + torch.randn(masks.shape, generator=generator)
    return Data(images[:600], masks[:600], images[600:], masks[600:])


def short_sentences() -> Data:
    """The first four words of each sentence, none of them missing: words and tags [N, 4]."""
    data = sequence_data()
    return Data(data.x[:, :4], data.y[:, :4].clamp(max=3), data.x_val[:, :4], data.y_val[:, :4].clamp(max=3))


class Spread(nn.Module):
    """Six columns to the mean and the logarithm of the variance of the target: [B, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.head = nn.Linear(48, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def gaussian(outputs: Tensor, targets: Tensor) -> Tensor:
    """Negative logarithm of the normal density, up to a constant."""
    mean, log_variance = outputs.split(1, dim=1)
    return (0.5 * (log_variance + (targets - mean) ** 2 / log_variance.exp())).mean()


def adamw(learning_rate: float) -> Any:
    """Makes AdamW for a model."""
    return lambda model: torch.optim.AdamW(model.parameters(), lr=learning_rate)


def sgd(learning_rate: float) -> Any:
    """Makes SGD with momentum for a model."""
    return lambda model: torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)


# Learning rates at which SGD with momentum trains the bases: faults that only scale a gradient do not touch Adam.
SGD_RATES = {"digits": 0.03, "shapes": 0.05, "sequence": 0.3, "regression": 0.05}

OTHERS = {
    "binary": Parts(
        odd_digits,
        lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)),
        F.binary_cross_entropy_with_logits,
        adamw(3e-3),
        share_of_signs,
        Spec(task="multi-label", classes=1, epochs=12),
    ),
    "labels": Parts(
        digit_properties,
        lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)),
        F.binary_cross_entropy_with_logits,
        adamw(3e-3),
        share_of_signs,
        Spec(task="multi-label", classes=3, epochs=12),
    ),
    "masks": Parts(
        bright_squares,
        lambda: nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2)),
        F.binary_cross_entropy_with_logits,
        adamw(1e-2),
        share_of_signs,
        Spec(task="segmentation", classes=1, epochs=8),
    ),
    "density": Parts(
        regression_data,
        Spread,
        gaussian,
        adamw(5e-3),
        lambda outputs, targets: r2(outputs[:, :1], targets),
        Spec(epochs=30),
    ),
}


def parts_of(base: str, **parts: Any) -> Parts:
    """The parts of a base program or of one of OTHERS, with some of them replaced."""
    if base in PARTS:
        return changed(base, **parts)
    return Parts(**{**vars(OTHERS[base]), **parts})


def other(base: str, seed: int, of_program: dict[str, Any] | None = None, **parts: Any) -> tuple[Program, Spec]:
    """The program with the parts replaced."""
    return make(base, seed, parts=parts_of(base, **parts), **(of_program or {}))
