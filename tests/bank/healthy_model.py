"""Models that are meant to be as they are: shared weights, few gradients, few active units, softmax inside."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import OWN, TiedLanguage, own
from .programs import PAD, PARTS, TAGS, WORDS, Data, Parts, accuracy, changed, make


@case("K09", "the head's weight is the embedding's", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=OWN[base])


class Functional(TiedLanguage):
    """The embedding's weight is used twice, without a second module."""

    def tie(self) -> None:
        """Leave one weight."""
        del self.head
        self.bias = nn.Parameter(torch.zeros(WORDS))

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return F.linear(hidden, self.embedding.weight, self.bias).transpose(1, 2)


@case("K09", "the embedding's weight in F.linear", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(OWN[base].spec, tied=()), own(base, model=Functional))


def documents(vocabulary: int) -> Data:
    """1,600 and 400 documents of six words; which of two lists of frequent words they hold gives the class."""
    generator = torch.Generator().manual_seed(9)
    labels = torch.randint(2, (2000,), generator=generator)
    common = torch.randint(0, 30, (2000, 3), generator=generator) + 30 * labels[:, None]
    rare = torch.randint(60, vocabulary, (2000, 3), generator=generator)
    words = torch.cat([common * (vocabulary // 100), rare], dim=1)
    return Data(words[:1600], labels[:1600], words[1600:], labels[1600:])


class Bag(nn.Module):
    """Ids [B, T] to scores of classes by the mean of the words."""

    def __init__(self, vocabulary: int, width: int = 16, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, width, sparse=sparse)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids))


def bag_parts(vocabulary: int, rate: float = 1e-2) -> Parts:
    """A program with documents."""
    return Parts(
        lambda: documents(vocabulary),
        lambda: Bag(vocabulary),
        F.cross_entropy,
        lambda model: torch.optim.Adam(model.parameters(), lr=rate),
        accuracy,
        Spec(task="classification", classes=2, epochs=5),
        batch_size=32,
    )


@case("K10", "2,000 words, six in a document", "documents")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=bag_parts(2000))


class TwoOptimizers(Bag):
    """The same with sparse gradients."""

    def __init__(self) -> None:
        super().__init__(2000, sparse=True)


@case("K10", "sparse gradients", "documents")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = replace(
        bag_parts(2000), model=TwoOptimizers, optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=5.0)
    )
    return make(base, seed, parts=parts)


@case("K17", "ids up to 50,000", "documents")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = replace(bag_parts(50_000), model=lambda: Bag(50_000, width=4))
    return make(base, seed, parts=parts)


@case("K17", "words of the tagger", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed)


@case("K11", "dropout between layers", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    share = {"digits": 0.3, "shapes": 0.1, "sequence": 0.2, "regression": 0.05}[base]

    def model() -> nn.Module:
        made = PARTS[base].model()
        if base == "sequence":
            made.head = nn.Sequential(nn.Dropout(share), made.head)
            return made
        last = len(made) - 1
        return nn.Sequential(*made[:last], nn.Dropout(share), made[last])

    return make(base, seed, parts=changed(base, model=model))


@case("K11", "dropout of inputs", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model(F.dropout(x, 0.1, training=model.training))

    return make(base, seed, forward=forward)


@case("K14", "thresholds at a quantile", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    x = PARTS[base].data().x

    def model() -> nn.Module:
        made = nn.Sequential(nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 1))
        with torch.no_grad():
            made[0].bias.copy_(-(x @ made[0].weight.T).quantile(0.88, dim=0))
        return made

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=2e-3)

    return make(base, seed, parts=changed(base, model=model, optimizer=adam))


@case("K14", "norms with a low bias", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "digits":
            made = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 10))
        else:
            made = PARTS[base].model()
        nn.init.kaiming_normal_(made[0].weight)
        nn.init.constant_(made[1].bias, -0.9)
        return made

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=2e-3)

    # 900 or 800 examples in batches of 50: no small one at the end disturbs the norms.
    return make(base, seed, parts=changed(base, model=model, optimizer=adam, batch_size=50))


class Experts(nn.Module):
    """Four experts; a gate says how much each counts."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, 24), nn.Tanh(), nn.Linear(24, outputs)) for _ in range(4)
        )
        self.gate = nn.Sequential(nn.Linear(inputs, 4), nn.Softmax(dim=1))

    def forward(self, x: Tensor) -> Tensor:
        each = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (self.gate(x)[:, :, None] * each).sum(dim=1)


@case("K21", "gate of experts", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    sizes = (64, 10) if base == "digits" else (6, 1)
    return make(base, seed, parts=changed(base, model=lambda: Experts(*sizes)))


class Attentive(nn.Module):
    """A tagger with attention to earlier words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32, padding_idx=PAD)
        self.positions = nn.Parameter(0.5 * torch.randn(64, 32))
        self.project = nn.Linear(32, 96)
        self.softmax = nn.Softmax(dim=-1)
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, TAGS))

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids)
        query, key, value = self.project(words + self.positions[: ids.shape[1]]).chunk(3, dim=2)
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        scores = (query @ key.transpose(1, 2) / 32**0.5).masked_fill(later, -torch.inf)
        return self.head(torch.cat([words, self.softmax(scores) @ value], dim=2)).transpose(1, 2)


@case("K21", "attention", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    spec = replace(PARTS[base].spec, epochs=20)
    return make(base, seed, spec, changed(base, model=Attentive))
