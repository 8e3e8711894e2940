"""Healthy programs of our own, for rows that need a pretrained model, tied weights or sentences of several lengths."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.data import load_digits, shapes
from lecture_lib.debugging import Spec

from .programs import PAD, PARTS, WORDS, Data, Parts, accuracy, replace


class FineTuned(nn.Module):
    """A backbone that was trained before, and a new head."""

    def __init__(self, backbone: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def digits_model() -> FineTuned:
    """Untrained, for digits."""
    return FineTuned(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU()), 32, 10)


def shapes_model() -> FineTuned:
    """Untrained, for shapes."""
    backbone = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
    )
    return FineTuned(backbone, 24 * 16, 5)


@lru_cache
def earlier_weights(base: str) -> dict[str, Tensor]:
    """The backbone's weights after training on examples that are not in the base's data."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(17)
        if base == "digits":
            found, model = load_digits(), digits_model()
            order = torch.randperm(len(found.labels), generator=torch.Generator().manual_seed(0))
            x, y = found.images.flatten(1)[order], found.labels[order]
            x, y = (x[1200:] - x[:900].mean()) / x[:900].std(), y[1200:]
        else:
            drawn, model = shapes(600, seed=11, size=16), shapes_model()
            x, y = (drawn.images - drawn.images.mean()) / drawn.images.std(), drawn.labels
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        for _ in range(12):
            for rows in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                F.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
        return {name: value.clone() for name, value in model.backbone.state_dict().items()}


def pretrained_digits() -> FineTuned:
    """Backbone trained on other digits, new head."""
    model = digits_model()
    model.backbone.load_state_dict(earlier_weights("digits"))
    return model


def pretrained_shapes() -> FineTuned:
    """Backbone trained on other shapes, new head."""
    model = shapes_model()
    model.backbone.load_state_dict(earlier_weights("shapes"))
    return model


class TiedLanguage(nn.Module):
    """Ids [B, T] to scores of the next word [B, words, T]; the head's weight is the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.memory = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, WORDS, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.2)
        self.tie()

    def tie(self) -> None:
        """Make both weights one."""
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@lru_cache
def language_data() -> Data:
    """700 and 200 walks of 11 steps: after most words, one of two others follows."""
    generator = torch.Generator().manual_seed(8)
    after = torch.randint(WORDS, (WORDS, 2), generator=generator)
    words = [torch.randint(WORDS, (900,), generator=generator)]
    for _ in range(11):
        known = after[words[-1], (torch.rand(900, generator=generator) < 0.3).long()]
        other = torch.randint(WORDS, (900,), generator=generator)
        words.append(torch.where(torch.rand(900, generator=generator) < 0.9, known, other))
    walks = torch.stack(words, dim=1)
    return Data(walks[:700, :-1], walks[:700, 1:], walks[700:, :-1], walks[700:, 1:])


class Pooled(nn.Module):
    """Ids [B, T] to scores of a class of the sentence, from the mean of its words; PAD does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, ids: Tensor) -> Tensor:
        words = (ids != PAD)[..., None]
        return self.head((self.embedding(ids) * words).sum(dim=1) / words.sum(dim=1))


@lru_cache
def sentences_data() -> Data:
    """700 and 250 sentences of 3 to 12 words, filled up; the class is the third that the words' mean value is in."""
    generator = torch.Generator().manual_seed(6)
    words = torch.randint(1, WORDS, (950, 12), generator=generator)
    present = torch.arange(12) < torch.randint(3, 13, (950, 1), generator=generator)
    value = torch.randn(WORDS, generator=generator) + 1
    mean = (value[words] * present).sum(dim=1) / present.sum(dim=1)
    labels = torch.bucketize(mean, mean.quantile(torch.tensor([1 / 3, 2 / 3])))
    words[~present] = PAD
    return Data(words[:700], labels[:700], words[700:], labels[700:])


OWN = {
    "pretrained digits": replace(
        PARTS["digits"],
        model=pretrained_digits,
        spec=Spec(task="classification", classes=10, epochs=8),
    ),
    "pretrained shapes": replace(
        PARTS["shapes"],
        model=pretrained_shapes,
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
        spec=Spec(task="classification", classes=5, epochs=8),
    ),
    "language": Parts(
        language_data,
        TiedLanguage,
        F.cross_entropy,
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2),
        accuracy,
        Spec(task="sequence", classes=WORDS, epochs=8, causal=True, tied=(("embedding.weight", "head.weight"),)),
    ),
    "sentences": Parts(
        sentences_data,
        Pooled,
        F.cross_entropy,
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2),
        accuracy,
        Spec(task="classification", classes=3, epochs=15, padding_index=PAD),
    ),
}


def own(base: str, **parts: Any) -> Parts:
    """The parts of any base program, of programs.py or of here, with some of them replaced."""
    return replace({**PARTS, **OWN}[base], **parts)
