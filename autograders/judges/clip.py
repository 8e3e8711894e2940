"""03a-clip: direction, untouched below the threshold, the norm before, and the angle of per-parameter clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03a-clip"
PARTS = (("direction", 3.0), ("untouched", 2.0), ("norm", 1.0), ("cosine", 2.0))
TOLERANCE = 1e-5
_SHAPES = (((3, 4), (4,), (2, 3)), ((5,), (1,)), ((2, 2, 2), (7,), (3, 1), (2,)))


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Three gradients above the threshold, of different shapes, and two below it."""
    cases = []
    for above, shapes in [*((True, shapes) for shapes in _SHAPES), (False, _SHAPES[0]), (False, _SHAPES[1])]:
        # Tensors of very different lengths: only then does per-parameter clipping turn the gradient visibly.
        lengths = rng.permutation(np.geomspace(0.4, 6.0, len(shapes))) * rng.uniform(0.7, 1.3, len(shapes))
        gradients = [
            length * (direction := rng.normal(size=shape)) / np.linalg.norm(direction)
            for shape, length in zip(shapes, lengths, strict=True)
        ]
        norm = _norm(gradients)
        max_norm = float(norm * (rng.uniform(0.2, 0.4) if above else rng.uniform(2.0, 3.0)))
        kind = "above the threshold" if above else "below the threshold"
        cases.append(HiddenCase(kind, {"gradients": gradients, "max_norm": max_norm}, above))
    return cases


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part; a gradient that is never clipped earns nothing for being left untouched."""
    pairs = list(zip(cases, observations, strict=True))
    above = [pair for pair in pairs if pair[0].key]
    below = [pair for pair in pairs if not pair[0].key]
    maximum = dict(PARTS)

    def clipped(observation: Observation) -> tuple[Any, str]:
        return read_field(observation, "clipping", "clipped")

    direction = grade_part("direction", maximum["direction"], above, clipped, _globally, TOLERANCE)
    untouched = grade_part("untouched", maximum["untouched"], below, clipped, _inputs, TOLERANCE)
    if untouched.points and all(agree(clipped(seen)[0], _inputs(case), TOLERANCE) for case, seen in above):
        untouched = Part("untouched", 0.0, maximum["untouched"], "no gradient was clipped at all")
    norm = grade_part(
        "norm", maximum["norm"], pairs, lambda seen: read_field(seen, "clipping", "norm"), _norm_of, TOLERANCE
    )
    cosine = grade_part(
        "cosine",
        maximum["cosine"],
        pairs,
        lambda seen: read_field(seen, "cosine", "cosine"),
        _cosine_of,
        TOLERANCE,
    )
    parts = (direction, untouched, norm, cosine)
    return Verdict(ID, parts, misconception=_misconception(parts, pairs, above, below))


def _misconception(
    parts: tuple[Part, ...],
    pairs: list[tuple[HiddenCase, Observation]],
    above: list[tuple[HiddenCase, Observation]],
    below: list[tuple[HiddenCase, Observation]],
) -> str | None:
    """The known mistake that explains the first part without full points."""
    simulated: list[tuple[list[tuple[HiddenCase, Observation]], str, str, dict[str, Any]]] = [
        (
            above,
            "clipping",
            "clipped",
            {"never-clipped": _inputs, "per-parameter": _each_by_itself, "value-clipping": _by_value},
        ),
        (below, "clipping", "clipped", {"always-rescaled": _rescaled}),
        (
            pairs,
            "clipping",
            "norm",
            {
                "norm-after": lambda case: min(_norm_of(case), case.inputs["max_norm"]),
                "sum-of-norms": lambda case: float(sum(np.linalg.norm(g) for g in _inputs(case))),
                "squared-norm": lambda case: _norm_of(case) ** 2,
                "largest-norm": lambda case: float(max(np.linalg.norm(g) for g in _inputs(case))),
            },
        ),
        (
            pairs,
            "cosine",
            "cosine",
            {
                "cosine-of-global": lambda _: 1.0,
                "dot-product": lambda case: _dot(_inputs(case), _each_by_itself(case)),
            },
        ),
    ]
    for part, (selected, observed, field, simulations) in zip(parts, simulated, strict=True):
        if part.points < part.maximum:
            found = [(case, read_field(seen, observed, field)[0]) for case, seen in selected]
            if (known := first_match(simulations.items(), found, TOLERANCE)) is not None:
                return known
    return None


def _inputs(case: HiddenCase) -> list[np.ndarray]:
    return list(case.inputs["gradients"])


def _norm(gradients: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients)))


def _norm_of(case: HiddenCase) -> float:
    return _norm(_inputs(case))


def _rescaled(case: HiddenCase) -> list[np.ndarray]:
    return [gradient * (case.inputs["max_norm"] / _norm_of(case)) for gradient in _inputs(case)]


def _globally(case: HiddenCase) -> list[np.ndarray]:
    return _rescaled(case) if _norm_of(case) > case.inputs["max_norm"] else _inputs(case)


def _each_by_itself(case: HiddenCase) -> list[np.ndarray]:
    limit = case.inputs["max_norm"]
    return [gradient * min(1.0, limit / float(np.linalg.norm(gradient))) for gradient in _inputs(case)]


def _by_value(case: HiddenCase) -> list[np.ndarray]:
    return [gradient.clip(-case.inputs["max_norm"], case.inputs["max_norm"]) for gradient in _inputs(case)]


def _dot(left: list[np.ndarray], right: list[np.ndarray]) -> float:
    return float(sum((a * b).sum() for a, b in zip(left, right, strict=True)))


def _cosine_of(case: HiddenCase) -> float:
    clipped = _each_by_itself(case)
    return _dot(_inputs(case), clipped) / (_norm_of(case) * _norm(clipped))
