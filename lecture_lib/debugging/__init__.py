"""Part 4 of the lecture: find out why a model does not learn."""

from lecture_lib.debugging.lr_finder import find_lr
from lecture_lib.debugging.lr_result import LRFinderResult
from lecture_lib.debugging.lr_suggestions import suggest_learning_rates

__all__ = ["LRFinderResult", "find_lr", "suggest_learning_rates"]
