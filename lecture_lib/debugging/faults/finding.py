"""What a rule says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .faults import FAULTS


@dataclass(frozen=True)
class Finding:
    """A fault, and what shows it.

    Attributes:
        fault: a key of `FAULTS`.
        evidence: what was observed, in words with numbers.
        data: the same as plain data.
        certain: whether it rests on an identity; otherwise on a comparison of runs or samples.

    """

    fault: str
    evidence: str
    data: dict[str, Any] = field(default_factory=dict)
    certain: bool = True

    @property
    def kind(self) -> str:
        """What it rests on.

        'violation': of an identity, or of what the spec declares. 'swap': the same training with one part replaced goes
        better. 'difference': samples, or parts of the data, differ by more than chance.
        """
        if self.certain:
            return "violation"
        return "swap" if "gain" in self.data else "difference"

    @property
    def part(self) -> str:
        """The part of the program in which it lies, one of PARTS."""
        return FAULTS[self.fault].parts[0]

    @property
    def rung(self) -> int:
        """The rung that shows it, 1 to 7."""
        return FAULTS[self.fault].rung

    @property
    def title(self) -> str:
        """The fault's name."""
        return FAULTS[self.fault].title

    @property
    def meaning(self) -> str:
        """What happens in such a program."""
        return FAULTS[self.fault].meaning

    @property
    def remedy(self) -> str:
        """What to do."""
        return FAULTS[self.fault].remedy

    def __str__(self) -> str:
        head = f"{self.title} ({self.fault}, rung {self.rung}, {self.part})"
        return f"{head}: {self.evidence}\n  {self.meaning}\n  {self.remedy}"
