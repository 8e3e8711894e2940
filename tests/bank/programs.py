"""The four healthy programs that the bank's faults are put into.

Each factory takes the parts that a case replaces, as functions of nothing, called after the seed is set: a case with
another model writes `digits(seed, model=lambda: nn.Sequential(...))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import load_digits, shapes
from lecture_lib.debugging import Program, Spec

BASES = ("digits", "shapes", "sequence", "regression")
PAD, WORDS, TAGS = 0, 20, 5


@dataclass(frozen=True)
class Data:
    """Tensors of both splits; a case may change them."""

    x: Tensor
    y: Tensor
    x_val: Tensor
    y_val: Tensor


@dataclass
class Parts:
    """What a base program is made of."""

    data: Callable[[], Data]
    model: Callable[[], nn.Module]
    loss_fn: Callable[[Any, Any], Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    metric: Callable[[Any, Any], float]
    spec: Spec
    batch_size: int = 64


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Share of the highest outputs that are at the label; -100 does not count."""
    predicted = outputs.argmax(dim=1)
    return float((predicted == targets)[targets != -100].float().mean())


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Share of the targets' variance that is explained."""
    return 1 - float(F.mse_loss(outputs, targets) / targets.var(unbiased=False))


def digits_data() -> Data:
    """900 and 300 real digits, standardised with training's mean and deviation: [N, 64]."""
    found = load_digits()
    x, y = found.images.flatten(1), found.labels
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, val = order[:900], order[900:1200]
    mean, deviation = x[train].mean(), x[train].std()
    return Data((x[train] - mean) / deviation, y[train], (x[val] - mean) / deviation, y[val])


@lru_cache
def shapes_data() -> Data:
    """800 and 300 rendered images: [N, 1, 16, 16]."""
    rates = dict.fromkeys(("blur", "threshold", "ambiguous label"), 0.02)
    drawn = shapes(1100, seed=5, size=16, rates=rates, background="plain")
    x = (drawn.images - drawn.images[:800].mean()) / drawn.images[:800].std()
    return Data(x[:800], drawn.labels[:800], x[800:], drawn.labels[800:])


def sequence_data() -> Data:
    """700 and 250 sentences of 4 to 12 words [N, 12], filled up with PAD; a tag depends on the word before, too."""
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(1, WORDS, (950, 12), generator=generator)
    lengths = torch.randint(4, 13, (950,), generator=generator)
    before = torch.cat([torch.zeros(950, 1, dtype=torch.long), words[:, :-1]], dim=1)
    tags = (words + 2 * (before % 2)) % TAGS
    padding = torch.arange(12) >= lengths[:, None]
    words[padding], tags[padding] = PAD, -100
    return Data(words[:700], tags[:700], words[700:], tags[700:])


def regression_data() -> Data:
    """800 and 300 rows of six standardised columns, targets [N, 1] of mean 0 and deviation 1, a tenth of it noise."""
    generator = np.random.default_rng(4)
    x = generator.normal(size=(1100, 6))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] + generator.normal(0, 0.4, 1100)
    y = (y - y[:800].mean()) / y[:800].std()
    found = torch.tensor(x, dtype=torch.float32), torch.tensor(y[:, None], dtype=torch.float32)
    return Data(found[0][:800], found[1][:800], found[0][800:], found[1][800:])


class Tagger(nn.Module):
    """Ids [B, T] to scores of tags [B, C, T], looking back only."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


def mlp() -> nn.Module:
    """For the digits."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn() -> nn.Module:
    """For the shapes."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(24 * 16, 5)),
    )


def small_regressor() -> nn.Module:
    """For the six columns."""
    return nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))


def masked_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean over the words."""
    return F.cross_entropy(outputs, targets, ignore_index=-100)


PARTS = {
    "digits": Parts(
        digits_data,
        mlp,
        F.cross_entropy,
        lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
        accuracy,
        Spec(task="classification", classes=10, epochs=12),
    ),
    "shapes": Parts(
        shapes_data,
        cnn,
        F.cross_entropy,
        lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        accuracy,
        Spec(task="classification", classes=5, epochs=16),
    ),
    "sequence": Parts(
        sequence_data,
        Tagger,
        masked_cross_entropy,
        lambda model: torch.optim.AdamW(model.parameters(), lr=5e-3),
        accuracy,
        Spec(task="sequence", classes=TAGS, epochs=12, ignore_index=-100, padding_index=PAD, causal=True),
    ),
    "regression": Parts(
        regression_data,
        small_regressor,
        F.mse_loss,
        lambda model: torch.optim.AdamW(model.parameters(), lr=5e-3),
        r2,
        Spec(task="regression", epochs=30),
    ),
}


def make(
    base: str, seed: int, spec: Spec | None = None, parts: Parts | None = None, **of_program: Any
) -> tuple[Program, Spec]:
    """A base program.

    Args:
        base: its name in PARTS.
        seed: of the weights and of the order of the examples.
        spec: what the author means; default: that of the base.
        parts: other parts, see `changed`; default: those of the base.
        of_program: fields of Program, such as train_epoch or evaluate, or train_loader in place of the usual one.

    """
    parts = parts or PARTS[base]
    torch.manual_seed(seed)
    data = parts.data()
    model = parts.model()
    order = torch.Generator().manual_seed(seed)
    fields: dict[str, Any] = {
        "model": model,
        "optimizer": parts.optimizer(model),
        "loss_fn": parts.loss_fn,
        "train_loader": DataLoader(TensorDataset(data.x, data.y), parts.batch_size, shuffle=True, generator=order),
        "val_loader": DataLoader(TensorDataset(data.x_val, data.y_val), parts.batch_size),
        "metric": parts.metric,
    }
    return Program(**{**fields, **of_program}), spec or parts.spec


def changed(base: str, **parts: Any) -> Parts:
    """The parts of a base program with some of them replaced."""
    return replace(PARTS[base], **parts)
