"""CSV tables for spreadsheets: no cell that a student can fill is read as a formula there."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .course import CourseError
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
    return read_csv(path).rows()


@dataclass(frozen=True)
class Table:
    """A CSV as it was read: each line has as many cells as the header; lines without any text are left out."""

    header: list[str]
    lines: list[list[str]]
    numbers: list[int]
    """In which line of the file each line begins."""
    separator: str

    def rows(self) -> list[dict[str, str]]:
        """The lines by column, without the apostrophes of `write_table`."""
        return [dict(zip(self.header, map(original, line), strict=True)) for line in self.lines]


def read_csv(path: Path, required: Iterable[str] = (), *, hint: str = "") -> Table:
    """Read a CSV in UTF-8, or in UTF-16 with its mark, whose cells are separated by commas, semicolons or tabs.

    Args: the file, the columns that it must have, and what to say where one of them is missing.

    Raises CourseError with the line and the remedy: a line that is read wrongly is a student who disappears.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CourseError(f"{path} does not exist") from None
    if content.startswith(b"PK"):
        raise CourseError(f"{path} is a workbook or an archive, not a CSV. Save it as CSV in UTF-8.")
    try:
        text = content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise CourseError(f"{path}: not UTF-8 (byte {error.start}). Save it as CSV in UTF-8.") from None
    # Spreadsheets write semicolons where the comma is the decimal sign.
    separator = max(",;\t", key=text.partition("\n")[0].count)
    header, lines, numbers = list[str](), list[list[str]](), list[int]()
    # Not `splitlines`: names may hold signs that it takes for ends of lines.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    start = 1
    try:
        for line in reader:
            number, start = start, reader.line_num + 1
            if not any(map(str.strip, line)):
                continue
            if not header:
                header = [name.strip() for name in line]
            elif len(line) == len(header):
                lines.append(line)
                numbers.append(number)
            else:
                raise CourseError(
                    f"{path}: line {number} has {len(line)} cells, the header {len(header)}. It was cut off, or a "
                    f"text that holds {separator!r} has no quotation marks around it."
                )
    except csv.Error as error:
        raise CourseError(f"{path}, line {start}: {error}. Is a quotation mark not closed there?") from None
    if missing := [name for name in required if name not in header]:
        raise CourseError(f"{path}: no column {missing[0]!r}; it has {header}.{hint}")
    return Table(header, lines, numbers, separator)


def cell_text(cell: Any) -> Any:
    """A cell as it is written: numbers unchanged, a text that begins like a formula behind an apostrophe."""
    if not isinstance(cell, str):
        return cell
    shielded = f"'{cell}" if _FORMULA.match(cell) else cell
    return plain(shielded, lines=True)


def original(cell: str) -> str:
    """What was written with `cell_text`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
