"""03b-overfit: the verdict on broken and healthy programs, and the model put back.

Which program is broken is known from how it was drawn; it is no part of what the student's function is given. What
remains forgeable: the settings of a program lie in the process that runs it, two calls above the student's function.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.compare import agree
from lecture_lib.notebook.questions.overfit_programs import (
    EXAMPLES,
    HIDDEN,
    build_program,
    draw_program,
    floor_of_smoothing,
)

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, draw_until, grade_part, value, why_none

ID = "03b-overfit"
PARTS = (("floor", 3.0), ("wiring", 3.0), ("noise", 1.0), ("batch", 1.0), ("put back", 2.0))
STEPS, TOLERANCE = 100, 0.15
"""After how many steps a program's loss must be how near to its floor, in nats: as the question words it."""
_NOISY = {"dropout": 0.6, "learning_rate": 0.15, "momentum": 0.5}
# Every part has programs of both verdicts, so that saying the same of all earns nothing.
_KINDS = {
    "floor": ("smoothed labels", "second softmax", "below the floor"),
    "wiring": ("healthy", "slow", "not cleared", "broken wiring", "reached and lost", "nan"),
    "noise": ("dropout", "broken wiring", "second softmax"),
    "batch": ("healthy", "one class", "one class, broken wiring"),
}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Six healthy programs, six broken ones and two that come with a batch of one class, in a random order."""
    smoothing, classes = [float(rng.uniform(0.05, 0.3)) for _ in range(2)], int(rng.integers(3, 6))
    wiring: list[dict[str, Any]] = [{"frozen": [0, 1, 2]}, {"scale": 0.0}, {"dead": True}]
    broken = wiring[int(rng.integers(3))]
    one_class = np.full(EXAMPLES, int(rng.integers(classes)))
    growing = {"smoothing": 0.1, "growth": 1.045, "momentum": 0.0, "learning_rate": 0.3}
    plans: list[tuple[str, str, dict[str, Any]]] = [
        ("healthy", "holds", {}),
        ("slow", "holds", {"learning_rate": 0.015}),
        *[("smoothed labels", "holds", {"smoothing": one}) for one in smoothing],
        *[("dropout", "holds", _NOISY)] * 2,
        ("second softmax", "fails", {"softmax": True, "learning_rate": 0.5}),
        ("below the floor", "fails", {"floor": floor_of_smoothing(smoothing[0], classes)}),
        ("not cleared", "fails", {"smoothing": 0.1, "clears": False}),
        ("broken wiring", "fails", broken),
        ("reached and lost", "fails", growing),
        ("nan", "fails", {"learning_rate": 1e38}),
        ("one class", "one class", {"y": one_class}),
        ("one class, broken wiring", "one class", {"y": one_class, **broken}),
    ]
    cases = []
    for kind, verdict, settings in plans:
        given = {name: setting for name, setting in settings.items() if name != "dead"}
        program = draw_until(functools.partial(draw_program, rng, classes, **given), _is_clear)
        if settings.get("dead"):  # below zero for every example: no unit of the hidden layer ever fires
            program["weights"][1] = np.full(HIDDEN, -50.0, np.float32)
        cases.append(HiddenCase(kind, program, verdict))
    return [cases[index] for index in rng.permutation(len(cases))]


def _is_clear(program: Mapping[str, Any]) -> bool:
    """Whether the mode in which a noisy program's loss is measured decides on its verdict, whatever noise it meets."""
    if not program["dropout"]:
        return True
    model, step, loss_fn = build_program(program)
    x, y = torch.tensor(program["x"]), torch.tensor(program["y"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(program["seed"])
        for _ in range(STEPS):
            step(x, y)
        with torch.no_grad():
            noisy = loss_fn(model(x), y).item()
            exact = loss_fn(model.eval()(x), y).item()
    return abs(exact - program["floor"]) < TOLERANCE / 3 and abs(noisy - program["floor"]) > 1.5 * TOLERANCE


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """A part's points when all of its programs got their verdict; for the model only where the wiring was judged."""
    pairs = list(zip(cases, observations, strict=True))
    parts = [_grade(name, points, pairs) for name, points in PARTS[:-1]]
    name, points = PARTS[-1]
    if parts[1].points:
        trained = [pair for pair in pairs if pair[0].kind in _KINDS["wiring"]]
        parts.append(grade_part(name, points, trained, _left, _as_it_came, 0.0))
    else:
        parts.append(Part(name, 0.0, points, "counts once the programs of `wiring` are judged rightly"))
    return Verdict(ID, tuple(parts), misconception=_misconception(pairs, parts))


def _grade(name: str, points: float, pairs: list[tuple[HiddenCase, Observation]]) -> Part:
    wanted = [pair for pair in pairs if pair[0].kind in _KINDS[name]]
    wrong = []
    for case, seen in wanted:
        verdict, reason = _verdict(seen)
        if verdict is None:
            return Part(name, 0.0, points, f"on a program: {reason}")
        if verdict != case.key:
            wrong.append(verdict)
    if wrong:
        return Part(name, 0.0, points, f"{len(wrong)} of {len(wanted)} hidden programs got a wrong verdict")
    return Part(name, points, points, f"right on {len(wanted)} hidden programs")


def _misconception(pairs: list[tuple[HiddenCase, Observation]], parts: list[Part]) -> str | None:
    said = {case.kind: _verdict(seen)[0] for case, seen in pairs}
    if None in said.values():
        return None
    noisy = [_verdict(seen)[0] for case, seen in pairs if case.kind == "dropout"]
    rules = [
        ("constant-answer", len(set(said.values())) == 1),
        ("few-steps", said["healthy"] == said["slow"] == "fails"),
        ("few-steps", said["slow"] == "fails"),
        ("any-fall", said["second softmax"] == said["broken wiring"] == "holds"),
        ("floor-ignored", said["smoothed labels"] == "fails"),
        ("nan-holds", said["nan"] == "holds"),
        ("best-loss", said["reached and lost"] == "holds"),
        ("below-floor", said["below the floor"] == "holds"),
        ("train-mode", "fails" in noisy),
        ("one-class", said["one class"] in ("holds", "fails")),
    ]
    known = next((name for name, applies in rules if applies), None)
    if known is None and parts[1].points and not parts[-1].points:
        kept = all(agree(_fields(seen).get("weights"), case.inputs["weights"], 0.0) for case, seen in pairs)
        return "mode-left" if kept else "weights-left"
    return known


def _fields(observation: Observation) -> dict[str, Any]:
    return dict(value(observation, "rung") or {})


def _verdict(observation: Observation) -> tuple[str | None, str]:
    verdict = _fields(observation).get("verdict")
    return (verdict, "") if isinstance(verdict, str) else (None, why_none(observation, "rung"))


def _left(observation: Observation) -> tuple[Any, str]:
    fields = _fields(observation)
    return {name: fields.get(name) for name in ("weights", "training")}, ""


def _as_it_came(case: HiddenCase) -> dict[str, Any]:
    return {"weights": list(case.inputs["weights"]), "training": np.asarray(True)}
