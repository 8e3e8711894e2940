"""Part 3 of the lecture: the recipe. Train, evaluate, keep the best."""

from __future__ import annotations

from .checkpoint import save_atomically
from .evaluate import Evaluation, accuracy, evaluate
from .history import Epoch, History
from .train import train

__all__ = ["Epoch", "Evaluation", "History", "accuracy", "evaluate", "save_atomically", "train"]
