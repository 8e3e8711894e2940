"""What a notebook shows: visible checks of the graded questions, predictions, figures with captions and alt text."""

from .check import CheckResult, check, check_result
from .figures import OKABE_ITO, show_figure
from .plots import show_arrows, show_images, show_losses, show_splits
from .predict import predict, reveal
from .question import Misconception, PublicCase, PublicQuestion
from .quiz import quiz

__all__ = [
    "OKABE_ITO",
    "CheckResult",
    "Misconception",
    "PublicCase",
    "PublicQuestion",
    "check",
    "check_result",
    "predict",
    "quiz",
    "reveal",
    "show_arrows",
    "show_figure",
    "show_images",
    "show_losses",
    "show_splits",
]
