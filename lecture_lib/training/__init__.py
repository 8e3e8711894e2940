"""Part 3 of the lecture: the recipe. Train, evaluate, keep the best, stop and go on."""

from __future__ import annotations

from .checkpoint import load_checkpoint, save_atomically
from .clipping import clip_by_global_norm, clip_by_parameter_norm, clip_by_value
from .ema import ExponentialMovingAverage
from .evaluate import Evaluation, accuracy, evaluate
from .groups import parameter_groups
from .history import Epoch, History
from .initialisation import activation_statistics, gradient_norms, initialise
from .precision import Precision, choose_precision
from .processes import ProcessLostError, join_processes, leave_processes
from .schedules import one_cycle, step_decay, warmup_cosine
from .train import train

__all__ = [
    "Epoch",
    "Evaluation",
    "ExponentialMovingAverage",
    "History",
    "Precision",
    "ProcessLostError",
    "accuracy",
    "activation_statistics",
    "choose_precision",
    "clip_by_global_norm",
    "clip_by_parameter_norm",
    "clip_by_value",
    "evaluate",
    "gradient_norms",
    "initialise",
    "join_processes",
    "leave_processes",
    "load_checkpoint",
    "one_cycle",
    "parameter_groups",
    "save_atomically",
    "step_decay",
    "train",
    "warmup_cosine",
]
