"""Data that are meant to be as they are: beyond -1 and 1, easy, or from another site."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PARTS, Data, changed, make


@case("K16", "z-scores of heavy tails", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = PARTS[base].data()

        def tails(x: Tensor) -> Tensor:
            return torch.cat([x[:, :4], x[:, 4:].sinh() / 2], dim=1)

        return replace(found, x=tails(found.x), x_val=tails(found.x_val))

    return make(base, seed, parts=changed(base, data=data))


@case("K16", "logarithms of counts", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = PARTS[base].data()
        least = found.x.min()
        counts = [torch.log1p(20 * (x - least)) for x in (found.x, found.x_val)]
        return replace(found, x=counts[0], x_val=counts[1])

    return make(base, seed, parts=changed(base, data=data))


@case("K16", "standardised images", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed)


def two_classes() -> Data:
    """Zeros and ones of the digits."""
    found = PARTS["digits"].data()
    train, val = found.y < 2, found.y_val < 2
    return Data(found.x[train], found.y[train], found.x_val[val], found.y_val[val])


@case("K18", "zeros and ones", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))

    spec = Spec(task="classification", classes=2, epochs=12)
    return make(base, seed, spec, changed(base, data=two_classes, model=model, batch_size=16))


@case("K18", "every tag is right", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed)


@case("K35", "another scanner", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = PARTS[base].data()
        return replace(found, x_val=0.9 * found.x_val + 0.1)

    return make(base, seed, replace(PARTS[base].spec, shift_expected=True), changed(base, data=data))


@case("K35", "another hospital, with groups", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def data() -> Data:
        found = PARTS[base].data()
        shift = torch.tensor([0.3, 0.0, 0.0, 0.8, 0.5, 0.0])
        return replace(found, x_val=found.x_val + shift, y_val=found.y_val + 0.3)

    spec = replace(
        PARTS[base].spec,
        shift_expected=True,
        train_groups=[f"north {i // 8}" for i in range(800)],
        val_groups=[f"south {i // 6}" for i in range(300)],
    )
    return make(base, seed, spec, changed(base, data=data))
