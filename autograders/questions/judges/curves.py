"""03b-curves: seven patterns, each found wherever it is and named nowhere else, and the action for each.

The curves keep away from every limit of the stated rules, so that rounding and the kind of mean decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.curves import LABELS

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03b-curves"
PARTS = (*((label, 1.0) for label in LABELS), ("action", 1.0))
_ACTION = {
    "diverging": "lower-rate",
    "dead": "overfit-one-batch",
    "oscillating": "lower-rate",
    "under": "larger-model",
    "leak": "check-split",
    "over": "regularise",
    "sweet spot": "error-analysis",
}
# Actions count from five labels on: with fewer, a table of actions would be worth a point without a diagnosis.
_LABELS_FOR_ACTION = 5
Curves = tuple[np.ndarray, np.ndarray]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Seventeen pairs of curves in a random order, two or three of each pattern."""
    makers: list[tuple[str, str, Callable[[np.random.Generator, int], Curves]]] = [
        ("losses that are not numbers", "diverging", _not_a_number),
        ("infinite losses", "diverging", _infinite),
        ("growing losses", "diverging", _growing),
        ("nothing learned", "dead", _dead),
        ("nothing learned, again", "dead", _dead),
        ("swings", "oscillating", _swinging),
        ("swings, again", "oscillating", _swinging),
        ("settled high", "under", _high),
        ("settled high, again", "under", _high),
        ("validation better", "leak", lambda rng, n: _settled(rng, n, rng.uniform(0.55, 0.9))),
        ("validation equal", "leak", lambda rng, n: _settled(rng, n, rng.uniform(0.995, 1.002))),
        ("validation turns up, small gap", "over", _turning),
        ("validation turns up, large gap", "over", _turning_far),
        ("a gap that stays", "over", lambda rng, n: _settled(rng, n, rng.uniform(2.8, 4.0))),
        ("settled low", "sweet spot", lambda rng, n: _settled(rng, n, rng.uniform(1.15, 1.5))),
        ("settled low, again", "sweet spot", lambda rng, n: _settled(rng, n, rng.uniform(1.15, 1.5))),
        ("one bad epoch", "sweet spot", _bad_epoch),
    ]
    cases = []
    for kind, label, make in makers:
        start = rng.uniform(0.7, 5.0)
        train, val = (start * curve for curve in make(rng, int(rng.integers(26, 40))))
        cases.append(HiddenCase(kind, {"train_loss": train, "val_loss": val}, label))
    return [cases[index] for index in rng.permutation(len(cases))]


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """A point for each label given to all of its curves and to no others, and one for the actions."""
    pairs = list(zip(cases, observations, strict=True))
    labels = [_field(seen, "label") for seen in observations]
    parts = [_label_part(label, pairs, labels) for label in LABELS]
    parts.append(_action_part(pairs, labels, sum(part.points for part in parts)))
    return Verdict(ID, tuple(parts), misconception=_misconception(cases, labels, parts))


def _label_part(label: str, pairs: list[tuple[HiddenCase, Observation]], labels: list[str | None]) -> Part:
    for (case, seen), found in zip(pairs, labels, strict=True):
        if case.key == label and found is None:
            return Part(label, 0.0, 1.0, f"{case.kind}: {why_none(seen, 'diagnosis')}")
    own = [found == label for (case, _), found in zip(pairs, labels, strict=True) if case.key == label]
    alarms = sum(found == label for (case, _), found in zip(pairs, labels, strict=True) if case.key != label)
    if not all(own):
        return Part(label, 0.0, 1.0, f"missed in {own.count(False)} of the {len(own)} pairs of curves that show it")
    if alarms:
        return Part(label, 0.0, 1.0, f"given to {alarms} pairs of curves that show something else")
    return Part(label, 1.0, 1.0, f"found in {len(own)} of {len(own)}, no false alarm")


def _action_part(pairs: list[tuple[HiddenCase, Observation]], labels: list[str | None], points: float) -> Part:
    if points < _LABELS_FOR_ACTION:
        return Part("action", 0.0, 1.0, f"counts from {_LABELS_FOR_ACTION} right labels on")
    for (case, seen), label in zip(pairs, labels, strict=True):
        if label == case.key and _field(seen, "action") != _ACTION[case.key]:
            return Part("action", 0.0, 1.0, f"another action than the one for {case.key}")
    return Part("action", 1.0, 1.0, "right for every label that is right")


def _misconception(cases: Sequence[HiddenCase], labels: list[str | None], parts: list[Part]) -> str | None:
    wrong_labels = any(part.points < part.maximum for part in parts[:-1])
    if wrong_labels:
        if set(labels) == {"sweet spot"}:
            return "always-fine"
        for mistake in ("last-epoch", "any-rise", "gap-only", "rise-only", "leak-first", "nan-unseen"):
            if all(_rule(case, mistake) == found for case, found in zip(cases, labels, strict=True)):
                return mistake
        return None
    return "under-for-over" if "for under" in parts[-1].message or "for over" in parts[-1].message else None


def _field(observation: Observation, name: str) -> str | None:
    fields: Any = value(observation, "diagnosis") or {}
    found = fields.get(name)
    return found if isinstance(found, str) else None


def _rule(case: HiddenCase, mistake: str = "") -> str:
    """The stated rules, or what a known mistake makes of them."""
    train, val = case.inputs["train_loss"], case.inputs["val_loss"]
    count = 1 if mistake == "last-epoch" else 5
    start, train_end, val_end = train[0], np.median(train[-count:]), np.median(val[-count:])
    with np.errstate(all="ignore"):
        rises = np.mean(train[1:] > (1.0 if mistake == "any-rise" else 1.1) * train[:-1])
    finite = mistake == "nan-unseen" or bool(np.isfinite([train, val]).all())
    holds = {
        "diverging": not finite or train_end > 2 * start,
        "dead": train_end >= 0.98 * start,
        "oscillating": rises >= 0.25,
        "under": train_end > 0.5 * start,
        "leak": val_end <= 1.02 * train_end,
        "over": (mistake != "gap-only" and val_end > 1.2 * val.min())
        or (mistake != "rise-only" and val_end > 2 * train_end),
    }
    order = ["leak", *holds] if mistake == "leak-first" else list(holds)
    return next((label for label in order if holds[label]), "sweet spot")


# Curves in shares of the start.


def _falling(rng: np.random.Generator, epochs: int, end: float) -> np.ndarray:
    """From 1 down to `end`, settled after two fifths of the epochs: then a tremble alone decides about small rises."""
    epoch = np.arange(epochs)
    curve = end + (1 - end) * np.exp(-epoch / (epochs * rng.uniform(0.05, 0.07)))
    return np.where(epoch > 0.4 * epochs, end, curve)


def _tremble(rng: np.random.Generator, curve: np.ndarray) -> np.ndarray:
    """Up and down by 0.3 % at most; the first epoch, which everything is compared with, stays as it is."""
    noise = 1 + 0.003 * rng.uniform(0.3, 1, len(curve)) * (-1.0) ** np.arange(len(curve))
    noise[0] = 1.0
    return curve * noise


def _settled(rng: np.random.Generator, epochs: int, ratio: float) -> Curves:
    end = rng.uniform(0.06, 0.2)
    train = _falling(rng, epochs, end)
    val = train * np.linspace(1, ratio, epochs) ** 0.2 if ratio < 1.1 else _falling(rng, epochs, ratio * end)
    val = np.where(np.arange(epochs) > epochs // 2, ratio * train, val)
    return _tremble(rng, train), _tremble(rng, val)


def _bad_epoch(rng: np.random.Generator, epochs: int) -> Curves:
    train, val = _settled(rng, epochs, rng.uniform(1.15, 1.4))
    val[-1] *= rng.uniform(2.5, 3.5)
    return train, val


def _high(rng: np.random.Generator, epochs: int) -> Curves:
    train = _falling(rng, epochs, rng.uniform(0.6, 0.85))
    return _tremble(rng, train), _tremble(rng, train * rng.uniform(0.97, 1.0))


def _dead(rng: np.random.Generator, epochs: int) -> Curves:
    flat = np.ones(epochs)
    return _tremble(rng, flat), _tremble(rng, flat * rng.uniform(0.99, 1.0))


def _turning(rng: np.random.Generator, epochs: int) -> Curves:
    return _turned(rng, epochs, rng.uniform(0.26, 0.3), rng.uniform(1.5, 1.65))


def _turning_far(rng: np.random.Generator, epochs: int) -> Curves:
    return _turned(rng, epochs, rng.uniform(0.02, 0.08), rng.uniform(4.0, 6.0))


def _turned(rng: np.random.Generator, epochs: int, end: float, ratio: float) -> Curves:
    """Validation falls to its lowest value half-way and rises to `ratio` times the training loss's end."""
    train = _falling(rng, epochs, end)
    last = ratio * end
    lowest, half = last / rng.uniform(1.5, 1.8), epochs // 2
    fall = lowest + (1 - lowest) * np.exp(-np.arange(epochs) / (epochs * 0.08))
    rise = (last - lowest) * np.clip((np.arange(epochs) - half) / (epochs - 6 - half), 0, 1)
    return _tremble(rng, train), _tremble(rng, fall + rise)


def _swinging(rng: np.random.Generator, epochs: int) -> Curves:
    train = _falling(rng, epochs, rng.uniform(0.3, 0.5))
    swing = 1 + rng.uniform(0.2, 0.3) * (-1.0) ** np.arange(epochs)
    swing[0] = 1.0
    return train * swing, train * swing * rng.uniform(1.05, 1.15)


def _growing(rng: np.random.Generator, epochs: int) -> Curves:
    grown = np.geomspace(rng.uniform(0.8, 0.95), rng.uniform(12, 30), epochs)
    grown[0] = 1.0
    return grown, grown * rng.uniform(1.05, 1.2)


def _not_a_number(rng: np.random.Generator, epochs: int) -> Curves:
    return _broken(rng, epochs, np.nan)


def _infinite(rng: np.random.Generator, epochs: int) -> Curves:
    return _broken(rng, epochs, np.inf)


def _broken(rng: np.random.Generator, epochs: int, value: float) -> Curves:
    train = _falling(rng, epochs, 0.3)
    val = 1.2 * train
    broken = np.arange(epochs) >= rng.integers(6, epochs - 6)
    return np.where(broken, value, train), np.where(broken, value, val)
