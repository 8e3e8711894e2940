"""Part 6 of the lecture: seeds, and the record of a run that can be compared with another."""

from __future__ import annotations

from .compare import Comparison, compare_records
from .identity import code_state, content_id, hardware
from .record import RunRecord
from .seeds import set_seed

__all__ = ["Comparison", "RunRecord", "code_state", "compare_records", "content_id", "hardware", "set_seed"]
