"""03a-register: what is registered as what, what a state_dict restores, and what moves along.

The reference is the module's arithmetic in NumPy. What a module lists is compared by values, not by names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Verdict
from .common import HiddenCase, Observation, grade_part, read_fields, value

ID = "03a-register"
PARTS = (("parameters", 2.0), ("buffers", 2.0), ("state_dict", 1.0), ("moves", 2.0))
TOLERANCE = 1e-4  # float32, several layers
_KINDS = {"one layer": 1, "two layers": 2, "three layers": 3}
# part -> what is observed under which name, and its fields.
_FIELDS = {
    "parameters": ("registered", ("parameter_tensors", "trainable_tensors", "parameters")),
    "buffers": ("registered", ("buffer_tensors", "buffers")),
    "state_dict": ("state", ("unsaved_tensors", "restored")),
    "moves": ("moves", ("dtypes", "devices", "output")),
}


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Modules of one, two and three layers, of widths and values never shown."""
    return [HiddenCase(kind, _inputs(rng, layers)) for kind, layers in _KINDS.items()]


def _inputs(rng: np.random.Generator, layers: int) -> dict[str, Any]:
    widths = [int(width) for width in rng.integers(2, 6, layers + 1)]
    return {
        "weights": [_floats(rng.normal(size=(after, before))) for before, after in pairwise(widths)],
        "biases": [_floats(rng.normal(size=width)) for width in widths[1:]],
        "mean": _floats(rng.uniform(0.5, 2.0, widths[0]) * rng.choice([-1.0, 1.0], widths[0])),
        "temperature": float(np.float32(rng.uniform(1.5, 4.0))),
        "x": _floats(rng.normal(size=(int(rng.integers(2, 6)), widths[0]))),
    }


def _floats(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part when it is right for every module."""
    pairs = list(zip(cases, observations, strict=True))
    parts = tuple(
        grade_part(name, points, pairs, _reader(name), lambda case, name=name: expected(case)[name], TOLERANCE)  # type: ignore[misc]
        for name, points in PARTS
    )
    wrong = any(part.points < part.maximum for part in parts)
    return Verdict(ID, parts, misconception=_misconception(pairs) if wrong else None)


def _misconception(pairs: list[tuple[HiddenCase, Observation]]) -> str | None:
    """The mistake that explains how many tensors every module lists."""
    for name, shows in _MISTAKES.items():
        if all(shows(case, observation) for case, observation in pairs):
            return name
    return None


def _reader(part: str) -> Callable[[Observation], tuple[Any, str]]:
    observed, names = _FIELDS[part]

    def read(observation: Observation) -> tuple[Any, str]:
        return read_fields(observation, observed, *names)

    return read


def expected(case: HiddenCase) -> dict[str, dict[str, Any]]:
    """The fields of every part."""
    inputs = case.inputs
    parameters = [
        _floats([inputs["temperature"]]),
        *(array.ravel() for array in (*inputs["weights"], *inputs["biases"])),
    ]
    parameters.sort(key=lambda array: (array.size, array.tolist()))
    owned = len(parameters) + 1
    output = _output(inputs)
    return {
        "parameters": {
            "parameter_tensors": len(parameters),
            "trainable_tensors": len(parameters),
            "parameters": parameters,
        },
        "buffers": {"buffer_tensors": 1, "buffers": [_floats(0.9 * inputs["mean"] + 0.1 * _batch_mean(case))]},
        "state_dict": {"unsaved_tensors": 0, "restored": _floats(output)},
        "moves": {
            "dtypes": ["float64"] * owned,
            "devices": ["meta"] * owned,
            "output": output,
        },
    }


def _batch_mean(case: HiddenCase) -> np.ndarray:
    return np.asarray(case.inputs["x"].astype(np.float64).mean(axis=0))


def _output(inputs: Any) -> np.ndarray:
    """What the module computes in eval mode, in float64."""
    values = inputs["x"].astype(np.float64) - inputs["mean"]
    for number, (weight, bias) in enumerate(zip(inputs["weights"], inputs["biases"], strict=True)):
        values = (np.maximum(values, 0.0) if number else values) @ weight.T.astype(np.float64) + bias
    return np.asarray(values / inputs["temperature"])


def _listed(parameters: Callable[[int], int], buffers: int) -> Callable[[HiddenCase, Observation], bool]:
    """Whether so many tensors are listed, given how many parameters there should be."""

    def shows(case: HiddenCase, observation: Observation) -> bool:
        wanted = {"parameter_tensors": parameters(_count(case)), "buffer_tensors": buffers}
        return _shows(observation, "registered", wanted)

    return shows


def _count(case: HiddenCase) -> int:
    return 2 * len(case.inputs["weights"]) + 1


def _shows(observation: Observation, part: str, wanted: dict[str, Any]) -> bool:
    fields = value(observation, part) or {}
    return all(agree(fields.get(name), number, TOLERANCE) for name, number in wanted.items())


_MISTAKES: dict[str, Callable[[HiddenCase, Observation], bool]] = {
    "nothing-registered": _listed(lambda _: 0, 0),
    "layers-hidden": _listed(lambda _: 1, 1),
    "temperature-plain": _listed(lambda count: count - 1, 1),
    "temperature-as-buffer": _listed(lambda count: count - 1, 2),
    "temperature-frozen": lambda case, seen: _shows(
        seen, "registered", {"parameter_tensors": _count(case), "trainable_tensors": _count(case) - 1}
    ),
    "mean-plain": _listed(lambda count: count, 0),
    "mean-as-parameter": _listed(lambda count: count + 1, 0),
    "mean-not-saved": lambda _, seen: _shows(seen, "state", {"unsaved_tensors": 1}),
    "values-ignored": lambda case, seen: _shows(seen, "registered", {"buffers": [_floats(0.1 * _batch_mean(case))]}),
}
