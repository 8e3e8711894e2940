"""A few cases, to show the form."""

from __future__ import annotations

from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PARTS, changed, make


@case("L01", "softmax as last layer", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=changed(base, model=lambda: nn.Sequential(PARTS[base].model(), nn.Softmax(dim=1))))


@case("L01", "softmax in the loss function", "digits", "shapes", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.CrossEntropyLoss()(outputs.softmax(dim=1), targets)

    return make(base, seed, parts=changed(base, loss_fn=loss_fn))


@case("G01", "no zero_grad in the loop", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)
