"""What a notebook shows: visible checks of the graded questions, predictions, figures with captions and alt text."""

from .check import CheckResult, check, check_result
from .figures import OKABE_ITO, show_figure
from .plots import show_arrows, show_gains, show_images, show_losses, show_splits
from .predict import predict, reveal
from .question import Misconception, PublicCase, PublicQuestion
from .quiz import quiz
from .rate_widget import choose_rate_by_hand

__all__ = [
    "OKABE_ITO",
    "CheckResult",
    "Misconception",
    "PublicCase",
    "PublicQuestion",
    "check",
    "check_result",
    "choose_rate_by_hand",
    "predict",
    "quiz",
    "reveal",
    "show_arrows",
    "show_figure",
    "show_gains",
    "show_images",
    "show_losses",
    "show_splits",
]
