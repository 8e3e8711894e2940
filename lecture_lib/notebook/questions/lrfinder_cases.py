"""The visible cases of 03a-lrfinder: one weight on inputs 2 and 4, whose mean the model takes away, and three curves.

With inputs ±1 left and labels ±t, the loss is (w - t)², and a step at rate r multiplies w - t by 1 - 2r.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..question import PublicCase


def _inputs(
    targets: Sequence[float], modes: list[bool], ends: tuple[float, float], steps: int, curve: dict[float, float]
) -> dict[str, Any]:
    return {
        "x": [np.array([[2.0], [np.nan if np.isnan(target) else 4.0]]) for target in targets],
        "y": [np.array([[-1.0], [1.0]]) * np.nan_to_num(target, nan=1.0) for target in targets],
        "weight": np.zeros((1, 1)),
        "bias": np.zeros(1),
        "running_mean": np.zeros(1),
        "modes": modes,
        "start": ends[0],
        "stop": ends[1],
        "steps": steps,
        "curve_rates": list(curve),
        "curve_losses": list(curve.values()),
    }


def _before(modes: list[bool]) -> dict[str, Any]:
    return {
        "weights": [np.zeros((1, 1)), np.zeros(1)],
        "running_mean": np.zeros(1),
        "modes": [np.asarray(mode) for mode in modes],
    }


def _lost(name: str, found: Any) -> dict[str, dict[str, Any]]:
    return {"restored": {name: found}}


def _rates(*log10_rates: float) -> dict[str, dict[str, Any]]:
    return {"sweep": {"log10_rates": np.array(log10_rates)}}


def _losses(*losses: float) -> dict[str, dict[str, Any]]:
    return {"sweep": {"losses": np.array(losses)}}


def _chosen(log10_rate: float | None) -> dict[str, dict[str, Any]]:
    return {"choice": {"log10_rate": log10_rate}}


_ALL, _NONE, _MIXED = [True] * 4, [False] * 4, [True, True, True, False]
_TRAINED = [np.asarray(True)] * 4
_TABLE = {1e-4: 3.2, 1e-3: 2.5, 1e-2: 1.1, 1e-1: 0.9, 1.0: 2.8}
_HALF_DECADES = {1e-3: 2.3, 10**-2.5: 1.4, 1e-2: 1.2, 10**-1.5: 1.0, 1e-1: 0.8, 10**-0.5: 3.0}
_NEVER_FALLS = {1e-3: 2.3, 1e-2: 2.31, 1e-1: 2.29, 1.0: 2.2, 10.0: 5.0}

CASES = (
    PublicCase(
        name="five steps from 0.001 to 0.1, a model in eval mode; the lecture's table",
        inputs=_inputs([1.0, 1.5], _NONE, (1e-3, 1e-1), 5, _TABLE),
        expected={
            "sweep": {
                "log10_rates": np.array([-3.0, -2.5, -2.0, -1.5, -1.0]),
                "losses": np.array([1.0, 2.244004, 0.9771832892, 2.1572421307, 0.7671360970]),
            },
            "restored": _before(_NONE),
            **_chosen(-2.0),
        },
        mistakes={
            "empty-curve": _rates(),
            "linear-rates": _rates(-3.0, -1.5892227666, -1.2967086219, -1.1234934957, -1.0),
            "one-step-short": _rates(-3.0, -2.6, -2.2, -1.8, -1.4),
            "fixed-factor": _rates(-3.0, -2.9788107009, -2.9576214019, -2.9364321028, -2.9152428037),
            "loss-after-step": _losses(0.996004, 2.2157091053, 0.9384868309, 1.8929991553, 0.4909671021),
            "never-zeroed": _losses(1.0, 2.244004, 0.9647193167, 1.99543095, 0.3637893048),
            "swept-in-eval": _losses(1.0, 2.24404, 0.9785673048, 2.1710660036, 0.8964354733),
            "never-trained": _losses(1.0, 2.25, 1.0, 2.25, 1.0),
            "not-restored": _lost("weights", [np.array([[0.2993095533]]), np.zeros(1)]),
            "buffers-lost": _lost("running_mean", np.array([1.22853])),
            "modes-lost": _lost("modes", _TRAINED),
            "at-minimum": _chosen(-1.0),
            "never-suggests": _chosen(None),
        },
    ),
    PublicCase(
        name="the rate of 100 diverges, one module in eval mode; a curve in half decades",
        inputs=_inputs([1.0], _MIXED, (1e-3, 1e3), 7, _HALF_DECADES),
        expected={
            "sweep": {
                "log10_rates": np.array([-3.0, -2.0, -1.0, 0.0, 1.0]),
                "losses": np.array([1.0, 0.996004, 0.9565622416, 0.6121998346, 0.6121998346]),
            },
            "restored": _before(_MIXED),
            **_chosen(-2.0),
        },
        mistakes={
            "kept-the-end": _rates(-3.0, -2.0, -1.0, 0.0, 1.0, 2.0),
            "never-stops": _rates(-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0),
            "not-restored": _lost("weights", [np.array([[-13.866208]]), np.zeros(1)]),
            "buffers-lost": _lost("running_mean", np.array([1.405677])),
            "modes-lost": _lost("modes", _TRAINED),
            "at-minimum": _chosen(-1.0),
            "step-before": _chosen(-1.5),
            "steepest": _chosen(-2.5),
            "end-not-lowest": _chosen(None),
        },
    ),
    PublicCase(
        name="the third batch holds a NaN; a curve that never falls",
        inputs=_inputs([1.0, 1.0, np.nan], _ALL, (1e-3, 1e-1), 5, _NEVER_FALLS),
        expected={
            "sweep": {"log10_rates": np.array([-3.0, -2.5]), "losses": np.array([1.0, 0.996004])},
            "restored": _before(_ALL),
            **_chosen(None),
        },
        mistakes={
            "kept-the-end": _rates(-3.0, -2.5, -2.0),
            "nan-ignored": _rates(-3.0, -2.5, -2.0, -1.5, -1.0),
            "always-suggests": _chosen(-1.0),
        },
    ),
)
