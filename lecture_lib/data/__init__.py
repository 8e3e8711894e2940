"""Part 2 of the lecture: data that ships with the course, splits, a loader for data that fits in memory."""

from lecture_lib.data.digits import DamagedDataError, Digits, load_digits
from lecture_lib.data.loader import TensorLoader
from lecture_lib.data.splits import stratified_split

__all__ = ["DamagedDataError", "Digits", "TensorLoader", "load_digits", "stratified_split"]
