"""Deep models without what carries gradients through them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PAD, TAGS, WORDS, changed, make

SIZES = {"digits": (64, 10), "regression": (6, 1)}


def sigmoid_stack(inputs: int, outputs: int, depth: int = 8) -> nn.Sequential:
    """Sigmoid layers and a linear one."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Linear(inputs if i == 0 else 40, 40), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(40, outputs))


def sigmoid_convolutions(depth: int = 7) -> nn.Sequential:
    """The same for the shapes."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Conv2d(1 if i == 0 else 8, 8, 3, padding=1, stride=2 if i == 1 else 1), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64, 5))


class SigmoidTagger(nn.Module):
    """A tagger with eight sigmoid layers between memory and head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 40, batch_first=True)
        self.head = sigmoid_stack(40, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Plain gradient descent with momentum."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@case("A07", "eight sigmoid layers", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {"shapes": sigmoid_convolutions, "sequence": SigmoidTagger}
    model = models.get(base) or (lambda: sigmoid_stack(*SIZES[base]))
    return make(base, seed, parts=changed(base, model=model, optimizer=sgd))


class Squashed(nn.Module):
    """Twelve blocks, each squashed by softsign of softsign, with no way around."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.entry = nn.Linear(inputs, 32)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))
        self.exit = nn.Linear(32, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.entry(x))
        for block in self.blocks:
            x = nn.functional.softsign(block(x))
        return self.exit(x)


class SquashedTagger(nn.Module):
    """A tagger with twelve squashed layers behind its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.deep = Squashed(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.deep(hidden).transpose(1, 2)


@case("A07", "twelve blocks without a way around", "digits", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    model = SquashedTagger if base == "sequence" else lambda: Squashed(*SIZES[base])
    return make(base, seed, parts=changed(base, model=model, optimizer=sgd))


class Growing(nn.Module):
    """Residual blocks that each add as much as came in, and no norm."""

    def __init__(self, inputs: int, outputs: int, depth: int = 16) -> None:
        super().__init__()
        self.entry = nn.Linear(inputs, 32)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))
        self.exit = nn.Linear(32, outputs)
        for block in self.blocks:
            nn.init.kaiming_normal_(block.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.exit(x)


class GrowingImages(nn.Module):
    """The same with convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(12))
        self.exit = nn.Linear(8 * 64, 5)
        for block in self.blocks:
            nn.init.kaiming_normal_(block.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.exit(x.flatten(1))


class GrowingTagger(nn.Module):
    """The same behind a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.deep = Growing(32, TAGS, 24)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.deep(hidden).transpose(1, 2)


@case("A08", "residual blocks without norm", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {"shapes": GrowingImages, "sequence": GrowingTagger}
    return make(
        base, seed, parts=changed(base, model=models.get(base) or (lambda: Growing(*SIZES[base])), optimizer=sgd)
    )


class Recurrence(nn.Module):
    """A recurrence over steps [B, T, features] by hand that adds to its state, without anything that bounds it."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Linear(features, width)
        self.again = nn.Linear(width, width, bias=False)
        nn.init.kaiming_normal_(self.again.weight, nonlinearity="relu")

    def forward(self, steps: Tensor) -> Tensor:
        state, states = steps.new_zeros(len(steps), self.width), []
        for t in range(steps.shape[1]):
            state = state + torch.relu(self.enter(steps[:, t]) + self.again(state))
            states.append(state)
        return torch.stack(states, dim=1)


class RecurrentTagger(nn.Module):
    """A tagger with this recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = Recurrence(16, 32)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.memory(self.embedding(ids))).transpose(1, 2)


class RecurrentImage(nn.Module):
    """Rows of an image [B, rows * columns] as steps of this recurrence."""

    def __init__(self, columns: int, outputs: int) -> None:
        super().__init__()
        self.columns = columns
        self.memory = Recurrence(columns, 48)
        self.head = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.memory(x.flatten(1).unflatten(1, (-1, self.columns)))[:, -1])


@case("A08", "a recurrence without bounds", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {
        "digits": lambda: RecurrentImage(8, 10),
        "shapes": lambda: RecurrentImage(16, 5),
        "sequence": RecurrentTagger,
    }
    return make(base, seed, parts=changed(base, model=models[base]))


class SquaredReLU(nn.Module):
    """max(x, 0) squared: what is twice as large comes out four times as large."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) ** 2


@case("A08", "squared activations without norm", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    inputs, outputs = SIZES[base]

    def model() -> nn.Module:
        layers: list[nn.Module] = [nn.Linear(inputs, 48), SquaredReLU()]
        for _ in range(4):
            layers += [nn.Linear(48, 48), SquaredReLU()]
        made = nn.Sequential(*layers, nn.Linear(48, outputs))
        for layer in made[:-1:2]:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        return made

    return make(base, seed, parts=changed(base, model=model))
