"""03b-buckets: the order, the ceilings and the interventions of buckets, and the component with the largest gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.buckets import INTERVENTIONS, OTHER

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, value, why_none

ID = "03b-buckets"
PARTS = (("ranking", 2.0), ("ceilings", 2.0), ("interventions", 2.0), ("component", 2.0))
TOLERANCE = 1e-4
_UNKNOWN = ("glare", "crop", "rain", "night")
_COMPONENTS = ("detect", "align", "segment", "read", "classify", "merge", "track")


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Six sets of mistakes and pipelines, half of them with ties in both."""
    return [_case(rng, ties=number % 2 == 1) for number in range(6)]


def _case(rng: np.random.Generator, *, ties: bool) -> HiddenCase:
    names = [*INTERVENTIONS, *rng.choice(_UNKNOWN, int(rng.integers(1, 3)), replace=False).tolist()]
    counts = np.sort(rng.choice(np.arange(4, 40), len(names), replace=False))[::-1]
    if ties:
        counts[2], counts[4] = counts[1], counts[3]
    # The largest is not met first, nor first by name, and of equal ones the later by name is met first.
    order = rng.permutation(sorted(names)[1:]).tolist()
    order.insert(int(rng.integers(1, len(order))), min(names))
    for place in (1, 3) if ties else ():
        order[place : place + 2] = sorted(order[place : place + 2])
    met = [*(order[2], order[1], order[0], order[4], order[3]), *order[5:]]
    sized = dict(zip(order, counts.tolist(), strict=True))
    rest = rng.permutation([name for name in names for _ in range(sized[name] - 1)]).tolist()
    components = rng.permutation(_COMPONENTS)[: int(rng.integers(3, 7))].tolist()
    base = float(np.round(rng.uniform(60, 85), 1))
    alone = base + np.round(rng.uniform(-1, 4, len(components)), 1)
    # The best is not the first, and its left neighbour is no worse than the start.
    best = int(rng.integers(1, len(components) - 1)) if ties else int(rng.integers(1, len(components)))
    alone[best - 1] = base + np.round(rng.uniform(0.5, 3), 1)
    alone[best] = base + np.round(rng.uniform(6, 12), 1)
    if ties:
        alone[-1] = alone[best]
    inputs = {
        "mistakes": [*met, *rest],
        "accuracy": float(np.round(rng.uniform(60, 92), 1)),
        "base": base,
        "alone": dict(zip(components, alone.tolist(), strict=True)),
    }
    return HiddenCase("with ties" if ties else "without ties", inputs)


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Each part over all cases; ceilings and interventions are looked up by name, in whatever order they come."""
    pairs = list(zip(cases, observations, strict=True))
    expected = {"ranking": _ranked, "ceilings": _ceilings, "interventions": _interventions, "component": _component}
    parts = tuple(
        grade_part(name, points, pairs, lambda seen, name=name: _field(seen, name), expected[name], TOLERANCE)  # type: ignore[misc]
        for name, points in PARTS
    )
    orders = [_field(seen, "ranking")[0] for seen in observations]
    misconception = "constant-answer" if orders[0] and all(order == orders[0] for order in orders) else None
    for part in parts:
        if part.points < part.maximum and misconception is None:
            found = [(case, _field(seen, part.name)[0]) for case, seen in pairs]
            if part.name == "interventions":
                same = [len({str(one) for one in (of or {}).values()}) == 1 for _, of in found]
                misconception = "one-for-all" if all(same) else None
            else:
                misconception = first_match(_MISTAKES[part.name], found, TOLERANCE)
    return Verdict(ID, parts, misconception=misconception)


def _field(observation: Observation, name: str) -> tuple[Any, str]:
    fields: Any = value(observation, "component" if name == "component" else "buckets")
    if fields is None:
        return None, why_none(observation, "component" if name == "component" else "buckets")
    if name == "component":
        return [fields.get("name"), fields.get("gain")], ""
    names = fields.get("names")
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names) or len(set(names)) < len(names):
        return None, "the names of the buckets are no texts, or one occurs twice"
    if name == "ranking":
        return names, ""
    column = fields.get(name)
    if not isinstance(column, list) or len(column) != len(names):
        return None, f"no {name}"
    return dict(zip(names, column, strict=True)), ""


def _counts(case: HiddenCase) -> Counter[str]:
    return Counter(case.inputs["mistakes"])


def _ranked(case: HiddenCase) -> list[str]:
    counts = _counts(case)
    return sorted(counts, key=lambda name: (-counts[name], name))


def _shares(case: HiddenCase) -> dict[str, float]:
    return {name: count / len(case.inputs["mistakes"]) for name, count in _counts(case).items()}


def _ceilings(case: HiddenCase) -> dict[str, float]:
    accuracy = case.inputs["accuracy"]
    return {name: accuracy + share * (100 - accuracy) for name, share in _shares(case).items()}


def _interventions(case: HiddenCase) -> dict[str, str]:
    return {name: INTERVENTIONS.get(name, OTHER) for name in _counts(case)}


def _gains(case: HiddenCase) -> dict[str, float]:
    return {name: accuracy - case.inputs["base"] for name, accuracy in case.inputs["alone"].items()}


def _component(case: HiddenCase) -> list[Any]:
    gains = _gains(case)
    best = max(gains, key=lambda name: gains[name])
    return [best, gains[best]]


def _last_of_ties(case: HiddenCase) -> list[Any]:
    gains = _gains(case)
    return [[name for name in gains if gains[name] == max(gains.values())][-1], max(gains.values())]


def _neighbours(case: HiddenCase) -> list[Any]:
    accuracies = [case.inputs["base"], *case.inputs["alone"].values()]
    gains = dict(zip(case.inputs["alone"], np.diff(accuracies).tolist(), strict=True))
    best = max(gains, key=lambda name: gains[name])
    return [best, gains[best]]


_MISTAKES: dict[str, list[tuple[str, Any]]] = {
    "ranking": [
        ("first-come", lambda case: list(_counts(case))),
        ("alphabetical", lambda case: sorted(_counts(case))),
        ("ascending", lambda case: sorted(_counts(case), key=lambda name: (_counts(case)[name], name))),
        ("ties-as-met", lambda case: [name for name, _ in _counts(case).most_common()]),
    ],
    "ceilings": [
        ("share-added", lambda case: {k: case.inputs["accuracy"] + 100 * v for k, v in _shares(case).items()}),
        ("share-for-ceiling", lambda case: {name: 100 * share for name, share in _shares(case).items()}),
        ("share-for-ceiling", _shares),
    ],
    "component": [
        ("last-of-ties", _last_of_ties),
        ("neighbours", _neighbours),
        ("accuracy-for-gain", lambda case: [_component(case)[0], case.inputs["alone"][_component(case)[0]]]),
    ],
}
