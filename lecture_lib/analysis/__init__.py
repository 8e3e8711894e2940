"""Part 5 of the lecture: what a run's curves, its metrics and its errors say about what to do next."""

from __future__ import annotations

from .curves import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
