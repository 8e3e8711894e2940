"""CSV tables for spreadsheets: no cell that a student can fill is read as a formula there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .files import write_text_atomically
from .plain_text import plain

# What Excel, LibreOffice or Google Sheets take for the beginning of a formula, also behind space; and what we write
# before it, so that reading gives back exactly what was written.
_FORMULA = re.compile(r"'*\s*[=+\-@\t\r＝＋－＠]")


def write_table(path: Path, lines: Iterable[Iterable[Any]]) -> None:
    """Write lines of cells as CSV, whole or not at all. A text that a spreadsheet would compute gets an apostrophe."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[cell_text(cell) for cell in line] for line in lines])
    write_text_atomically(path, text.getvalue())


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a table written by `write_table`, by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: original(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def separator_of(first_line: str, signs: str = ",;\t") -> str:
    """The sign between a table's cells: spreadsheets write semicolons where the comma is the decimal sign."""
    return max(signs, key=first_line.count)


def cell_text(cell: Any) -> Any:
    """A cell as it is written: numbers unchanged, a text that begins like a formula behind an apostrophe."""
    if not isinstance(cell, str):
        return cell
    shielded = f"'{cell}" if _FORMULA.match(cell) else cell
    return plain(shielded, lines=True)


def original(cell: str) -> str:
    """What was written with `cell_text`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
