"""03d-mixup: mixed inputs and targets of mixup and CutMix; boxes at the border, and validation that stays as it is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
MIXED, TARGETS = "mixup.inputs", "mixup.targets"
CUT, CUT_TARGETS = "cutmix.images", "cutmix.targets"
INSIDE, BORDER, VALIDATION = "box inside", "box at the border", "validation"


def one_hot(case: Case) -> Array:
    return np.eye(case.inputs["classes"])[case.inputs["labels"]]


def blended(own: Array, other: Array, share: float) -> Array:
    return share * own + (1 - share) * other


def mixup(case: Case, slip: str = "") -> dict[str, Any]:
    x, order, share = case.inputs["images"], case.inputs["order"], case.inputs["share"]
    own = one_hot(case)
    if not case.inputs["training"] and slip != "validation mixed":
        return {MIXED: x, TARGETS: own}
    other = own[np.argsort(order)] if slip == "order inverted" else own[order]
    partner = x[np.argsort(order)] if slip == "order inverted" else x[order]
    of_images = {"share reversed": 1 - share, "images reversed": 1 - share, "images not mixed": 1.0}.get(slip, share)
    of_labels = {
        "share reversed": 1 - share,
        "labels reversed": 1 - share,
        "labels not mixed": 1.0,
        "partner's labels": 0.0,
        "larger label": float(share >= 0.5),
    }.get(slip, share)
    if slip == "reversed batch":
        partner, other = x[::-1], own[::-1]
    return {MIXED: blended(x, partner, of_images), TARGETS: blended(own, other, of_labels)}


def box(case: Case, slip: str = "") -> tuple[slice, slice]:
    """Rows and columns of the box, clipped at the border."""
    height, width = case.inputs["images"].shape[-2:]
    row, column = case.inputs["centre"]
    side = {"no root": 1 - case.inputs["share"], "share kept": np.sqrt(case.inputs["share"])}.get(
        slip, np.sqrt(1 - case.inputs["share"])
    )
    half = 1.0 if slip == "whole sides" else 0.5
    whole = round if slip == "rounded" else int
    half_rows, half_columns = whole(half * side * height), whole(half * side * width)
    if slip == "sides exchanged":
        half_rows, half_columns = half_columns, half_rows
    if slip == "centre exchanged":
        row, column = column, row
    if slip == "square":
        half_columns = half_rows
    more = 1 if slip == "end included" else 0
    if slip == "not cut off":  # slices: a negative start counts from the end
        return slice(row - half_rows, row + half_rows), slice(column - half_columns, column + half_columns)
    return (
        slice(max(row - half_rows, 0), min(row + half_rows + more, height)),
        slice(max(column - half_columns, 0), min(column + half_columns + more, width)),
    )


def cutmix(case: Case, slip: str = "") -> dict[str, Any]:
    x, order, share = case.inputs["images"], case.inputs["order"], case.inputs["share"]
    own = one_hot(case)
    if not case.inputs["training"] and slip != "validation mixed":
        return {CUT: x, CUT_TARGETS: own}
    rows, columns = box(case, slip)
    cut = x.copy()
    cut[..., rows, columns] = {"zeros pasted": 0.0}.get(slip, x[order][..., rows, columns])
    if slip == "outside replaced":
        cut = x[order].copy()
        cut[..., rows, columns] = x[..., rows, columns]
    if slip == "pasted again":
        cut = x.copy()
        for place, partner in enumerate(order):
            cut[place, :, rows, columns] = cut[partner, :, rows, columns]
    inside = cut[0, 0, rows, columns].size / x[0, 0].size
    if slip == "whole box":
        sides = [int(0.5 * np.sqrt(1 - share) * side) for side in x.shape[-2:]]
        inside = 4 * sides[0] * sides[1] / x[0, 0].size
    kept = {
        "not recomputed": share,
        "reversed": inside,
        "labels not mixed": 1.0,
        "larger label": float(inside < 0.5),
    }.get(slip, 1 - inside)
    return {CUT: cut, CUT_TARGETS: blended(own, own[order], kept)}


def reference(case: Case) -> dict[str, Any]:
    return {**mixup(case), **cutmix(case)}


def in_mixup(slip: str) -> Simulation:
    return partial(mixup, slip=slip)


def in_cutmix(slip: str) -> Simulation:
    return partial(cutmix, slip=slip)


def in_both(slip: str) -> dict[str, Any]:
    first, second = in_mixup(slip), in_cutmix(slip)
    return {"simulate": lambda case: {**first(case), **second(case)}, "also": (first, second)}


def made(
    kind: str, images: Any, labels: list[int], classes: int, share: float, order: list[int], centre: tuple[int, int]
) -> Case:
    return Case(
        kind,
        {
            "images": np.asarray(images, np.float64),
            "labels": np.asarray(labels, np.int64),
            "classes": classes,
            "share": share,
            "order": np.asarray(order, np.int64),
            "centre": list(centre),
            "training": kind != VALIDATION,
        },
    )


def cycle(rng: np.random.Generator, rows: int) -> list[int]:
    """A permutation in which every row goes on to another, round in one circle of at least three."""
    around = rng.permutation(rows)
    order = np.empty(rows, np.int64)
    order[around] = np.roll(around, -1)
    return [int(each) for each in order]


def case(rng: np.random.Generator, kind: str, share: float, height: int, width: int, corner: str = "top right") -> Case:
    """Each label once, two classes without a label, and a box that reaches two borders or none."""
    rows, channels = 4, 2
    labels = [int(label) for label in rng.permutation(rows + 1)[:rows]]
    sides = [int(0.5 * np.sqrt(1 - share) * length) for length in (height, width)]
    if kind == INSIDE:
        centre = tuple(
            int(rng.integers(half, length - half + 1)) for half, length in zip(sides, (height, width), strict=True)
        )
    else:
        near = [int(rng.integers(0, max(half, 1))) for half in sides]
        far = [
            int(rng.integers(min(length - half + 1, length - 1), length))
            for half, length in zip(sides, (height, width), strict=True)
        ]
        centre = (near[0], far[1]) if corner == "top right" else (far[0], near[1])
    images = rng.uniform(0.1, 2.0, (rows, channels, height, width))
    return made(kind, images, labels, rows + 2, share, cycle(rng, rows), (centre[0], centre[1]))


def draw(rng: np.random.Generator) -> list[Case]:
    """Small and large boxes, inside and at the border; no share at which an image and its box are alike."""
    low, high = float(rng.uniform(0.25, 0.42)), float(rng.uniform(0.58, 0.7))
    return [
        case(rng, INSIDE, high, int(rng.integers(8, 11)), int(rng.integers(14, 18))),
        case(rng, INSIDE, low, int(rng.integers(15, 18)), int(rng.integers(9, 12))),
        case(rng, BORDER, high, int(rng.integers(12, 15)), int(rng.integers(8, 11))),
        case(rng, BORDER, low, int(rng.integers(7, 10)), int(rng.integers(12, 15)), "bottom left"),
        case(rng, VALIDATION, high, 6, 8),
        case(rng, VALIDATION, low, 8, 5),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Shares from 0 to 1, images from 1 by 1 to 20 by 20, any centre inside the image; equal labels, and own partners.

    In one of eight cases all labels are equal, in one of eight each row is its own partner. Some images have a black
    border, or only two grey levels, so that pixels of a row and of its partner are equal.
    """
    share = float(rng.choice([0.0, 1.0, rng.uniform()], p=[0.2, 0.2, 0.6]))
    rows = int(rng.choice([1, 2, 12, int(rng.integers(3, 7))], p=[0.15, 0.15, 0.15, 0.55]))
    channels = int(rng.integers(1, 4))
    height, width = (int(side) for side in rng.integers(1, 21 if rows < 3 else 7, 2))
    classes = int(rng.integers(2, 7))
    labels = np.full(rows, rng.integers(classes)) if rng.integers(8) == 0 else rng.integers(classes, size=rows)
    order = np.arange(rows) if rng.integers(8) == 0 else rng.permutation(rows)
    images = rng.uniform(0.1, 2.0, (rows, channels, height, width)) - (rng.integers(4) == 0)
    alike = rng.integers(3)
    if alike == 0:
        share *= 0.6
        images[..., [0, -1], :] = images[..., [0, -1]] = 0.0
    elif alike == 1:
        images = rng.integers(0, 2, images.shape) / 2
    centre = int(rng.integers(height)), int(rng.integers(width))
    kind = VALIDATION if rng.integers(5) == 0 else BORDER
    drawn = made(kind, images, [int(label) for label in labels], classes, share, [int(row) for row in order], centre)
    moves = kind is not VALIDATION and bool((labels[order] != labels).any())
    pasted = (images[order] == images).all(axis=1)[:, *box(drawn)]
    if kind is not VALIDATION and pasted[labels[order] != labels].any():
        return replace(drawn, kind="equal pixels in the box")
    return replace(drawn, kind=f"a share of {share:.0f}" if moves and share in (0, 1) else "domain")


PICTURES = np.arange(1.0, 81.0).reshape(2, 1, 8, 5) / 10

QUESTION = Description(
    id="03d-mixup",
    parts=(
        Graded("mixed inputs", 2, (MIXED,), on=(INSIDE, BORDER)),
        Graded("mixed targets", 2, (TARGETS,), on=(INSIDE, BORDER)),
        Graded("boxes", 2, (CUT,), on=(INSIDE,)),
        Graded("boxes at the border", 2, (CUT,), on=(BORDER,)),
        Graded("targets of boxes", 2, (CUT_TARGETS,), on=(INSIDE, BORDER)),
        Graded("validation", 2, (MIXED, TARGETS, CUT, CUT_TARGETS), on=(VALIDATION,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "share-reversed",
            "`share` is that of the partner: the row itself must have the weight `share`",
            "what a share of 1 does: nothing",
            in_mixup("share reversed"),
        ),
        Mistake(
            "inputs-reversed",
            "inputs and targets disagree: the inputs have the weights the other way round",
            "the weight of the row itself, in both",
            in_mixup("images reversed"),
        ),
        Mistake(
            "targets-reversed",
            "inputs and targets disagree: the targets have the weights the other way round",
            "the weight of the row itself, in both",
            in_mixup("labels reversed"),
        ),
        Mistake(
            "labels-not-mixed",
            "the inputs are mixed and the labels are not, so the network is told that a mixture is one thing",
            "the target of a picture that is half of each",
            **in_both("labels not mixed"),
        ),
        Mistake(
            "partners-label",
            "the target is that of the partner alone",
            "the weight of the row's own label",
            in_mixup("partner's labels"),
        ),
        Mistake(
            "larger-label",
            "the target is the label with the larger share, and the other one is lost",
            "the target of a picture that is 60 % of one",
            **in_both("larger label"),
        ),
        Mistake(
            "inputs-not-mixed",
            "the inputs are not mixed",
            "what `share` does to the inputs",
            in_mixup("images not mixed"),
        ),
        Mistake(
            "order-inverted",
            "row i was mixed with the row that names i, and not with row order[i]",
            "`x[order]`",
            in_mixup("order inverted"),
        ),
        Mistake(
            "order-ignored",
            "the batch was mixed with itself in reverse order; `order` names the partners",
            "what `order` is for",
            in_mixup("reversed batch"),
        ),
        Mistake(
            "rounded-sides",
            "the half sides of the box were rounded; `int` cuts off what is behind the point",
            "int(2.7), and round(2.7)",
            in_cutmix("rounded"),
        ),
        Mistake(
            "share-not-recomputed",
            "the targets have the share that was asked for; the box was cut off or rounded, so its area is another",
            "how many pixels the box really has",
            in_cutmix("not recomputed"),
            also=(in_cutmix("whole box"),),
        ),
        Mistake(
            "not-cut-off",
            "a box that begins outside the image has a negative start, and a slice counts that from the other end",
            "the rows of a slice from -1 to 3",
            in_cutmix("not cut off"),
        ),
        Mistake(
            "pasted-again",
            "a row got pixels that had been pasted into its partner before",
            "the tensor from which the boxes are copied: is it still the one that you got?",
            in_cutmix("pasted again"),
        ),
        Mistake(
            "square-box",
            "both sides of the box were computed from the height",
            "an image that is higher than wide",
            in_cutmix("square"),
        ),
        Mistake(
            "area-reversed",
            "the row's own label got the share of the box, which shows the partner",
            "whose pixels are inside the box",
            in_cutmix("reversed"),
        ),
        Mistake(
            "side-without-root",
            "the sides have the share of the *area*: half of both sides is a quarter of the image",
            "the area of the box",
            in_cutmix("no root"),
        ),
        Mistake(
            "size-of-the-rest",
            "the box has the size of what should be kept",
            "what a share of 1 does: nothing",
            in_cutmix("share kept"),
        ),
        Mistake(
            "whole-sides",
            "the box reaches a whole side from its centre in each direction: it is four times too large",
            "the distance from the centre to the border of the box",
            in_cutmix("whole sides"),
        ),
        Mistake(
            "end-included",
            "the box has one row and one column too many: it ends before centre + half",
            "how many rows a slice from 2 to 5 has",
            in_cutmix("end included"),
        ),
        Mistake(
            "axes-exchanged",
            "rows and columns are exchanged, in the box or in its centre",
            "the order of the axes: [N, C, height, width], and the centre is (row, column)",
            in_cutmix("sides exchanged"),
            also=(in_cutmix("centre exchanged"),),
        ),
        Mistake(
            "zeros-pasted",
            "the box was filled with zeros; CutMix pastes the partner's pixels",
            "what is inside the box",
            in_cutmix("zeros pasted"),
        ),
        Mistake(
            "outside-replaced",
            "everything outside the box was replaced, and the inside kept",
            "what is inside the box",
            in_cutmix("outside replaced"),
        ),
        Mistake(
            "validation-mixed",
            "with training=False the batch was mixed as well: validation must see what was measured",
            "what `training=False` changes",
            **in_both("validation mixed"),
        ),
    ),
    visible=(
        made(INSIDE, PICTURES, [0, 1], 2, 0.25, [1, 0], (4, 2)),
        made(
            BORDER,
            np.arange(1.0, 109.0).reshape(3, 1, 9, 4) / 10,
            [2, 0, 3],
            4,
            0.6,
            [1, 2, 0],
            (1, 3),
        ),
        made(VALIDATION, np.arange(1.0, 49.0).reshape(3, 1, 4, 4) / 10, [2, 0, 1], 3, 0.6, [1, 2, 0], (1, 2)),
    ),
    draw=draw,
    domain=domain,
    added=12,
)
