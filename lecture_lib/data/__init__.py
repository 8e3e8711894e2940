"""Part 2 of the lecture: data sets, splits, a loader for data that fits in memory."""

from __future__ import annotations

from .contract import Violation, check_contract
from .contract_table import CONTRACTS, Contract
from .digits import DamagedDataError, Digits, load_digits
from .images import TinyImageDataset
from .loader import TensorLoader
from .loader_comparison import LoaderComparison, compare_loaders
from .shapes import Shapes, shapes
from .splits import stratified_split
from .throughput import Throughput, measure_throughput
from .vision import ImageData, MissingDataError, cifar10, fashion_mnist, image_data

__all__ = [
    "CONTRACTS",
    "Contract",
    "DamagedDataError",
    "Digits",
    "ImageData",
    "LoaderComparison",
    "MissingDataError",
    "Shapes",
    "TensorLoader",
    "Throughput",
    "TinyImageDataset",
    "Violation",
    "check_contract",
    "cifar10",
    "compare_loaders",
    "fashion_mnist",
    "image_data",
    "load_digits",
    "measure_throughput",
    "shapes",
    "stratified_split",
]
