"""03a-lrfinder: the sweep's rates and losses, where it ends, what it puts back, and choices on given curves.

The reference is least squares on centred inputs by hand in NumPy: no autograd, no optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field, read_fields, value, why_none
from .lrfinder_reference import choose, curve, finals, problem, sweep

ID = "03a-lrfinder"
PARTS = (
    ("rates", 1.0),
    ("losses", 2.0),
    ("early end", 1.0),
    ("restored", 2.0),
    ("choice", 1.0),
    ("no suggestion", 1.0),
)
TOLERANCE = 1e-4  # of log10(rate) and of losses: rates kept in float32 are right too
_FULL = "to the upper end"
_SWEEPS = (
    (_FULL, "train"),
    (_FULL, "eval"),
    (_FULL, "mixed"),
    ("a diverging loss", "eval"),
    ("a diverging loss", "mixed"),
    ("a loss that is not finite", "train"),
)
_CURVES = (
    "falls",
    "falls, then diverges",
    "still falls at the end",
    "never falls",
    "only rises",
    "falls, then diverges",
)
_Pairs = list[tuple[HiddenCase, Observation]]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Six sweeps, three of which end early, each with a curve of its own to choose from."""
    curves = [_CURVES[index] for index in rng.permutation(len(_CURVES))]
    return [
        HiddenCase(kind, problem(rng, kind, modes) | curve(rng, shape), shape)
        for (kind, modes), shape in zip(_SWEEPS, curves, strict=True)
    ]


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part; a model that was never trained earns nothing for being as it was."""
    pairs = list(zip(cases, observations, strict=True))
    full = [pair for pair in pairs if pair[0].kind == _FULL]
    ended = [pair for pair in pairs if pair[0].kind != _FULL]
    curves = [(replace(case, kind=f"a curve that {case.key}"), seen) for case, seen in pairs]
    falling = [pair for pair in curves if choose(pair[0].inputs) is not None]
    level = [pair for pair in curves if choose(pair[0].inputs) is None]
    points = dict(PARTS)
    rates, losses = (partial(read_field, part="sweep", name=name) for name in ("log10_rates", "losses"))

    def grade(name: str, chosen: _Pairs, read: Callable[..., Any], expected: Callable[[HiddenCase], Any]) -> Part:
        return grade_part(name, points[name], chosen, read, expected, TOLERANCE)

    parts = (
        grade("rates", full, rates, lambda case: _curve(case)["log10_rates"]),
        grade("losses", full, losses, lambda case: _curve(case)["losses"]),
        grade("early end", ended, partial(read_fields, part="sweep"), _curve),
        _grade_restored(pairs, points["restored"]),
        grade("choice", falling, _chosen, lambda case: [choose(case.inputs)]),
        _grade_none(falling, level, points["no suggestion"]),
    )
    return Verdict(ID, parts, misconception=_misconception(parts, pairs, curves))


def _grade_restored(pairs: _Pairs, maximum: float) -> Part:
    part = grade_part("restored", maximum, pairs, lambda seen: read_fields(seen, "restored"), _before, 1e-9)
    if part.points and not all(_trained(case, seen) for case, seen in pairs if case.kind == _FULL):
        return Part("restored", 0.0, maximum, "the model was not trained, so there was nothing to put back")
    return part


def _trained(case: HiddenCase, seen: Observation) -> bool:
    """Whether the computed losses are some, and not those of weights that stand still."""
    found, _ = read_field(seen, "computed", "losses")
    if not isinstance(found, np.ndarray) or found.ndim != 1 or len(found) < 3:
        return False
    for mode in ("train", "eval"):
        still = sweep(case.inputs, learn=False, mode=mode)["losses"]
        steps = min(len(still), len(found))
        if agree(found[:steps], still[:steps], 1e-7):
            return False
    return True


def _grade_none(falling: _Pairs, level: _Pairs, maximum: float) -> Part:
    """Silence on level curves is worth nothing by itself: on one that falls, a rate must have been read off it."""
    if not any(_read_off(case, seen) for case, seen in falling):
        return Part("no suggestion", 0.0, maximum, "no rate was read off any curve, also not off those that fall")
    return grade_part("no suggestion", maximum, level, _chosen, lambda case: [choose(case.inputs)], TOLERANCE)


def _read_off(case: HiddenCase, seen: Observation) -> bool:
    """Whether the choice is one of the curve's rates or a tenth of one."""
    rates = np.log10(case.inputs["curve_rates"])
    chosen, _ = _chosen(seen)
    return chosen is not None and any(agree(chosen, [float(log)], 1e-7) for log in [*rates, *(rates - 1)])


def _misconception(parts: tuple[Part, ...], pairs: _Pairs, curves: _Pairs) -> str | None:
    """The known mistake that explains the first part without full points."""
    lost = {part.name for part in parts if part.points < part.maximum}
    if lost & {"rates", "losses", "early end"}:
        found = [(case, _comparable(read_fields(seen, "sweep")[0])) for case, seen in pairs]
        return first_match(_SWEPT, found, TOLERANCE)
    if "restored" in lost:
        found = [(case, _comparable(read_fields(seen, "restored")[0])) for case, seen in pairs]
        return first_match(_LEFT, found, 1e-6)
    if lost:
        found = [(case, _chosen(seen)[0]) for case, seen in curves]
        return first_match(_CHOSEN, found, TOLERANCE)
    return None


def _swept(**how: Any) -> Callable[[HiddenCase], dict[str, Any]]:
    return lambda case: _comparable(_shown(sweep(case.inputs, **how)))


def _comparable(found: Any) -> Any:
    """NaN equals nothing, itself included; only here, where a mistake is named, it is taken for a number."""
    if isinstance(found, dict):
        return {name: _comparable(entry) for name, entry in found.items()}
    if isinstance(found, list):
        return [_comparable(entry) for entry in found]
    return np.nan_to_num(found, nan=-1.0) if isinstance(found, np.ndarray) and found.dtype.kind == "f" else found


_SWEPT: list[tuple[str, Callable[[HiddenCase], Any]]] = [
    ("empty-curve", lambda _: {"log10_rates": np.zeros(0), "losses": np.zeros(0)}),
    ("linear-rates", _swept(spacing="linear")),
    ("one-step-short", _swept(spacing="one step short")),
    ("fixed-factor", _swept(spacing="1.05")),
    ("loss-after-step", _swept(record="after")),
    ("never-zeroed", _swept(zero=False)),
    ("swept-in-eval", _swept(mode="eval")),
    ("never-trained", _swept(learn=False)),
    ("kept-the-end", _swept(keep_end=True)),
    ("nan-ignored", _swept(stop="divergence")),
    ("never-stops", _swept(stop="never")),
    ("never-stops", _swept(stop="not finite")),
    ("never-stops", _swept(stop="not finite", keep_end=True)),
]


def _left(**what: Any) -> Callable[[HiddenCase], dict[str, Any]]:
    return lambda case: _comparable(finals(case.inputs, **what))


_LEFT = [
    ("not-restored", _left(weights=True)),
    ("not-restored", _left(weights=True, buffers=True)),
    ("not-restored", _left(weights=True, buffers=True, modes="train")),
    ("not-restored", _left(weights=True, buffers=True, modes="root")),
    ("buffers-lost", _left(buffers=True)),
    ("buffers-lost", _left(buffers=True, modes="train")),
    ("buffers-lost", _left(buffers=True, modes="root")),
    ("modes-lost", _left(modes="train")),
    ("modes-lost", _left(modes="root")),
    ("modes-lost", _left(modes="eval")),
]
_CHOSEN: list[tuple[str, Callable[[HiddenCase], Any]]] = [
    ("at-minimum", lambda case: [choose(case.inputs, rule="minimum")]),
    ("at-minimum", lambda case: [choose(case.inputs, rule="minimum", always=True)]),
    ("step-before", lambda case: [choose(case.inputs, rule="step before")]),
    ("step-before", lambda case: [choose(case.inputs, rule="step before", always=True)]),
    ("steepest", lambda case: [choose(case.inputs, rule="steepest")]),
    ("steepest", lambda case: [choose(case.inputs, rule="steepest", always=True)]),
    ("always-suggests", lambda case: [choose(case.inputs, always=True)]),
    ("end-not-lowest", lambda case: [choose(case.inputs, fall="end")]),
    ("never-suggests", lambda _: [None]),
]


def _curve(case: HiddenCase) -> dict[str, Any]:
    return _shown(sweep(case.inputs))


def _shown(swept: dict[str, Any]) -> dict[str, Any]:
    return {name: swept[name] for name in ("log10_rates", "losses")}


def _before(case: HiddenCase) -> dict[str, Any]:
    return finals(case.inputs)


def _chosen(seen: Observation) -> tuple[Any, str]:
    """The choice in a list, so that None is a choice and not a missing value."""
    fields = value(seen, "choice")
    if fields is None or "log10_rate" not in fields:
        return None, why_none(seen, "choice")
    return [fields["log10_rate"]], ""
