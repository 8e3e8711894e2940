"""03a-checkpoint: a run that goes on from its file has the weights of a run that was never stopped.

The reference is one uninterrupted run of SGD with momentum and a stepped rate, by hand in NumPy; only the order of the
examples comes from torch's random stream. Each kind of case needs the weights, the epoch and one thing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03a-checkpoint"
PARTS = (("file", 2.0), ("position", 2.0), ("momentum", 2.0), ("schedule", 1.0), ("random state", 1.0))
TOLERANCE = 1e-10  # the same run, with sums in another order; weights that were rounded on their way are wrong
_APART = 1e-3
_FEATURES, _EXAMPLES, _STOP = 3, 5, 3


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Runs of seven epochs stopped in the middle: two of each kind."""
    kinds = [kind for kind in _LOST for _ in range(2)]
    cases = []
    for kind in kinds:
        case = _case(rng, kind)
        while not _tells_mistakes_apart(case):
            case = _case(rng, kind)
        cases.append(case)
    return cases


def _case(rng: np.random.Generator, kind: str) -> HiddenCase:
    true_weight = rng.normal(size=(_FEATURES, 1))
    x = rng.normal(size=(_EXAMPLES, _FEATURES))
    inputs = {
        "x": x,
        "y": x @ true_weight + 0.5 * rng.normal(size=(_EXAMPLES, 1)),
        "weight": rng.normal(size=(1, _FEATURES)),
        "another_weight": rng.normal(size=(1, _FEATURES)),
        "learning_rate": float(rng.uniform(0.01, 0.02)),
        "momentum": float(rng.uniform(0.7, 0.9)) if kind == "momentum" else 0.0,
        "gamma": float(rng.uniform(0.3, 0.5)) if kind == "schedule" else 1.0,
        "shuffle": kind == "random state",
        "seed": int(rng.integers(2**31)),
        "another_seed": int(rng.integers(2**31)),
        "stop": _STOP,
        "epochs": 7,
    }
    return HiddenCase(kind, inputs)


def _tells_mistakes_apart(case: HiddenCase) -> bool:
    weights = [run(case), *(run(case, lost) for lost in _LOST[case.kind].values())]
    gaps = [float(np.abs(a - b).max()) for i, a in enumerate(weights) for b in weights[:i]]
    return min(gaps) > _APART


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All of a part's points when its weights are those of the uninterrupted run in every case of its kind."""
    found = list(zip(cases, observations, strict=True))
    maximum = dict(PARTS)
    saved = partial(read_field, part="file", name="weight")
    resumed = partial(read_field, part="resumed", name="weight")
    parts = [grade_part("file", maximum["file"], found, saved, _at_stop, TOLERANCE)]
    for kind in _LOST:
        of_kind = [pair for pair in found if pair[0].kind == kind]
        parts.append(grade_part(kind, maximum[kind], of_kind, resumed, run, TOLERANCE))
    return Verdict(ID, tuple(parts), misconception=_misconception(parts, found))


def _misconception(parts: list[Part], found: list[tuple[HiddenCase, Observation]]) -> str | None:
    """The known mistake behind the first wrong part; what the schedule's cases show tells the momentum's apart."""
    wrong = [part.name for part in parts if part.points < part.maximum]
    if "file" in wrong:
        texts = {"there is no file": "nothing-written", _NOT_READ: "objects-pickled", "no weights in it": "no-weights"}
        seen = {str(read_field(observation, "file", "weight")[0]) for _, observation in found}
        if len(seen) == 1 and (text := seen.pop()) in texts:
            return texts[text]
    for kind in ("position", "schedule", "momentum", "random state"):
        if kind in wrong:
            pairs = [(case, read_field(seen, "resumed", "weight")[0]) for case, seen in found if case.kind == kind]
            simulated = [
                (name.split(":")[0], lambda case, lost=lost: run(case, lost)) for name, lost in _LOST[kind].items()
            ]
            if (known := first_match(simulated, pairs, TOLERANCE)) is not None:
                return known
    return None


_NOT_READ = "not read: it holds more than tensors, numbers and texts"
# What a resumed run lacks, by the kind of run in which it shows. A number is how far the epoch is off.
_LOST: dict[str, dict[str, Mapping[str, Any]]] = {
    "position": {
        "weights-lost": {"weights": True},
        "epoch-lost": {"epoch": -_STOP},
        "epoch-off-by-one": {"epoch": 1},
        "epoch-off-by-one:back": {"epoch": -1},
    },
    "momentum": {"momentum-lost": {"momentum": True}},
    "schedule": {
        "only-weights": {"rate": True, "schedule": True},
        "optimizer-lost": {"rate": True},
        "schedule-lost": {"schedule": True},
    },
    "random state": {"random-lost": {"random": "another_seed"}, "random-restarted": {"random": "seed"}},
}


def run(case: HiddenCase, lost: Mapping[str, Any] | None = None) -> np.ndarray:
    """The weights [1, F] at the end; with `lost`, of a run that was stopped and lacks these things afterwards."""
    return _epochs(case.inputs, case.inputs["epochs"], lost)


def _at_stop(case: HiddenCase) -> np.ndarray:
    return _epochs(case.inputs, case.inputs["stop"], None)


def _epochs(inputs: Mapping[str, Any], epochs: int, lost: Mapping[str, Any] | None) -> np.ndarray:
    weight, velocity = np.array(inputs["weight"]), np.zeros_like(inputs["weight"])
    rate, count = inputs["learning_rate"], 0
    generator = torch.Generator().manual_seed(inputs["seed"])
    epochs = epochs - (lost or {}).get("epoch", 0)
    for epoch in range(epochs):
        if lost is not None and epoch == inputs["stop"]:
            weight = np.array(inputs["another_weight"]) if "weights" in lost else weight
            velocity = np.zeros_like(weight) if "momentum" in lost or "rate" in lost else velocity
            rate = inputs["learning_rate"] if "rate" in lost else rate
            count = 0 if "schedule" in lost else count
            generator = generator.manual_seed(inputs[lost["random"]]) if "random" in lost else generator
        examples = len(inputs["x"])
        for i in torch.randperm(examples, generator=generator) if inputs["shuffle"] else range(examples):
            x, y = inputs["x"][i], inputs["y"][i]
            velocity = inputs["momentum"] * velocity + 2 * (weight @ x - y) * x[None]
            weight = weight - rate * velocity
        count += 1
        rate = rate * (inputs["gamma"] if count % 2 == 0 else 1.0)
    return weight
