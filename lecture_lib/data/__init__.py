"""Part 2 of the lecture: data sets, splits, a loader for data that fits in memory."""

from __future__ import annotations

from .digits import DamagedDataError, Digits, load_digits
from .images import TinyImageDataset
from .loader import TensorLoader
from .shapes import Shapes, shapes
from .splits import stratified_split
from .vision import ImageData, MissingDataError, cifar10, fashion_mnist, image_data

__all__ = [
    "DamagedDataError",
    "Digits",
    "ImageData",
    "MissingDataError",
    "Shapes",
    "TensorLoader",
    "TinyImageDataset",
    "cifar10",
    "fashion_mnist",
    "image_data",
    "load_digits",
    "shapes",
    "stratified_split",
]
