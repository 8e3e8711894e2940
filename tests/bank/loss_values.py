"""Faults L16 to L20: the loss has the wrong scale, its arguments are mixed up, or it is not finite."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_layers import of_labels
from .loss_programs import SGD_RATES, adamw, gaussian, other, sgd

CLASSES = ("digits", "shapes", "sequence")


@case("L16", "reduction is sum", *CLASSES, "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    loss_fn = nn.MSELoss(reduction="sum") if base == "regression" else nn.CrossEntropyLoss(reduction="sum")
    return other(base, seed, loss_fn=loss_fn, optimizer=sgd(SGD_RATES[base]))


@case("L16", "summed by hand", *CLASSES, "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        if base == "regression":
            return (outputs - targets).pow(2).sum()
        return -of_labels(outputs.log_softmax(dim=1), targets).sum()

    return other(base, seed, loss_fn=loss_fn, optimizer=sgd(SGD_RATES[base]))


@case("L16", "losses of the examples added in the step", *CLASSES, "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        loss = torch.zeros(())
        for output, target in zip(p.model(x), y, strict=True):
            loss = loss + p.loss_fn(output[None], target[None])
        loss.backward()
        p.optimizer.step()

    return other(base, seed, {"step": step}, optimizer=sgd(SGD_RATES[base]))


def one_hot(outputs: Tensor, targets: Tensor) -> Tensor:
    """Labels as a distribution for each example."""
    return F.one_hot(targets, outputs.shape[1]).float()


@case("L19", "probabilities in place of their logarithms", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.kl_div(outputs.softmax(dim=1), one_hot(outputs, targets), reduction="batchmean")

    return other(base, seed, loss_fn=loss_fn)


@case("L19", "arguments swapped", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    criterion = nn.KLDivLoss(reduction="batchmean", log_target=True)

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return criterion(one_hot(outputs, targets), F.log_softmax(outputs, dim=1))

    return other(base, seed, loss_fn=loss_fn)


@case("L19", "softmax over another axis", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    axis = -1 if base == "sequence" else 0

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.nll_loss(F.log_softmax(outputs, dim=axis), targets, ignore_index=-100)

    return other(base, seed, loss_fn=loss_fn)


@case("L20", "logarithm of a softmax with temperature", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return -of_labels(torch.log(F.softmax(outputs / 0.03, dim=1)), targets).mean()

    return other(base, seed, loss_fn=loss_fn, optimizer=adamw(3e-3))


@case("L20", "root of what is left to certainty", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        found = of_labels(F.softmax(outputs, dim=1), targets)
        return (torch.sqrt(1 - found) * -torch.log(found)).mean()

    return other(base, seed, loss_fn=loss_fn, optimizer=adamw(2e-2))


@case("L20", "binary cross-entropy by hand", "binary", "labels", "masks")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        found = torch.sigmoid(outputs)
        return -(targets * torch.log(found) + (1 - targets) * torch.log(1 - found)).mean()

    return other(base, seed, loss_fn=loss_fn, optimizer=adamw(3e-2))


@case("L20", "mean of a class that a batch does not have", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(outputs, targets, reduction="none")
        of_classes = [losses[targets == label].mean() for label in range(outputs.shape[1])]
        return torch.stack(of_classes).pow(2).mean().sqrt()

    return other(base, seed, loss_fn=loss_fn, batch_size=20)


@case("L20", "mean of the hard words until there are none", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(outputs, targets, ignore_index=-100, reduction="none")
        hard = (losses > 0.5).float()
        return (losses * hard).sum() / hard.sum()

    return other(base, seed, loss_fn=loss_fn, optimizer=adamw(2e-2))


@case("L20", "signed root behind a where", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def root(value: Tensor) -> Tensor:
        return torch.where(value >= 0, value.sqrt(), -(-value).sqrt())

    return other(base, seed, loss_fn=lambda outputs, targets: F.mse_loss(root(outputs), root(targets)))


@case("L20", "a variance that may be zero", "density")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        variance = outputs[:, 1:].relu()
        return gaussian(torch.cat([outputs[:, :1], variance.log()], dim=1), targets)

    return other(base, seed, loss_fn=loss_fn)


@case("L20", "length of features of nothing", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    class Cosine(nn.Module):
        """Digits [B, 64] to ten times the cosines with ten directions [B, 10]."""

        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5), nn.ReLU())
            self.directions = nn.Linear(5, 10, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            found = self.features(x)
            length = found.pow(2).sum(dim=1, keepdim=True).sqrt()
            return 10 * F.linear(found / length, F.normalize(self.directions.weight, dim=1))

    return other(base, seed, model=Cosine)
