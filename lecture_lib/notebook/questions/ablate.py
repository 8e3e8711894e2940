"""03b-ablate: one change, the same seeds for both sides, an interval on the paired difference, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..question import Functions, Inputs, PublicQuestion

REFUSED = "a ValueError"


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
        self.calls: list[tuple[str, int]] = []

    def __call__(self, config: Mapping[str, Any], seed: int) -> float:
        self.calls.append((describe(config), int(seed)))
        return self.scores.get(self.calls[-1], 0.0)


def _call(functions: Functions, inputs: Inputs, runs: Callable[..., float], base: dict[str, Any]) -> Any:
    """What came back; REFUSED when the experiment was."""
    try:
        return functions["ablate_one"](runs, base, dict(inputs["change"]), [int(seed) for seed in inputs["seeds"]])
    except ValueError:
        return REFUSED


def _experiment(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    runs, base = _Runs(inputs), dict(inputs["base"])
    _call(functions, inputs, runs, base)
    descriptions = sorted(f"{config}; seed {seed}" for config, seed in runs.calls)
    return {"runs": descriptions, "base afterwards": describe(base)}


def _reading(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    returned = _call(functions, inputs, _Runs(inputs), dict(inputs["base"]))
    gain, low, high, verdict = [REFUSED] * 4 if returned is REFUSED else returned
    return {"gain": gain, "low": low, "high": high, "verdict": verdict}


def _refusal(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    runs = _Runs(inputs)
    refused = _call(functions, inputs, runs, dict(inputs["base"])) is REFUSED
    return {"ValueError": "yes" if refused else "no", "runs before": len(runs.calls)}


QUESTION = PublicQuestion(
    id="03b-ablate",
    title="ablate one change",
    functions=("ablate_one",),
    may_overwrite=("ablate_one",),  # the part `runs` asks for it
    parts={"experiment": _experiment, "reading": _reading, "refusal": _refusal},
    relative_tolerance=3e-3,  # 4.303, 4.30 and the exact quantile are all right
)
