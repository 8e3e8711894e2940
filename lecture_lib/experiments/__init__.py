"""Parts 4 and 6 of the lecture: ablations; seeds, and the record of a run that can be compared with another."""

from __future__ import annotations

from ._ablation_result import Ablation, Effect
from .ablation import ablate
from .compare import Comparison, compare_records
from .identity import code_state, content_id, hardware
from .record import RunRecord
from .seeds import set_seed

__all__ = [
    "Ablation",
    "Comparison",
    "Effect",
    "RunRecord",
    "ablate",
    "code_state",
    "compare_records",
    "content_id",
    "hardware",
    "set_seed",
]
