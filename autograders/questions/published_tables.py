"""The page with what each answer of the bank gets, and with what became of small slips in right answers."""

from __future__ import annotations

from collections.abc import Iterable

from ..files import write_text_atomically
from ..setting import ROOT

TABLES = ROOT / "autograders" / "guide" / "answer-tables.md"


def put_rows(command: str, table: str) -> None:
    """Put the rows of a Markdown table into the one that `autograde COMMAND --update` keeps.

    The first cell of a row is its question. The rows of other questions stay.
    """
    begin, end = f"<!-- {command}: begin -->", f"<!-- {command}: end -->"
    before, rest = TABLES.read_text("utf-8").split(begin)
    old, after = rest.split(end)
    heading, rows = _lines(table)
    replaced = set(map(question_of, rows))
    kept = [line for line in _lines(old)[1] if question_of(line) not in replaced]
    rows = sorted([*kept, *rows], key=question_of)  # the rows of a question keep their order
    write_text_atomically(TABLES, "\n".join([before + begin, *heading, *rows, end + after]))


def without_rows(page: str) -> str:
    """The page of a course that has no question yet."""
    return "".join(line for line in page.splitlines(keepends=True) if not line.startswith("|"))


def row(cells: Iterable[object]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def question_of(line: str) -> str:
    """The first cell of a Markdown table's row."""
    return line.split(" | ")[0].strip("| ")


def _lines(table: str) -> tuple[list[str], list[str]]:
    """Heading and rows of a Markdown table."""
    lines = table.strip().splitlines()
    return lines[:2], lines[2:]
