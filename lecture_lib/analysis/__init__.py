"""Part 5 of the lecture: what a run's curves, its metrics and its errors say about what to do next."""

from __future__ import annotations

from .buckets import Bucket, Buckets, bucket_errors
from .ceilings import Stage, ceiling_analysis
from .curves import Diagnosis, diagnose
from .errors import Mistake, Slice, error_table, slices
from .landscape import LossLandscape, loss_landscape
from .metrics import probabilities
from .non_finite import NonFinite, find_non_finite
from .outputs import collect_outputs, evaluate_metrics

__all__ = [
    "Bucket",
    "Buckets",
    "Diagnosis",
    "LossLandscape",
    "Mistake",
    "NonFinite",
    "Slice",
    "Stage",
    "bucket_errors",
    "ceiling_analysis",
    "collect_outputs",
    "diagnose",
    "error_table",
    "evaluate_metrics",
    "find_non_finite",
    "loss_landscape",
    "probabilities",
    "slices",
]
