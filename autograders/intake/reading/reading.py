"""Reads a submitted notebook, whatever wrote it: its cells' sources and ids, nothing else of what it carries.

Outputs, other metadata and a forged schema go before anything else looks at the notebook. What is kept cannot break
nbgrader's converters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from ...notebooks import STAMP
from ...reasons import Kind
from .decoding import Unreadable, read_json, without_surrogates
from .submission_limits import MAX_ALL, MAX_ALL_CODE, MAX_CELLS, MAX_CODE, MAX_NOTES, MAX_TEXT

_KINDS = ("code", "markdown", "raw")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TAG = re.compile(r"v[A-Za-z0-9.+-]{1,64}")


@dataclass(frozen=True)
class ReadNotebook:
    """A submission in plain form, and what had to be repaired to read it."""

    notebook: NotebookNode
    notes: tuple[str, ...]


def read_notebook(content: bytes) -> ReadNotebook:
    """Read a submitted file. Raises Unreadable with the reason, in words that can be passed on to the student."""
    values, notes = read_json(content)
    sides = [_plain(value) for value in values]
    nb, repairs = sides[0]
    if len(sides) == 2 and _content(sides[0][0]) != _content(sides[1][0]):
        text = "it holds a merge conflict (<<<<<<<) and the two sides differ: resolve the merge and hand in again"
        raise Unreadable(text, Kind.MERGE_CONFLICT)
    return ReadNotebook(nb, _limit_notes([*notes, *repairs]))


def claimed_id(cell: NotebookNode) -> str:
    """Which released cell a cell of a read notebook says it is: nbgrader's id, else the cell's own; "" for neither."""
    return str(grade_id_of(cell) or cell.metadata.get(STAMP, {}).get("id", ""))


def grade_id_of(cell: NotebookNode) -> str:
    """A cell's nbgrader id, or ""."""
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _plain(value: Any) -> tuple[NotebookNode, list[str]]:
    """The cells of a notebook's JSON. Raises Unreadable when there are none."""
    if not isinstance(value, dict):
        text = f"not a notebook: its JSON is a {type(value).__name__}, without a list of cells"
        raise Unreadable(text, Kind.NOT_A_NOTEBOOK)
    notes: list[str] = []
    raw_cells = _raw_cells(value, notes)
    if len(raw_cells) > MAX_CELLS:
        raise Unreadable(f"{len(raw_cells):,} cells, {MAX_CELLS:,} are allowed")
    cells = [cell for number, raw in enumerate(raw_cells) if (cell := _cell(raw, number, notes)) is not None]
    for number, cell in enumerate(cells):
        # New ids: a student's may occur twice, or in a form that nbformat refuses. `_cell` has kept the old one.
        cell["id"] = f"cell-{number}"
    _refuse_too_much(cells)
    metadata = _mapping(value.get("metadata"))
    if "metadata" in value and not isinstance(value["metadata"], dict):
        notes.append("the notebook's metadata were damaged and are left out")
    language = _mapping(metadata.get("kernelspec")).get("language", "python")
    if language != "python":
        notes.append(f"it was saved with a kernel for {_brief(language)}; it is run with Python")
    stamp = _mapping(metadata.get(STAMP))
    version, tag = stamp.get("version"), stamp.get("release")
    assignment = stamp.get("assignment")
    origin = {
        "assignment": assignment if is_id(assignment) else None,
        "version": version if is_id(version) else None,
        "release": tag if _is_tag(tag) else None,
    }
    nb = new_notebook(cells=cells, metadata={STAMP: origin})
    return nb, notes


def _raw_cells(value: dict[str, Any], notes: list[str]) -> list[Any]:
    """The list of cells of any format: 4 has it, 3 and 2 have it in worksheets."""
    form = value.get("nbformat")
    if isinstance(value.get("cells"), list):
        if form != 4:
            notes.append(f"it says notebook format {_brief(form)}; its cells are those of format 4 and read so")
        return list(value["cells"])
    sheets = value.get("worksheets")
    if isinstance(sheets, list) and any(isinstance(_mapping(sheet).get("cells"), list) for sheet in sheets):
        notes.append("it was in notebook format 3, and upgraded")
        lists = [_mapping(sheet).get("cells") for sheet in sheets]
        return [cell for cells in lists if isinstance(cells, list) for cell in cells]
    text = f"not a notebook: it has no list of cells (notebook format {_brief(form)})"
    raise Unreadable(text, Kind.NOT_A_NOTEBOOK)


def _cell(raw: Any, number: int, notes: list[str]) -> NotebookNode | None:
    if not isinstance(raw, dict):
        notes.append(f"cell {number} is not a cell and is left out")
        return None
    source, metadata = raw.get("source", raw.get("input", "")), raw.get("metadata", {})
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str) or not isinstance(metadata, dict):
        notes.append(f"cell {number} was damaged: what could not be read of it is left out")
    source = source if isinstance(source, str) else ""
    source, repaired = without_surrogates(source.replace("\r\n", "\n").replace("\r", "\n"))
    if repaired:
        notes.append(f"cell {number} holds half a character (a lone surrogate), replaced by \ufffd")
    kind = raw.get("cell_type")
    # A cell of an unknown kind is shown and never run.
    kind = kind if isinstance(kind, str) and kind in _KINDS else "markdown"
    most = MAX_CODE if kind == "code" else MAX_TEXT
    if len(source) > most:
        notes.append(f"cell {number} has {len(source):,} characters, a {kind} cell may have {most:,}: it is left out")
        return None
    cell = NotebookNode(cell_type=kind, metadata=NotebookNode(), source=source)
    if cell.cell_type == "code":
        cell.update(execution_count=None, outputs=[])
    if cell.cell_type == "markdown" and (attachments := _attachments(raw.get("attachments"))):
        cell["attachments"] = attachments
    grade_id = _mapping(_mapping(metadata).get("nbgrader")).get("grade_id")
    if is_id(grade_id):
        cell.metadata["nbgrader"] = {"grade_id": grade_id}
    # A notebook that was read once keeps the ids that it came with.
    own_id = _mapping(_mapping(metadata).get(STAMP)).get("id", raw.get("id"))
    cell.metadata[STAMP] = {"id": own_id if is_id(own_id) else ""}
    return cell


def _attachments(value: Any) -> dict[str, dict[str, str]]:
    """Pictures pasted into a text cell, as far as they are well-formed."""
    return {
        name: {mime: data for mime, data in files.items() if isinstance(data, str) and (mime + data).isascii()}
        for name, files in _mapping(value).items()
        if isinstance(files, dict) and not without_surrogates(name)[1]
    }


def _refuse_too_much(cells: list[NotebookNode]) -> None:
    """What follows takes time with the length of all cells together."""
    attachments = [files for cell in cells for files in cell.get("attachments", {}).values()]
    pictures = sum(len(data) for files in attachments for data in files.values())
    code = sum(len(cell.source) for cell in cells if cell.cell_type == "code")
    total = sum(len(cell.source) for cell in cells) + pictures
    for kind, count, most in (("code cells", code, MAX_ALL_CODE), ("cells", total, MAX_ALL)):
        if count > most:
            raise Unreadable(f"{count:,} characters in its {kind}, {most:,} are allowed: remove what is not an answer")


def _limit_notes(notes: list[str]) -> tuple[str, ...]:
    """The notes, each once; of very many only how many more there are."""
    different = list(dict.fromkeys(notes))
    rest = [f"and {len(different) - MAX_NOTES:,} more repairs"] if len(different) > MAX_NOTES else []
    return (*different[:MAX_NOTES], *rest)


def _brief(value: Any) -> str:
    """A value that is not what it should be, as a note can hold it."""
    if isinstance(value, str):
        return ascii(value[:20])
    return str(value)[:20] if value is None or isinstance(value, bool | int | float) else f"a {type(value).__name__}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_id(value: Any) -> bool:
    """Whether a value from a file has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None


def _content(nb: NotebookNode) -> list[tuple[str, str, str]]:
    return [(cell.cell_type, claimed_id(cell), cell.source) for cell in nb.cells]
