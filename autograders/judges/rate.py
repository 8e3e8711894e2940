"""03b-lr: a choice in the good range of curves whose true shape is known, and none where there is no fall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.rate import finder_curve, good_range

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03b-lr"
PARTS = (("clean", 2.0), ("noisy", 2.0), ("no suggestion", 2.0))
_KINDS = {"clean": ("clean",), "noisy": ("noisy", "diverged"), "no suggestion": ("no fall",)}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Three clean curves, two with noise, two that end in nan or inf, and four without a fall, in a random order."""
    cases = []
    # Far enough from each other that no rate is good for all three.
    for lowest in (rng.uniform(-2.9, -2.6), rng.uniform(-1.6, -1.2), rng.uniform(-0.3, 0.0)):
        cases.append(_curve(rng, "clean", lowest))
    for kind in ("noisy", "noisy", "diverged", "diverged"):
        cases.append(_curve(rng, kind, rng.uniform(-2.4, -0.4)))
    for kind in ("flat", "rising", "shallow", "nan"):
        cases.append(_without_fall(rng, kind))
    return [cases[index] for index in rng.permutation(len(cases))]


def _curve(rng: np.random.Generator, kind: str, lowest: float) -> HiddenCase:
    rates = np.geomspace(1e-7, 10.0, int(rng.integers(90, 120)))
    begin = lowest - rng.uniform(2.2, 3.0)
    start = rng.uniform(1.5, 4.0)
    losses = finder_curve(rates, start, start * rng.uniform(0.5, 0.8), begin, lowest)
    if kind == "noisy":
        losses = losses + 0.015 * start * rng.normal(size=len(losses))
    if kind == "diverged":
        losses[np.log10(rates) > lowest + rng.uniform(0.85, 1.2)] = rng.choice([np.nan, np.inf])
        losses[-1] = np.nan
    return HiddenCase(
        kind, {"rates": rates, "losses": losses}, {"good": good_range(begin, lowest), "lowest": 10**lowest}
    )


def _without_fall(rng: np.random.Generator, kind: str) -> HiddenCase:
    rates = np.geomspace(1e-7, 10.0, int(rng.integers(90, 120)))
    start, lowest = rng.uniform(1.5, 4.0), rng.uniform(-1.5, 0.0)
    losses = finder_curve(rates, start, 0.05 * start, lowest - 2.5, lowest, flat=kind != "shallow")
    if kind == "flat":
        losses = start + 0.008 * start * rng.normal(size=len(rates))
    if kind == "nan":
        losses = np.full(len(rates), np.nan)
    return HiddenCase("no fall", {"rates": rates, "losses": losses})


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All of a part's points when every choice is right; the rest counts once the clean curves are read."""
    pairs = list(zip(cases, observations, strict=True))
    places = [(case, *_place(case, seen)) for case, seen in pairs]
    parts: list[Part] = []
    for name, points in PARTS:
        wanted = [found for found in places if found[0].kind in _KINDS[name]]
        wrong = [reason for _, place, reason in wanted if place != "right"]
        if wrong:
            parts.append(Part(name, 0.0, points, f"{len(wrong)} of {len(wanted)} hidden curves: {wrong[0]}"))
        elif name != "clean" and not parts[0].points:
            parts.append(Part(name, 0.0, points, "counts once the clean curves are read rightly"))
        else:
            parts.append(Part(name, points, points, f"right on {len(wanted)} hidden curves"))
    return Verdict(ID, tuple(parts), misconception=_misconception(places, pairs))


def _place(case: HiddenCase, observation: Observation) -> tuple[str, str]:
    """Where the choice lies, and what is said about it."""
    fields = value(observation, "rate")
    if fields is None:
        return "raised", why_none(observation, "rate")
    if "rate" not in fields:
        return "raised", "no rate was returned"
    rate = fields["rate"]
    if rate is None:
        return ("right", "") if case.key is None else ("none", "no rate, on a curve that falls")
    if not isinstance(rate, np.ndarray) or rate.shape != () or rate.dtype.kind not in "iuf":
        return "raised", "what came back is no single number"
    if case.key is None:
        return "answered", "a rate, on a curve that never falls"
    smallest, largest = case.key["good"]
    if smallest <= rate <= largest:
        return "right", ""
    if not rate >= smallest:
        return "below", "the rate is below the good range"
    if rate.dtype.kind in "iu" or (rate >= 11 and float(rate).is_integer()):
        return "position", "the rate is above the good range"
    return ("lowest" if rate <= 2 * case.key["lowest"] else "above"), "the rate is above the good range"


def _misconception(
    places: list[tuple[HiddenCase, str, str]], pairs: list[tuple[HiddenCase, Observation]]
) -> str | None:
    def all_are(place: str, *kinds: str) -> bool:
        return all(found == place for case, found, _ in places if case.kind in kinds)

    if any(place == "raised" for _, place, _ in places):
        return None
    given: list[Any] = [(value(seen, "rate") or {}).get("rate") for _, seen in pairs]
    falling = [float(rate) for (case, _), rate in zip(pairs, given, strict=True) if case.key and rate is not None]
    rules = [
        ("always-none", all(rate is None for rate in given)),
        ("position", all_are("position", "clean")),
        ("at-the-minimum", all_are("lowest", "clean")),
        ("too-large", all_are("above", "clean")),
        ("too-small", all_are("below", "clean")),
        ("constant-answer", len(falling) > 1 and len(set(falling)) == 1),
        ("nan-blind", all_are("right", "clean") and all_are("none", "diverged")),
        ("always-answers", all_are("right", "clean") and any(place == "answered" for _, place, _ in places)),
    ]
    return next((name for name, applies in rules if applies), None)
