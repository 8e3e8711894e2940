"""Part 4 of the lecture: find out why a model does not learn."""

from __future__ import annotations

from .lr_finder import find_lr
from .lr_result import LRFinderResult
from .lr_suggestions import suggest_learning_rates
from .program import Program, Spec

__all__ = ["LRFinderResult", "Program", "Spec", "find_lr", "suggest_learning_rates"]
