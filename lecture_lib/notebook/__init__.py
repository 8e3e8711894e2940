"""What a notebook shows: visible checks of the graded questions, predictions, figures with captions and alt text."""

from .check import CheckResult, case_inputs, check, check_result
from .figures import OKABE_ITO, show_figure
from .float_bits import show_float_formats
from .labeller import label_mistakes
from .live import LiveRun, train_live
from .memory import saved_bytes
from .plots import show_arrows, show_gains, show_images, show_losses, show_splits
from .predict import predict, reveal
from .progress import Progress, show_progress
from .question import Misconception, PublicCase, PublicQuestion
from .quiz import quiz
from .rate_widget import choose_rate_by_hand
from .run_plots import show_runs
from .walk import show_walk

__all__ = [
    "OKABE_ITO",
    "CheckResult",
    "LiveRun",
    "Misconception",
    "Progress",
    "PublicCase",
    "PublicQuestion",
    "case_inputs",
    "check",
    "check_result",
    "choose_rate_by_hand",
    "label_mistakes",
    "predict",
    "quiz",
    "reveal",
    "saved_bytes",
    "show_arrows",
    "show_figure",
    "show_float_formats",
    "show_gains",
    "show_images",
    "show_losses",
    "show_progress",
    "show_runs",
    "show_splits",
    "show_walk",
    "train_live",
]
