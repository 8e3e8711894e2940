"""03a-precision: the weights after a step under autocast, the dtypes in it, and what becomes of numbers.

The reference is NumPy: BF16 is rounded by its bits, and the step of a linear layer is worked out by hand. Inputs are
small whole numbers, so that every sum is exact in BF16 whatever its order; only the weights' last digits are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.precision import FORMATS, STALE, TENSORS

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_fields

ID = "03a-precision"
PARTS = (("step", 2.0), ("dtypes", 2.0), ("fate", 2.0))
TOLERANCE = 1e-6  # digits that BF16 loses move a weight by more than 1e-5
_LOST = 2.0**-10
_RATE = 0.125
# FP16 ends at 65504 and, rounding, just below 65520; below 2**-24 are multiples of nothing. BF16 ends near 3.39e38.
_LIMITS = (65504.0, 65519.0, 65520.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 3.3895e38, 3.397e38, 3.4e38)
Pair = tuple[HiddenCase, Observation]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Weights in FP32 twice, with either loss, in BF16 and in FP64, in a random order; each with its own numbers."""
    plans = [
        ("FP32, MSELoss", "float32", "mean squared error"),
        ("FP32, own loss", "float32", "own"),
        ("BF16, MSELoss", "bfloat16", "mean squared error"),
        ("BF16, own loss", "bfloat16", "own"),
        ("FP64, MSELoss", "float64", "mean squared error"),
    ]
    cases = [HiddenCase(f"weights in {kind}", _inputs(rng, stored, loss)) for kind, stored, loss in plans]
    return [cases[index] for index in rng.permutation(len(cases))]


def _inputs(rng: np.random.Generator, stored: str, loss: str) -> dict[str, Any]:
    x = rng.integers(-2, 3, (4, 3)).astype(np.float64)
    # The lost digits change the gradient only where the sums of the rows do not cancel.
    while np.abs(x.sum(1) @ x).max() < 2:
        x = rng.integers(-2, 3, (4, 3)).astype(np.float64)
    weight = rng.choice([-2.0, -1.0, 1.0, 2.0], (2, 3)).astype(np.float32)
    magnitudes = np.concatenate([_LIMITS, 2.0 ** rng.uniform(-110, 125, 6), 2.0 ** rng.uniform(-24, 16, 12)])
    numbers = np.concatenate([magnitudes * rng.choice([-1.0, 1.0], len(magnitudes)), rng.integers(-300, 300, 6)])
    return {
        "weight": weight + np.float32(_LOST if stored == "float32" else 0.0),
        "stored": stored,
        "loss": loss,
        "learning_rate": _RATE,
        "x": x,
        "y": rng.integers(-3, 4, (4, 2)).astype(np.float64),
        "numbers": rng.permutation(numbers).astype(np.float32),
    }


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part. Weights that are stored in BF16 are judged by their dtypes only: their step is rounded."""
    pairs = list(zip(cases, observations, strict=True))
    exact = [pair for pair in pairs if pair[0].inputs["stored"] != "bfloat16"]
    maximum = dict(PARTS)

    def graded(name: str, chosen: Sequence[Pair], expected: Callable[[HiddenCase], Any]) -> Any:
        return grade_part(name, maximum[name], chosen, lambda seen: read_fields(seen, name), expected, TOLERANCE)

    parts = (
        graded("step", exact, _after),
        graded("dtypes", pairs, _dtypes),
        graded("fate", pairs, lambda case: _fates(case, fate)),
    )
    lost = {part.name for part in parts if part.points < part.maximum}
    return Verdict(ID, parts, misconception=_misconception(lost, pairs, exact))


def bfloat16(numbers: np.ndarray) -> np.ndarray:
    """FP32 numbers rounded to BF16, to the even one at a tie, given back as FP32."""
    bits = numbers.astype(np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32)


def float16(numbers: np.ndarray) -> np.ndarray:
    """FP32 numbers rounded to FP16, given back as FP32."""
    with np.errstate(over="ignore", under="ignore"):
        return numbers.astype(np.float32).astype(np.float16).astype(np.float32)


def _gradient(case: HiddenCase, autocast: bool = True) -> np.ndarray:
    weight = case.inputs["weight"].astype(np.float64)
    if autocast and case.inputs["stored"] != "float64":
        weight = bfloat16(weight).astype(np.float64)
    output = case.inputs["x"] @ weight.T
    error = output - (case.inputs["y"] if case.inputs["loss"] != "own" else 0.0)
    return np.asarray((2 * error / error.size).T @ case.inputs["x"])


def _after(case: HiddenCase, gradient: np.ndarray | None = None) -> dict[str, np.ndarray]:
    gradient = _gradient(case) if gradient is None else gradient
    return {"weight": case.inputs["weight"].astype(np.float64) - _RATE * gradient}


def _converted(case: HiddenCase) -> dict[str, np.ndarray]:
    return {"weight": bfloat16(case.inputs["weight"]).astype(np.float64) - _RATE * _gradient(case)}


def _dtypes(case: HiddenCase) -> dict[str, str]:
    stored = case.inputs["stored"]
    output = "float64" if stored == "float64" else "bfloat16"
    loss = output if case.inputs["loss"] == "own" or stored == "float64" else "float32"
    return {"parameter": stored, "output": output, "loss": loss, "gradient": stored, "momentum": stored}


def fate(numbers: np.ndarray, name: str, tolerance: float = 0.0) -> list[str]:
    """What the format of that name makes of FP32 numbers."""
    rounded = {"float16": float16, "bfloat16": bfloat16}[name](numbers)
    fates = np.select(
        [np.isinf(rounded), (rounded == 0) & (numbers != 0), np.abs(rounded - numbers) <= tolerance * np.abs(numbers)],
        ["overflow", "underflow", "exact"],
        "rounded",
    )
    return [str(one) for one in fates]


def _fates(case: HiddenCase, rule: Callable[[np.ndarray, str], list[str]]) -> dict[str, list[str]]:
    return {name: rule(case.inputs["numbers"], name) for name in FORMATS}


def _changed(format_name: str, to: str, where: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A rule that is wrong in one format, where a condition on the number holds."""

    def rule(numbers: np.ndarray, name: str) -> list[str]:
        wrong = where(numbers) & (name == format_name)
        return [to if changed else right for changed, right in zip(wrong, fate(numbers, name), strict=True)]

    return rule


def _positive_only(numbers: np.ndarray, name: str) -> list[str]:
    right = fate(numbers, name)
    return ["rounded" if one == "overflow" and number < 0 else one for number, one in zip(numbers, right, strict=True)]


def _misconception(lost: set[str], pairs: Sequence[Pair], exact: Sequence[Pair]) -> str | None:
    """The known mistake that explains the first part without full points."""

    def matches(part: str, chosen: Sequence[Pair], simulations: dict[str, Callable[[HiddenCase], Any]]) -> str | None:
        found = [(case, read_fields(seen, part)[0]) for case, seen in chosen]
        return first_match(simulations.items(), found, TOLERANCE) if part in lost else None

    single = [pair for pair in exact if pair[0].inputs["stored"] == "float32"]
    usual = dict(zip(TENSORS, ["float32", "bfloat16", "float32", "float32", "float32"], strict=True))
    return (
        matches(
            "fate", pairs, {"constant-answer": lambda case: _fates(case, lambda numbers, _: ["exact"] * len(numbers))}
        )
        or matches(
            "step",
            single,
            {
                "no-autocast": lambda case: _after(case, _gradient(case, autocast=False)),
                "model-converted": _converted,
                "stale-gradients": lambda case: _after(case, _gradient(case) + STALE),
                "never-steps": lambda case: _after(case, np.zeros_like(_gradient(case))),
            },
        )
        or matches("dtypes", pairs, {"by-heart": lambda _: usual})
        or matches("fate", pairs, {name: partial(_fates, rule=rule) for name, rule in _RULES.items()})
    )


_RULES: dict[str, Callable[[np.ndarray, str], list[str]]] = {
    "one-limit-for-both": lambda numbers, _: fate(numbers, "float16"),
    "largest-is-limit": _changed("float16", "overflow", lambda numbers: np.abs(numbers) > 65504),
    "tiny-is-limit": _changed("float16", "underflow", lambda numbers: (np.abs(numbers) < 2.0**-14) & (numbers != 0)),
    "positive-only": _positive_only,
    "bf16-never-overflows": _changed("bfloat16", "rounded", lambda numbers: np.isinf(bfloat16(numbers))),
    "close-is-exact": lambda numbers, name: fate(numbers, name, 0.01),
}
