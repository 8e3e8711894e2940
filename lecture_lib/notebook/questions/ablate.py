"""03b-ablate: one change, the same seeds for both sides, an interval on the paired difference, a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

VERDICTS = ("likely useful", "noise", "worse")


def describe(config: Mapping[str, Any]) -> str:
    """A configuration as text, whatever the order of its settings."""
    return ", ".join(f"{name}={config[name]}" for name in sorted(config))


class _Runs:
    """Stands for training: gives each configuration and seed its score, and remembers what was asked for."""

    def __init__(self, inputs: Inputs) -> None:
        sides = {"base_scores": dict(inputs["base"]), "changed_scores": {**inputs["base"], **inputs["change"]}}
        self.scores = {
            (describe(config), int(seed)): float(score)
            for name, config in sides.items()
            for seed, score in zip(inputs["seeds"], inputs[name], strict=True)
        }
        self.asked: list[tuple[str, int]] = []

    def __call__(self, config: Mapping[str, Any], seed: int) -> float:
        self.asked.append((describe(config), int(seed)))
        return self.scores.get(self.asked[-1], 0.0)


def _call(functions: Functions, inputs: Inputs, runs: Callable[..., float], base: dict[str, Any]) -> Any:
    return functions["ablate_one"](runs, base, dict(inputs["change"]), [int(seed) for seed in inputs["seeds"]])


def _experiment(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    runs, base = _Runs(inputs), dict(inputs["base"])
    _call(functions, inputs, runs, base)
    asked = sorted(f"{config}; seed {seed}" for config, seed in runs.asked)
    return {"runs": asked, "base afterwards": describe(base)}


def _reading(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    gain, low, high, verdict = _call(functions, inputs, _Runs(inputs), dict(inputs["base"]))
    return {"gain": gain, "low": low, "high": high, "verdict": verdict}


def _refusal(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    runs = _Runs(inputs)
    try:
        _call(functions, inputs, runs, dict(inputs["base"]))
    except ValueError:
        return {"ValueError": "yes", "runs before": len(runs.asked)}
    return {"ValueError": "no", "runs before": len(runs.asked)}


_BASE = {"augment": False, "width": 32}
_SEEDS = [3, 5, 8]


def _inputs(change: dict[str, Any], base_scores: list[float], differences: list[float]) -> dict[str, Any]:
    changed = [score + difference for score, difference in zip(base_scores, differences, strict=True)]
    scores = {"base_scores": base_scores, "changed_scores": changed}
    return {"base": _BASE, "change": change, "seeds": _SEEDS, **scores}


def _asked(change: dict[str, Any], seeds: list[int] = _SEEDS) -> list[str]:
    pairs = [(_BASE, seed) for seed in _SEEDS] + [({**_BASE, **change}, seed) for seed in seeds]
    return sorted(f"{describe(config)}; seed {seed}" for config, seed in pairs)


def _read(gain: float, half: float, verdict: str) -> dict[str, Any]:
    return {"gain": gain, "low": gain - half, "high": gain + half, "verdict": verdict}


_ROOT = math.sqrt(3)
_AUGMENT, _WIDER = {"augment": True}, {"width": 64}
# Paired differences 1.6, 2.1, 2.6: mean 2.1, spread 0.5. Base 79, 82, 85: spread 3, with the change 3.5 (exactly).
_USEFUL = _inputs(_AUGMENT, [79.0, 82.0, 85.0], [1.6, 2.1, 2.6])
_UNPAIRED = 4.303 * math.sqrt((3.0**2 + 3.5**2) / 3)
# Paired differences -0.2, 0.4, 1.0: mean 0.4, spread 0.6.
_NOISE = _inputs(_WIDER, [81.0, 82.0, 83.0], [-0.2, 0.4, 1.0])

QUESTION = PublicQuestion(
    id="03b-ablate",
    title="ablate one change",
    functions=("ablate_one",),
    parts={"experiment": _experiment, "reading": _reading, "refusal": _refusal},
    relative_tolerance=3e-3,  # 4.303, 4.30 and the exact quantile are all right
    cases=(
        PublicCase(
            name="augmentation: 1.6, 2.1 and 2.6 better",
            inputs=_USEFUL,
            expected={
                "experiment": {"runs": _asked(_AUGMENT), "base afterwards": describe(_BASE)},
                "reading": _read(2.1, 4.303 * 0.5 / _ROOT, "likely useful"),
                "refusal": {"ValueError": "no", "runs before": 6},
            },
            mistakes={
                "other-seeds": {"experiment": {"runs": _asked(_AUGMENT, [4, 6, 9])}},
                "base-changed": {"experiment": {"base afterwards": describe({**_BASE, **_AUGMENT})}},
                "unpaired": {"reading": _read(2.1, _UNPAIRED, "noise")},
                "no-root": {"reading": _read(2.1, 4.303 * 0.5, "noise")},
                "normal-quantile": {"reading": _read(2.1, 1.96 * 0.5 / _ROOT, "likely useful")},
                "population-spread": {
                    "reading": _read(2.1, 4.303 * 0.5 * math.sqrt(2 / 3) / _ROOT, "likely useful")
                },
                "sign-turned": {"reading": _read(-2.1, 4.303 * 0.5 / _ROOT, "worse")},
            },
        ),
        PublicCase(
            name="a wider network: 0.2 worse, 0.4 and 1.0 better",
            inputs=_NOISE,
            expected={"reading": _read(0.4, 4.303 * 0.6 / _ROOT, "noise")},
            mistakes={
                "gain-only": {"reading": _read(0.4, 4.303 * 0.6 / _ROOT, "likely useful")},
                "sign-turned": {"reading": _read(-0.4, 4.303 * 0.6 / _ROOT, "noise")},
            },
        ),
        PublicCase(
            name="augmentation and a wider network at once",
            inputs=_inputs({**_AUGMENT, **_WIDER}, [81.0, 82.0, 83.0], [1.5, 2.0, 2.5]),
            expected={"refusal": {"ValueError": "yes", "runs before": 0}},
            mistakes={
                "two-changes": {"refusal": {"ValueError": "no", "runs before": 6}},
                "late-refusal": {"refusal": {"ValueError": "yes", "runs before": 6}},
            },
        ),
        PublicCase(
            name="a change to the value that base has",
            inputs=_inputs({"width": 32}, [81.0, 82.0, 83.0], [0.0, 0.0, 0.0]),
            expected={"refusal": {"ValueError": "yes", "runs before": 0}},
            mistakes={"two-changes": {"refusal": {"ValueError": "no", "runs before": 6}}},
        ),
        PublicCase(
            name="a change of a setting that base has not",
            inputs=_inputs({"witdh": 64}, [81.0, 82.0, 83.0], [0.0, 0.0, 0.0]),
            expected={"refusal": {"ValueError": "yes", "runs before": 0}},
            mistakes={"two-changes": {"refusal": {"ValueError": "no", "runs before": 6}}},
        ),
    ),
    misconceptions={
        "constant-answer": Misconception(
            "the same numbers came back for every experiment",
            "where each number comes from: the scores that `run` returns",
        ),
        "other-seeds": Misconception(
            "the change was run with other seeds than the base",
            "what else differs between the two runs of a pair",
        ),
        "base-changed": Misconception(
            "the configuration that was passed as base holds the change afterwards",
            "whether the changed configuration is a copy",
        ),
        "unpaired": Misconception(
            "the two sets of scores were compared as if their seeds had nothing to do with each other",
            "the spread of the differences, seed by seed, beside the spread of the scores",
        ),
        "no-root": Misconception(
            "the half width lacks the division by the root of the number of seeds",
            "the difference between the spread of single values and that of their mean",
        ),
        "normal-quantile": Misconception(
            "1.96 holds for many seeds; with three the spread itself is hardly known",
            "the factor that the question states",
        ),
        "population-spread": Misconception(
            "the squares were divided by n, not by n - 1",
            "how the standard deviation of a sample divides; np.std's default is the other one",
        ),
        "sign-turned": Misconception(
            "the difference is base minus change: an improvement comes out below 0",
            "the direction of the difference",
        ),
        "gain-only": Misconception(
            "a mean above 0 was taken for a verdict",
            "where 0 lies in the interval",
        ),
        "two-changes": Misconception(
            "an experiment that does not change exactly one setting was run all the same",
            "what a difference could be put down to when two settings change, or none",
        ),
        "late-refusal": Misconception(
            "the experiment was refused after it had been paid for",
            "what can be known before the first run",
        ),
    },
)  # fmt: skip
