"""Part 2 of the lecture: data sets, splits, a loader for data in memory; what a split leaks, and how data shift."""

from __future__ import annotations

from .digits import DamagedDataError, Digits, load_digits
from .images import TinyImageDataset
from .leakage import Leak, LeakageReport, leakage_report
from .loader import TensorLoader
from .null_world import NullWorld, fitted_on_all_data
from .shapes import Shapes, shapes
from .shift import shift_report
from .shift_result import Shift, ShiftReport
from .splits import chronological_split, grouped_split, stratified_split
from .vision import ImageData, MissingDataError, cifar10, fashion_mnist, image_data

__all__ = [
    "DamagedDataError",
    "Digits",
    "ImageData",
    "Leak",
    "LeakageReport",
    "MissingDataError",
    "NullWorld",
    "Shapes",
    "Shift",
    "ShiftReport",
    "TensorLoader",
    "TinyImageDataset",
    "chronological_split",
    "cifar10",
    "fashion_mnist",
    "fitted_on_all_data",
    "grouped_split",
    "image_data",
    "leakage_report",
    "load_digits",
    "shapes",
    "shift_report",
    "stratified_split",
]
