"""What each fault is called, what it means and what to do: the texts of the ladder."""

from __future__ import annotations

from .fault import Fault
from .fault_texts_data import DATA
from .fault_texts_model import MODEL
from .fault_texts_training import TRAINING

FAULTS: dict[str, Fault] = {**DATA, **TRAINING, **MODEL}
