"""Part 2 of the lecture: data sets, the batch contract, loaders; splits, what they leak, and how data shift."""

from __future__ import annotations

from ._contract_table import CONTRACTS, Contract
from ._shift_result import Shift, ShiftReport
from .contract import Violation, check_contract
from .digits import DamagedDataError, Digits, load_digits
from .images import TinyImageDataset
from .leakage import Leak, LeakageReport, leakage_report
from .loader import TensorLoader
from .loader_comparison import LoaderComparison, compare_loaders
from .null_world import NullWorld, fitted_on_all_data
from .shapes import Shapes, shapes
from .shift import shift_report
from .splits import chronological_split, grouped_split, stratified_split
from .throughput import Throughput, measure_throughput
from .vision import ImageData, MissingDataError, cifar10, fashion_mnist, image_data

__all__ = [
    "CONTRACTS",
    "Contract",
    "DamagedDataError",
    "Digits",
    "ImageData",
    "Leak",
    "LeakageReport",
    "LoaderComparison",
    "MissingDataError",
    "NullWorld",
    "Shapes",
    "Shift",
    "ShiftReport",
    "TensorLoader",
    "Throughput",
    "TinyImageDataset",
    "Violation",
    "check_contract",
    "chronological_split",
    "cifar10",
    "compare_loaders",
    "fashion_mnist",
    "fitted_on_all_data",
    "grouped_split",
    "image_data",
    "leakage_report",
    "load_digits",
    "measure_throughput",
    "shapes",
    "shift_report",
    "stratified_split",
]
