"""03b-ablate: the runs that were asked for, the paired interval, the verdict, and what must be refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev, stdev
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree
from lecture_lib.notebook.questions.ablate import describe

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_fields

ID = "03b-ablate"
PARTS = (("runs", 2.0), ("interval", 2.0), ("verdict", 1.0), ("refusal", 1.0))
TOLERANCE = 3e-3
QUANTILE = 0.95 / math.sqrt(2 * 0.975 * 0.025)  # of Student's t with 2 degrees of freedom, 97.5 %: 4.303
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "augment": (False, True),
    "width": (16, 32, 64, 128),
    "learning_rate": (0.001, 0.003, 0.01),
    "dropout": (0.0, 0.1, 0.3),
    "optimizer": ("sgd", "adam"),
}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Five experiments with one change, and four that change two settings, none, or one that is not there."""
    cases = [
        # Mean difference in half widths of its interval. At 1.73 it would stand out without the root too, at 0.6 a
        # normal quantile finds an effect in noise.
        _experiment(rng, "likely useful", rng.uniform(1.3, 1.6)),
        _experiment(rng, "likely useful", rng.uniform(1.3, 1.6)),
        _experiment(rng, "noise", rng.uniform(0.55, 0.7)),
        _experiment(rng, "noise", -rng.uniform(0.55, 0.7)),
        _experiment(rng, "worse", -rng.uniform(1.3, 1.6)),
        *(_refused(rng, reason) for reason in ("two settings", "no setting", "the same value", "an unknown setting")),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def _configuration(rng: np.random.Generator) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """A base, and for each of its settings another value."""
    names = rng.permutation(list(_SETTINGS))[:4].tolist()
    values = {name: rng.permutation(len(_SETTINGS[name]))[:2].tolist() for name in names}
    base = {name: _SETTINGS[name][values[name][0]] for name in names}
    return base, [(name, _SETTINGS[name][values[name][1]]) for name in names]


def _experiment(rng: np.random.Generator, verdict: str, half_widths: float) -> HiddenCase:
    base, others = _configuration(rng)
    # The seeds' own luck is ten times larger than what is left of it in the differences.
    luck = rng.uniform(70, 80) + rng.permutation([-4.0, 0.0, 4.0]) + rng.uniform(-0.5, 0.5, 3)
    spread = rng.uniform(0.2, 0.5)
    noise = spread * (rng.permutation([-1.0, 0.0, 1.0]) + rng.uniform(-0.1, 0.1, 3))
    half = QUANTILE * stdev(noise.tolist()) / math.sqrt(3)
    scores = luck, luck + noise - noise.mean() + half_widths * half
    return HiddenCase(verdict, _inputs(rng, base, dict(others[:1]), *scores), "run")


def _refused(rng: np.random.Generator, reason: str) -> HiddenCase:
    base, others = _configuration(rng)
    name, other = others[0]
    change = {
        "two settings": dict(others[:2]),
        "no setting": {},
        "the same value": {name: base[name]},
        "an unknown setting": {f"{name}_": other},
    }[reason]
    scores = rng.uniform(70, 80, 3)
    return HiddenCase(reason, _inputs(rng, base, change, scores, scores + rng.uniform(1, 2, 3)), "refuse")


def _inputs(
    rng: np.random.Generator, base: dict[str, Any], change: dict[str, Any], scores: Any, changed: Any
) -> dict[str, Any]:
    seeds = [int(seed) for seed in rng.choice(np.arange(0, 1000, 10), 3, replace=False)]
    told = {"base_scores": [float(one) for one in scores], "changed_scores": [float(one) for one in changed]}
    return {"base": base, "change": change, "seeds": seeds, **told}


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Runs, interval and verdict over the experiments with one change, the refusal over all."""
    pairs = list(zip(cases, observations, strict=True))
    proper = [pair for pair in pairs if pair[0].key == "run"]
    maxima = dict(PARTS)
    parts = (
        grade_part("runs", maxima["runs"], proper, _runs, _expected_runs, TOLERANCE),
        grade_part("interval", maxima["interval"], proper, _interval, _expected_interval, TOLERANCE),
        grade_part("verdict", maxima["verdict"], proper, _verdict, lambda case: case.kind, TOLERANCE),
        _refusal(pairs, maxima["refusal"]),
    )
    return Verdict(ID, parts, misconception=_misconception(parts, proper, pairs))


def _read(observation: Observation, part: str, *names: str) -> tuple[Any, str]:
    fields, reason = read_fields(observation, part, *names)
    return (None if fields is None else list(fields.values())), reason


def _runs(observation: Observation) -> tuple[Any, str]:
    return _read(observation, "experiment", "runs", "base afterwards")


def _expected_runs(case: HiddenCase, later: int = 0) -> list[Any]:
    base, change, seeds = (case.inputs[name] for name in ("base", "change", "seeds"))
    asked = [f"{describe(base)}; seed {seed}" for seed in seeds]
    asked += [f"{describe({**base, **change})}; seed {seed + later}" for seed in seeds]
    return [sorted(asked), describe(base)]


def _base_changed(case: HiddenCase) -> list[Any]:
    return [_expected_runs(case)[0], describe({**case.inputs["base"], **case.inputs["change"]})]


def _interval(observation: Observation) -> tuple[Any, str]:
    return _read(observation, "reading", "gain", "low", "high")


def _expected_interval(case: HiddenCase, mistake: str = "") -> list[float]:
    base, changed = case.inputs["base_scores"], case.inputs["changed_scores"]
    differences = [after - before for before, after in zip(base, changed, strict=True)]
    gain, spread = fmean(differences), stdev(differences)
    if mistake == "sign-turned":
        gain = -gain
    if mistake == "unpaired":
        spread = math.sqrt(stdev(base) ** 2 + stdev(changed) ** 2)
    if mistake == "population-spread":
        spread = pstdev(differences)
    half = (1.96 if mistake == "normal-quantile" else QUANTILE) * spread / math.sqrt(1 if mistake == "no-root" else 3)
    return [gain, gain - half, gain + half]


def _verdict(observation: Observation) -> tuple[Any, str]:
    found, reason = _read(observation, "reading", "verdict")
    return (found, reason) if found is None else (found[0], "no verdict was returned")


def _refusal(pairs: list[tuple[HiddenCase, Observation]], points: float) -> Part:
    """Refusing everything earns nothing: the experiments with one change must be run."""
    for case, seen in pairs:
        found, reason = _read(seen, "refusal", "ValueError", "runs before")
        if found is None:
            return Part("refusal", 0.0, points, f"{case.kind}: {reason}")
        if case.key == "run" and (found[0] != "no" or not agree(found[1], 6, 0.0)):
            return Part("refusal", 0.0, points, "an experiment with one change was refused, or not run six times")
        if case.key == "refuse" and found[0] != "yes":
            return Part("refusal", 0.0, points, f"{case.kind}: was not refused with a ValueError")
        if case.key == "refuse" and not agree(found[1], 0, 0.0):
            return Part("refusal", 0.0, points, f"{case.kind}: was refused, but after runs")
    refused = sum(case.key == "refuse" for case, _ in pairs)
    return Part("refusal", points, points, f"{refused} of {refused} faulty experiments refused, no proper one")


def _misconception(
    parts: tuple[Part, ...], proper: list[tuple[HiddenCase, Observation]], pairs: list[tuple[HiddenCase, Observation]]
) -> str | None:
    failed = next((part.name for part in parts if part.points < part.maximum), None)
    if failed == "runs":
        found = [(case, _runs(seen)[0]) for case, seen in proper]
        simulations = [("other-seeds", lambda case: _expected_runs(case, later=1)), ("base-changed", _base_changed)]
        same = all(agree(_interval(seen)[0], _interval(proper[0][1])[0], 0.0) for _, seen in proper)
        return first_match(simulations, found, TOLERANCE) or ("constant-answer" if same else None)
    if failed == "interval":
        names = ("unpaired", "no-root", "normal-quantile", "population-spread", "sign-turned")
        wrong = [(name, lambda case, name=name: _expected_interval(case, name)) for name in names]
        return first_match(wrong, [(case, _interval(seen)[0]) for case, seen in proper], TOLERANCE)
    if failed == "verdict":
        by_sign = ("likely useful", "worse")
        told = [(case, _verdict(seen)[0]) for case, seen in proper]
        return first_match([("gain-only", lambda case: by_sign[_expected_interval(case)[0] < 0])], told, TOLERANCE)
    if failed == "refusal":
        refusals = [_read(seen, "refusal", "ValueError", "runs before")[0] for case, seen in pairs if case.key != "run"]
        return "late-refusal" if all(found and found[0] == "yes" for found in refusals) else "two-changes"
    return None
