"""Part 3 of the lecture: the recipe. Train, evaluate, keep the best, stop and go on."""

from __future__ import annotations

from ._run.activations import activation_statistics
from ._run.averages import ExponentialMovingAverage
from ._run.history import Epoch, History
from ._run.lr_result import LRFinderResult
from ._run.lr_suggestions import suggest_learning_rates
from ._run.processes import ProcessLostError, join_processes, leave_processes
from ._run.schedule_plot import plot_schedule, schedule_rates
from ._run.score import accuracy
from .checkpoint import load_checkpoint, save_atomically
from .clipping import clip_by_global_norm, clip_by_parameter_norm, clip_by_value, clip_threshold, gradient_norms
from .evaluate import Evaluation, evaluate
from .initialisation import initialise
from .losses import focal_loss, info_nce
from .lr_finder import find_lr
from .parameter_groups import parameter_groups
from .precision import Precision, choose_precision
from .schedules import one_cycle, step_decay, warmup_cosine, with_warmup
from .train import train

__all__ = [
    "Epoch",
    "Evaluation",
    "ExponentialMovingAverage",
    "History",
    "LRFinderResult",
    "Precision",
    "ProcessLostError",
    "accuracy",
    "activation_statistics",
    "choose_precision",
    "clip_by_global_norm",
    "clip_by_parameter_norm",
    "clip_by_value",
    "clip_threshold",
    "evaluate",
    "find_lr",
    "focal_loss",
    "gradient_norms",
    "info_nce",
    "initialise",
    "join_processes",
    "leave_processes",
    "load_checkpoint",
    "one_cycle",
    "parameter_groups",
    "plot_schedule",
    "save_atomically",
    "schedule_rates",
    "step_decay",
    "suggest_learning_rates",
    "train",
    "warmup_cosine",
    "with_warmup",
]
