"""Part 4 of the lecture: find out why a model does not learn."""

from __future__ import annotations

from .fault import Fault
from .faults import FAULTS
from .finding import Finding
from .ladder import Climb, Result, climb, find_faults
from .lr_finder import find_lr
from .lr_result import LRFinderResult
from .lr_suggestions import suggest_learning_rates
from .program import Program, Spec
from .record import record

__all__ = [
    "FAULTS",
    "Climb",
    "Fault",
    "Finding",
    "LRFinderResult",
    "Program",
    "Result",
    "Spec",
    "climb",
    "find_faults",
    "find_lr",
    "record",
    "suggest_learning_rates",
]
