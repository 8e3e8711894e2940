"""How the images of `shapes` are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

CLASSES = ("none", "circle", "square", "triangle", "cross")
NUISANCES = ("blur", "rare class", "ambiguous label", "background shortcut", "threshold")
BACKGROUNDS = ("by_label", "random", "plain")
_BLUR = 7  # exposures of a moving shape

Plane = Any  # float32 [N, H, W]
Outline = Callable[[Plane, Plane, Plane], Plane]


def draw(
    size: int, draws: np.ndarray, labels: np.ndarray, nuisance: np.ndarray, background: str, style: np.ndarray
) -> Plane:
    """The images without noise, about 0 to 1.

    Args:
        size: height and width in pixels.
        draws: uniform numbers [N, 20]; of these 6 to 15 say how an image looks.
        labels: what is on it, a position in CLASSES, [N].
        nuisance: a position in NUISANCES, their number for none, [N].
        background: one of BACKGROUNDS.
        style: of the patient, [N, 8]; 0.5 is the usual one.

    """
    is_a = {name: nuisance == number for number, name in enumerate(NUISANCES)}
    u = draws.astype(np.float32)
    across = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
    x, y = np.broadcast_to(across, (1, size, size)), np.broadcast_to(across[:, None], (1, size, size))

    angle = math.pi * labels / len(CLASSES)
    other_class = (labels + 1 + (u[:, 6] * (len(CLASSES) - 1)).astype(np.int64)) % len(CLASSES)
    angle = np.where(is_a["background shortcut"], math.pi * other_class / len(CLASSES), angle)
    angle = np.where(is_a["threshold"], 0.0, angle)  # as behind nothing
    lawful = background == "by_label" and (nuisance == len(NUISANCES)) | is_a["background shortcut"] | is_a["threshold"]
    angle = np.where(lawful, angle, math.pi * u[:, 7])
    along = _column(np.cos(angle)) * x + _column(np.sin(angle)) * y
    image = 0.12 + 0.3 * _column(style[:, 0] - 0.5) + _column(style[:, 2] - 0.5) * x + _column(style[:, 3] - 0.5) * y
    if background != "plain":
        image = image + 0.06 * np.sin(2 * math.pi * (6 * along + _column(u[:, 8])))
    image = np.broadcast_to(image, (len(u), size, size)).astype(np.float32)

    pose = np.stack(
        [
            0.2 + 0.1 * u[:, 9] + 0.12 * (style[:, 1] - 0.5),  # radius
            2 * math.pi * u[:, 10],  # turned by
            0.3 * (u[:, 11] - 0.5),  # right of the centre
            0.3 * (u[:, 12] - 0.5),  # below it
            2 * math.pi * u[:, 13],  # moves towards
            np.where(is_a["blur"], 0.45 + 0.15 * u[:, 14], 0.0),  # by so much
        ]
    )
    ink = np.zeros_like(image)
    masks = [(labels == kind) & ~is_a["ambiguous label"] for kind in range(1, len(CLASSES))]
    masks.append(is_a["ambiguous label"])
    for outline, mask in zip([*_OUTLINES, _rounded], masks, strict=True):
        for moved in (False, True):
            rows = np.flatnonzero(mask & (is_a["blur"] == moved))
            ink[rows] = _exposed(outline, x, y, pose[:, rows], _BLUR if moved else 1)
    contrast = np.where(is_a["threshold"], 0.1 + 0.06 * u[:, 15], 0.45 + 0.3 * u[:, 15])
    return image + _column(contrast) * ink


def _exposed(outline: Outline, x: Plane, y: Plane, pose: np.ndarray, exposures: int) -> Plane:
    """How much of each pixel the shape covers, from 0 to 1, as the mean over its way."""
    radius, turn, left, top, direction, length = pose
    size = x.shape[-1]
    total = np.zeros((len(radius), size, size), dtype=np.float32)
    for moment in np.linspace(-0.5, 0.5, exposures) if exposures > 1 else [0.0]:
        dx = x - _column(left + moment * length * np.cos(direction))
        dy = y - _column(top + moment * length * np.sin(direction))
        cos, sin = _column(np.cos(turn)), _column(np.sin(turn))
        distance = outline(cos * dx + sin * dy, cos * dy - sin * dx, _column(radius))
        # An edge one pixel wide: a pixel with the outline through its middle is half covered.
        total += np.clip(0.5 - distance * size, 0, 1)
    return total / exposures


def _column(values: np.ndarray) -> Plane:
    return values.astype(np.float32)[:, None, None]


def _square(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.maximum(np.abs(x), np.abs(y)) - 0.85 * r


def _circle(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.sqrt(x * x + y * y) - r


def _triangle(x: Plane, y: Plane, r: Plane) -> Plane:
    return np.maximum(np.abs(x) * math.sqrt(0.75) + 0.5 * y, -y) - 0.6 * r


def _cross(x: Plane, y: Plane, r: Plane) -> Plane:
    x, y = np.abs(x), np.abs(y)
    return np.minimum(np.maximum(x - 0.35 * r, y - 1.1 * r), np.maximum(y - 0.35 * r, x - 1.1 * r))


def _rounded(x: Plane, y: Plane, r: Plane) -> Plane:
    """Half circle, half square."""
    return (_circle(x, y, r) + _square(x, y, r)) / 2


# Of the classes after the first: distance to the outline, below 0 inside, for a shape of radius r around the origin.
_OUTLINES = (_circle, _square, _triangle, _cross)
