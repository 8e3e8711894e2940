"""The texts of a fault, and the parts of a program that it can lie in."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (
    *("step", "optimizer", "schedule", "loss", "metric", "initialisation", "layers", "model"),
    *("inputs", "labels", "split"),
)
"""The parts of a training program, one of which a finding points to."""

RUNGS_OF_PARTS = {
    **dict.fromkeys(("inputs", "labels", "split"), 1),
    **dict.fromkeys(("loss", "step"), 3),
    **dict.fromkeys(("initialisation", "layers", "model"), 4),
    **dict.fromkeys(("optimizer", "schedule"), 5),
    "metric": 6,
}
"""The rung that a fault without a name belongs to."""


@dataclass(frozen=True)
class Fault:
    """A fault that programs have.

    Attributes:
        rung: of the ladder that shows it, 1 to 7.
        parts: one or two of PARTS in which it lies, the likelier first.
        title: its name.
        meaning: what happens in such a program.
        remedy: what to do.

    """

    rung: int
    parts: tuple[str, ...]
    title: str
    meaning: str
    remedy: str
