"""Rung 1: what is wrong with images and their masks, seen by drawing them twice."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from .._engine.evidence import Evidence
from .._engine.inspection import fingerprints
from .._engine.preserve import untouched
from .._engine.read_examples import read
from .finding import Finding

LEAST, SHARE = 5, 0.05  # images turned otherwise than their masks, of those that were drawn twice
SMALLEST = 4  # pixels along each side


def turned_apart(evidence: Evidence) -> Finding | None:
    """Drawn twice, an image is turned one way and its mask another."""
    train, program = evidence.train, evidence.program
    if train is None or train.x.ndim < 3 or train.y.ndim < 3:
        return None
    if train.y.is_floating_point() and not bool((train.y == train.y.round()).all()):
        return None  # no masks
    size = train.x.shape[-2:]
    if size != train.y.shape[-2:] or min(size) < SMALLEST:
        return None
    with untouched(program, evidence.seed + 1):
        second, _ = read(program.train_loader, program, evidence.spec, evidence.outputs)
    if second is None:
        return None
    drawn = dict(zip(_pixels(train.x), zip(train.x, train.y, strict=True), strict=True))
    apart = count = 0
    for pixels, x, y in zip(_pixels(second.x), second.x, second.y, strict=True):
        if pixels not in drawn:
            continue
        ways = [{way for way in WAYS if _turned(old, way, new)} for old, new in zip(drawn[pixels], (x, y), strict=True)]
        count += bool(ways[0])
        # Another mask altogether, such as a second person's, is none of this.
        apart += bool(ways[0]) and bool(ways[1]) and not ways[0] & ways[1]
    if apart < max(LEAST, SHARE * count):
        return None
    text = f"{apart} of {count} images that were drawn twice were turned otherwise than their masks"
    return Finding(
        None,
        f"{text}: the same draw is to turn both",
        {"apart": apart, "of": count},
        evidence.spec.task == "segmentation",
        "inputs",
    )


WAYS = tuple(product((False, True), repeat=3))
"""Transposed, turned upside down, left to right."""


def _turned(a: Tensor, way: tuple[bool, ...], b: Tensor) -> bool:
    transposed, *flipped = way
    axes = [axis for axis, flip in zip((-2, -1), flipped, strict=True) if flip]
    a = a.transpose(-2, -1) if transposed else a
    return torch.equal(a.flip(axes) if axes else a, b)


def _pixels(x: Tensor) -> tuple[int, ...]:
    """What stays of images [N, ..., H, W] when they are turned."""
    return fingerprints(x.flatten(1).sort(dim=1).values)
