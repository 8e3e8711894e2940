"""03b-subset: gain, spread and verdict on tables of losses, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03b-subset"
PARTS = (("gain", 2.0), ("spread", 2.0), ("holds", 2.0))
TOLERANCE = 1e-5


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Tables that hold and tables that do not, each of which one wrong criterion takes for the other."""
    plans = [  # kind, seeds, gain in spreads
        ("clear gain", int(rng.integers(3, 5)), rng.uniform(3.0, 4.0)),
        ("clear gain", int(rng.integers(5, 8)), rng.uniform(2.6, 3.0)),
        ("just within the spread", 3, rng.uniform(1.7, 1.9)),
        ("within the spread", int(rng.integers(6, 9)), rng.uniform(1.2, 1.5)),
        ("worse", int(rng.integers(3, 6)), -rng.uniform(3.0, 4.0)),
        ("two seeds", 2, rng.uniform(5.0, 8.0)),
        ("diverged", 5, rng.uniform(5.0, 8.0)),
        ("diverged", 6, rng.uniform(5.0, 8.0)),
    ]
    cases = [HiddenCase(kind, _table(rng, kind, seeds, gain)) for kind, seeds, gain in plans]
    cases[-1].inputs["losses"][int(rng.integers(6))] = np.inf
    return [cases[index] for index in rng.permutation(len(cases))]


def _table(rng: np.random.Generator, kind: str, seeds: int, gain: float) -> dict[str, np.ndarray]:
    z = rng.normal(size=seeds)
    z = (z - z.mean()) / z.std(ddof=1)
    spread = rng.uniform(0.05, 0.1)
    # Constants that differ by far more than the gains do: the spread of the losses alone says nothing.
    constant = rng.permutation(np.linspace(1.2, 2.6, seeds)) + rng.uniform(0, 0.1, seeds)
    losses = constant - spread * (gain + z)
    if kind == "diverged":
        losses[int(rng.integers(seeds))] = np.nan
    return {"losses": losses, "constant": constant}


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Each of the three over all tables; gain and spread are not looked at where a run diverged."""
    pairs = list(zip(cases, observations, strict=True))
    finite = [pair for pair in pairs if pair[0].kind != "diverged"]
    right = {"gain": _gain, "spread": _spread, "holds": _holds}
    parts = tuple(
        grade_part(
            name,
            points,
            pairs if name == "holds" else finite,
            lambda seen, name=name: read_field(seen, name, name),  # type: ignore[misc]
            right[name],
            TOLERANCE,
        )
        for name, points in PARTS
    )
    for part in parts:
        if part.points < part.maximum:
            chosen = pairs if part.name == "holds" else finite
            found = [(case, read_field(seen, part.name, part.name)[0]) for case, seen in chosen]
            first = found[0][1]
            if first is not None and all(agree(given, first, TOLERANCE) for _, given in found):
                return Verdict(ID, parts, misconception="constant-answer")
            return Verdict(ID, parts, misconception=first_match(_MISTAKES[part.name], found, TOLERANCE))
    return Verdict(ID, parts)


def _gains(case: HiddenCase) -> np.ndarray:
    return np.asarray(case.inputs["constant"] - case.inputs["losses"])


def _gain(case: HiddenCase) -> float:
    return float(_gains(case).mean())


def _spread(case: HiddenCase) -> float:
    return float(_gains(case).std(ddof=1))


def _holds(case: HiddenCase) -> bool:
    enough = len(case.inputs["losses"]) >= 3 and bool(np.isfinite(case.inputs["losses"]).all())
    return enough and _gain(case) > 2 * _spread(case)


def _without_diverged(case: HiddenCase) -> bool:
    kept = _gains(case)[np.isfinite(_gains(case))]
    return bool(len(kept) >= 3 and kept.mean() > 2 * kept.std(ddof=1))


_MISTAKES: dict[str, list[tuple[str, Any]]] = {
    "gain": [
        ("sign-flipped", lambda case: -_gain(case)),
        ("best-seed", lambda case: _gains(case).max()),
    ],
    "spread": [
        ("unpaired-spread", lambda case: case.inputs["losses"].std(ddof=1)),
        ("population-spread", lambda case: _gains(case).std()),
        ("divided-by-root-n", lambda case: _spread(case) / np.sqrt(len(_gains(case)))),
    ],
    "holds": [
        ("any-gain", lambda case: _holds(case) or case.kind in ("just within the spread", "within the spread")),
        ("any-gain", lambda case: bool(_gains(case).mean() > 0)),
        ("too-few-seeds", lambda case: _holds(case) or case.kind == "two seeds"),
        ("diverged-dropped", _without_diverged),
    ],
}
