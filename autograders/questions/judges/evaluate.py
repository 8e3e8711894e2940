"""03a-evaluate: weighted means, eval mode, nothing on the tape, modes and random stream as they were.

The model's outputs are sums of three linear maps, done here in NumPy: which of them are in the sum says in which mode
each layer ran. That the random stream was left alone shows in the numbers that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.compare import agree

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_fields

ID = "03a-evaluate"
PARTS = (("uneven", 2.0), ("eval mode", 2.0), ("no tape", 1.0), ("modes", 2.0), ("random stream", 1.0))
TOLERANCE = 1e-6  # sums kept in float32 are right too; the known mistakes are at least 1e-2 away
_APART = 1e-2
_FEATURES = 3
Reference = Callable[[HiddenCase], dict[str, Any]]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Three data sets in uneven batches, the model in train mode in two of them and in eval mode in one."""
    cases = []
    for training in (True, False, True):
        case = _case(rng, training)
        while not _tells_mistakes_apart(case):
            case = _case(rng, training)
        cases.append(case)
    return cases


def _case(rng: np.random.Generator, training: bool) -> HiddenCase:
    sizes = [4, 4, 4, int(rng.integers(1, 3))] if training else [int(size) for size in rng.permutation([1, 3, 6])]
    inputs = {
        "x": [rng.normal(size=(size, _FEATURES)) for size in sizes],
        "y": [rng.normal(size=(size, 1)) for size in sizes],
        "weights": rng.uniform(0.5, 2.0, size=(3, _FEATURES)) * rng.choice([-1.0, 1.0], size=(3, _FEATURES)),
        "offset": float(rng.uniform(1.0, 3.0)),
        "seed": int(rng.integers(2**31)),
        "x_after": rng.normal(size=(2, _FEATURES)),
        "training": training,
    }
    return HiddenCase("training before" if training else "evaluated before", inputs)


def _tells_mistakes_apart(case: HiddenCase) -> bool:
    """Whether chance did not make two ways to average, or two sums of branches, nearly equal."""
    losses = [_uneven(case)["loss"], *(simulate(case)["loss"] for _, simulate in _SIMULATED["uneven"])]
    after = [_branches(case.inputs["x_after"], case, kept) for kept in (_EVAL, _TRAIN, _THAWED)]
    gaps = [abs(a - b) for i, a in enumerate(losses) for b in losses[:i]]
    gaps += [float(np.abs(a - b).max()) for i, a in enumerate(after) for b in after[:i]]
    return min(gaps) > _APART


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All of a part's points when it is right in every case; modes and stream only count around an evaluation."""
    found = list(zip(cases, observations, strict=True))
    parts = tuple(_graded(name, maximum, found) for name, maximum in PARTS)
    return Verdict(ID, parts, misconception=_misconception(parts, found))


def _graded(name: str, maximum: float, found: list[tuple[HiddenCase, Observation]]) -> Part:
    wanted = _RIGHT[name]
    names = tuple(wanted(found[0][0]))
    part = grade_part(name, maximum, found, lambda seen: read_fields(seen, name, *names), wanted, TOLERANCE)
    if part.points and name in _IN_ANY_MODE and not _was_evaluated(found, name):
        return Part(name, 0.0, maximum, "nothing was evaluated: the outputs are those of no mode")
    return part


def _was_evaluated(found: list[tuple[HiddenCase, Observation]], part: str) -> bool:
    """Whether outputs came back, in whichever mode: doing nothing leaves everything as it was, and earns nothing."""
    return all(
        any(
            agree(read_fields(seen, part, "outputs")[0], {"outputs": _outputs(case, kept)}, TOLERANCE)
            for kept in _IN_ANY_MODE[part]
        )
        for case, seen in found
    )


# Which of the three branches are in the sum.
_EVAL, _TRAIN, _THAWED = (True, True, True), (True, False, True), (True, False, False)
_IN_ANY_MODE = {"modes": (_EVAL, _TRAIN, _THAWED), "random stream": (_THAWED,)}


def _branches(x: np.ndarray, case: HiddenCase, kept: tuple[bool, ...]) -> np.ndarray:
    rows = [row for row, keep in zip(np.asarray(case.inputs["weights"]), kept, strict=True) if keep]
    return np.sum([x @ row for row in rows], axis=0)[:, None]


def _outputs(case: HiddenCase, kept: tuple[bool, ...]) -> np.ndarray:
    return _branches(np.concatenate(case.inputs["x"]), case, kept)


def _batch_losses(case: HiddenCase) -> list[float]:
    batches = zip(case.inputs["x"], case.inputs["y"], strict=True)
    return [float(((_branches(x, case, _THAWED) - y) ** 2).mean()) for x, y in batches]


def _uneven(case: HiddenCase) -> dict[str, Any]:
    outputs = _outputs(case, _THAWED)
    return {"loss": float(((outputs - np.concatenate(case.inputs["y"])) ** 2).mean()), "outputs": outputs}


def _afterwards(case: HiddenCase, training: tuple[bool, ...], evaluated: tuple[bool, ...]) -> dict[str, Any]:
    """The outputs after the evaluation of a model that was in train mode before, or in eval mode."""
    kept = training if case.inputs["training"] else evaluated
    return {"outputs afterwards": _branches(case.inputs["x_after"], case, kept)}


def _next_numbers(case: HiddenCase, skipped: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(case.inputs["seed"])
    torch.rand(skipped, generator=generator)
    return {"next numbers": torch.rand(2, generator=generator).numpy()}


_RIGHT: dict[str, Reference] = {
    "uneven": _uneven,
    "eval mode": lambda case: {"outputs": _outputs(case, _EVAL)},
    "no tape": lambda case: {"outputs": _outputs(case, _THAWED)},
    "modes": lambda case: _afterwards(case, _TRAIN, _EVAL),
    "random stream": lambda case: _next_numbers(case, 0),
}
_SIMULATED: dict[str, list[tuple[str, Reference]]] = {
    "uneven": [
        ("mean-of-batches", lambda case: {"loss": float(np.mean(_batch_losses(case)))}),
        ("not-divided", lambda case: {"loss": len(_outputs(case, _EVAL)) * _uneven(case)["loss"]}),
        ("last-batch-only", lambda case: {"loss": _batch_losses(case)[-1]}),
        ("constant-result", lambda _: {"loss": 0.0}),
    ],
    "eval mode": [
        ("train-mode", lambda case: {"outputs": _outputs(case, _TRAIN)}),
        ("all-in-train-mode", lambda case: {"outputs": _outputs(case, _THAWED)}),
    ],
    "no tape": [("recorded", lambda case: {"outputs": _outputs(case, _THAWED) + case.inputs["offset"]})],
    "modes": [
        ("left-in-eval", lambda case: _afterwards(case, _EVAL, _EVAL)),
        ("always-train", lambda case: _afterwards(case, _THAWED, _THAWED)),
        ("frozen-thawed", lambda case: _afterwards(case, _THAWED, _EVAL)),
    ],
    "random stream": [("stream-moved", lambda case: _next_numbers(case, 1))],
}


def _misconception(parts: tuple[Part, ...], found: list[tuple[HiddenCase, Observation]]) -> str | None:
    """The known mistake that explains the first part without full points that one explains."""
    for part in parts:
        for name, simulate in _SIMULATED[part.name] if part.points < part.maximum else []:
            fields = tuple(simulate(found[0][0]))
            seen = [(case, read_fields(observation, part.name, *fields)[0]) for case, observation in found]
            if first_match([(name, simulate)], seen, TOLERANCE):
                return name
    return None
