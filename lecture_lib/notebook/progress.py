"""Where a student stands: what the visible checks of this session said, and nothing more."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path

from .check import LATEST, RIGHT, UNANSWERED
from .registry import public_questions

POINTS: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("points.json").read_text("utf-8"))
"""The points of every question of every notebook, as the build of the notebooks has written them down."""

NOT_RUN = "not checked in this session"
BY_HAND = "text, graded by hand"
REMARK = (
    "These are the visible checks of this session only. Hidden cases, on other inputs, decide the points, and a text "
    "is graded by hand."
)


@dataclass(frozen=True)
class Progress:
    """A row for each question: its id, its points, and what its visible check said last."""

    notebook: str
    rows: tuple[tuple[str, float, str], ...]

    @property
    def reached(self) -> float:
        """The points of the questions whose visible check agrees."""
        return sum(points for _, points, state in self.rows if state == RIGHT)

    @property
    def checked_by_machine(self) -> float:
        """The points of the questions that have a check."""
        return sum(points for _, points, state in self.rows if state != BY_HAND)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Questions whose answer cell is still as released."""
        return tuple(name for name, _, state in self.rows if state == UNANSWERED)

    def __repr__(self) -> str:
        return "\n".join([*(f"{name:<16}{points:>3g}  {state}" for name, points, state in self.rows), *self._tail()])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{points:g}</td><td>{html.escape(state)}</td></tr>"
            for name, points, state in self.rows
        )
        head = "<tr><th>question</th><th>points</th><th>visible check</th></tr>"
        tail = "<br>".join(html.escape(line) for line in self._tail())
        return f"<table>{head}{rows}</table><p>{tail}</p>"

    def _tail(self) -> list[str]:
        agreeing = f"Visible checks passed: {self.reached:g} of {self.checked_by_machine:g} points."
        open_ones = f"Not answered yet: {', '.join(self.unanswered)}." if self.unanswered else ""
        not_run = [name for name, _, state in self.rows if state == NOT_RUN]
        unseen = f"Not checked in this session: {', '.join(not_run)}." if not_run else ""
        return [line for line in (agreeing, open_ones, unseen, REMARK) if line]


def progress(notebook: str) -> Progress:
    """What the visible checks that were run in this session said.

    Args:
        notebook: its number, such as "03a".

    Raises:
        KeyError: there is no such notebook; the message lists those there are.

    """
    if notebook not in POINTS:
        raise KeyError(f"no notebook {notebook!r}; there are: {', '.join(POINTS)}")
    return Progress(notebook, tuple((name, points, _state(name)) for name, points in POINTS[notebook].items()))


def show_progress(notebook: str) -> None:
    """Show `progress` as a table."""
    from IPython.display import display

    display(progress(notebook))


def _state(name: str) -> str:
    if name not in public_questions():
        return BY_HAND
    return LATEST[name].state if name in LATEST else NOT_RUN
