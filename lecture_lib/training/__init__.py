"""Part 3 of the lecture: the recipe. Train, evaluate, keep the best."""

from lecture_lib.training.checkpoint import save_atomically
from lecture_lib.training.evaluate import Evaluation, accuracy, evaluate
from lecture_lib.training.history import Epoch, History
from lecture_lib.training.train import train

__all__ = ["Epoch", "Evaluation", "History", "accuracy", "evaluate", "save_atomically", "train"]
