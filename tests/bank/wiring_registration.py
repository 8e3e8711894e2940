"""Parts of the model that nobody trains, because the model does not know of them or does not use them."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PAD, TAGS, WORDS, changed, make

WIDTHS = {"digits": (64, 64, 10), "regression": (6, 48, 1)}


class ListedLayers(nn.Module):
    """Linear layers in a list."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = [nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, width)]
        self.output = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.output(x)


class ListedConvolutions(nn.Module):
    """Convolutions in a list, their norms in a ModuleList."""

    def __init__(self) -> None:
        super().__init__()
        channels = (1, 12, 24)
        self.convolutions = [nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(channels)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in channels[1:])
        self.head = nn.Linear(24 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = nn.functional.max_pool2d(norm(convolution(x)).relu(), 2)
        return self.head(x.flatten(1))


class ListedMemories(nn.Module):
    """Two recurrent layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memories = [nn.GRU(16, 32, batch_first=True), nn.GRU(32, 32, batch_first=True)]
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids)
        for memory in self.memories:
            hidden, _ = memory(hidden)
        return self.head(hidden).transpose(1, 2)


@case("P01", "layers in a list", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {"shapes": ListedConvolutions, "sequence": ListedMemories}
    model = models.get(base) or (lambda: ListedLayers(*WIDTHS[base]))
    return make(base, seed, parts=changed(base, model=model))


class Branches(nn.Module):
    """Two views of the input by name, joined."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.branches = {
            "smooth": nn.Sequential(nn.Linear(inputs, width // 2), nn.Tanh()),
            "sharp": nn.Sequential(nn.Linear(inputs, width // 2), nn.ReLU()),
        }
        self.join = nn.Linear(2 * (width // 2), outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([branch(x) for branch in self.branches.values()], dim=1))


class ImageBranches(nn.Module):
    """Fine and coarse filters by name, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = {"fine": nn.Conv2d(1, 8, 3, padding=1), "coarse": nn.Conv2d(1, 8, 7, padding=3)}
        self.head = nn.Sequential(nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(16 * 16, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.filters["fine"](x), self.filters["coarse"](x)], dim=1))


@case("P01", "branches in a dict", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(
        base, seed, parts=changed(base, model=ImageBranches if base == "shapes" else lambda: Branches(*WIDTHS[base]))
    )


class OwnLinear(nn.Module):
    """A linear layer that was written by hand."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = torch.randn(outputs, inputs, requires_grad=True)
        with torch.no_grad():
            self.weight /= math.sqrt(inputs)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class OwnEmbedding(nn.Module):
    """A table of words and a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.randn(WORDS, 4, requires_grad=True)
        self.memory = nn.GRU(4, 32, batch_first=True)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.table[ids])
        return self.head(hidden).transpose(1, 2)


@case("P02", "tensor that requires grad", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "sequence":
            return OwnEmbedding()
        if base == "shapes":
            return nn.Sequential(nn.Flatten(), OwnLinear(256, 64), nn.ReLU(), nn.Linear(64, 5))
        inputs, width, outputs = WIDTHS[base]
        return nn.Sequential(
            OwnLinear(inputs, width), nn.Tanh(), OwnLinear(width, width), nn.Tanh(), nn.Linear(width, outputs)
        )

    return make(base, seed, parts=changed(base, model=model))


class TurnedParameter(nn.Module):
    """A layer of features whose weight is turned after it was made a parameter."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / math.sqrt(inputs)).t()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.weight)


class ConvertedFilters(nn.Module):
    """Filters that were drawn in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(12, 1, 3, 3, dtype=torch.float64) / 3).to(torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.max_pool2d(nn.functional.conv2d(x, self.filters, padding=1).relu(), 4)


@case("P02", "a Parameter is turned or converted", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        if base == "shapes":
            return nn.Sequential(ConvertedFilters(), nn.Flatten(), nn.Linear(12 * 16, 5))
        inputs, width, outputs = WIDTHS[base]
        return nn.Sequential(TurnedParameter(inputs, width), TurnedParameter(width, width), nn.Linear(width, outputs))

    return make(base, seed, parts=changed(base, model=model))


class Twice(nn.Module):
    """Two hidden layers; the second line was copied from the first."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, width)
        self.hidden1 = nn.Linear(width, width)
        self.hidden2 = nn.Linear(width, width)
        self.output = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.input(x))
        x = torch.tanh(self.hidden1(x))
        x = torch.tanh(self.hidden1(x))
        return self.output(x)


class TwoKernels(nn.Module):
    """Filters of two sizes; the same result is joined twice."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Conv2d(1, 12, 3, padding=1)
        self.large = nn.Conv2d(1, 12, 7, padding=3)
        self.head = nn.Sequential(nn.MaxPool2d(4), nn.Flatten(), nn.Linear(24 * 16, 5))

    def forward(self, x: Tensor) -> Tensor:
        small = self.small(x).relu()
        return self.head(torch.cat([small, small], dim=1))


class UnusedContext(nn.Module):
    """A tagger whose memory is made and not called."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.mix = nn.Linear(16, 32)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.mix(self.embedding(ids)).relu()).transpose(1, 2)


@case("P15", "another module is called in its place", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    models = {"shapes": TwoKernels, "sequence": UnusedContext}
    return make(base, seed, parts=changed(base, model=models.get(base) or (lambda: Twice(*WIDTHS[base]))))


class Overwritten(nn.Module):
    """A wide and a deep part; what the wide one gives is lost."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.wide = nn.Linear(inputs, outputs)
        self.deep = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = self.wide(x)
        out = self.deep(x)
        return out


@case("P15", "its result is overwritten", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: Overwritten(*WIDTHS[base])))
