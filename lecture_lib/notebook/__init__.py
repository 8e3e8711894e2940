"""What a notebook shows: visible checks of the graded questions, predictions, figures with captions and alt text."""

from .check import CheckResult, check, check_result
from .figures import OKABE_ITO, show_figure
from .float_bits import show_float_formats
from .live import LiveRun, train_live
from .memory import saved_bytes
from .plots import show_arrows, show_images, show_losses, show_splits
from .predict import predict, reveal
from .progress import Progress, show_progress
from .question import Misconception, PublicCase, PublicQuestion
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
    "check",
    "check_result",
    "predict",
    "reveal",
    "saved_bytes",
    "show_arrows",
    "show_figure",
    "show_float_formats",
    "show_images",
    "show_losses",
    "show_progress",
    "show_runs",
    "show_splits",
    "show_walk",
    "train_live",
]
