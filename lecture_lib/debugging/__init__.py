"""Part 4 of the lecture: find out why a model does not learn."""

from __future__ import annotations

from .faults.catalogue import FAULTS
from .faults.fault import PARTS, Fault
from .faults.finding import Finding
from .ladder import Climb, Result, climb, find_faults
from .program import Program, Spec
from .record import record

__all__ = [
    "FAULTS",
    "PARTS",
    "Climb",
    "Fault",
    "Finding",
    "Program",
    "Result",
    "Spec",
    "climb",
    "find_faults",
    "record",
]
