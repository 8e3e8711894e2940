"""Part 4 of the lecture: find out why a model does not learn."""

from __future__ import annotations

from .lr_finder import find_lr
from .lr_result import LRFinderResult
from .lr_suggestions import suggest_learning_rates

__all__ = ["LRFinderResult", "find_lr", "suggest_learning_rates"]
