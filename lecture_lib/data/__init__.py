"""Part 2 of the lecture: data that ships with the course, splits, a loader for data that fits in memory."""

from __future__ import annotations

from .digits import DamagedDataError, Digits, load_digits
from .loader import TensorLoader
from .splits import stratified_split

__all__ = ["DamagedDataError", "Digits", "TensorLoader", "load_digits", "stratified_split"]
