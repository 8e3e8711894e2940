"""Part 5 of the lecture: what a run's curves, its metrics and its errors say about what to do next."""

from __future__ import annotations

from .curves import Diagnosis, diagnose
from .metrics import probabilities
from .outputs import collect_outputs, evaluate_metrics

__all__ = ["Diagnosis", "collect_outputs", "diagnose", "evaluate_metrics", "probabilities"]
