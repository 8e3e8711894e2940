"""`lecture train`: the recipe as one program, in one process or under `torchrun`."""

from __future__ import annotations

from .models import make_model, make_optimizer
from .run import run
from .settings import CannotTrainError, Settings, add_arguments

__all__ = ["CannotTrainError", "Settings", "add_arguments", "make_model", "make_optimizer", "run"]
