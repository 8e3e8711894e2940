"""From text to executed notebook and back. The text is the source; nothing else makes a notebook."""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from .files import write_text_atomically
from .sandbox.sockets import use_private_sockets

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
STAMP = "lecture"
"""The notebook metadata entry that is ours; nbgrader's own stand beside it."""

_HEADER: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class NotebookError(RuntimeError):
    """A notebook and its text cannot be brought together; the message has the remedy."""


def text_paths() -> list[Path]:
    """The notebooks' texts, in order: `notebooks/03a-….py`."""
    return sorted(NOTEBOOKS.glob("[0-9]*.py"))


def notebook_path(text: Path) -> Path:
    """Where the notebook built from `text` lies: in a folder of its own, as nbgrader wants it."""
    return text.with_suffix("") / f"{text.stem}.ipynb"


def master_path(assignment: str) -> Path:
    """The executed notebook with solutions. Raises NotebookError with the known names."""
    path = NOTEBOOKS / assignment / f"{assignment}.ipynb"
    if not path.exists():
        known = ", ".join(assignments()) or "none: run `make notebooks`"
        raise NotebookError(f"no assignment {assignment!r}; there are: {known}")
    return path


def assignments() -> list[str]:
    """Every assignment that has been built."""
    return [text.stem for text in text_paths() if notebook_path(text).exists()]


def read(path: Path) -> NotebookNode:
    """Read a notebook of ours (not a student's: those go through `intake`)."""
    nb: NotebookNode = pickle.loads(_read(path, _state(path)))
    return nb


def read_version(path: Path) -> str:
    """The version of the assignment whose notebook, one of ours, is in this file."""
    return _version(path, _state(path))


def _state(path: Path) -> tuple[int, ...]:
    """What changes when a file is written."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=8)  # the released notebook is needed five times for each submission
def _read(path: Path, state: tuple[int, ...]) -> bytes:
    return pickle.dumps(nbformat.read(path, as_version=4), pickle.HIGHEST_PROTOCOL)


@functools.lru_cache(maxsize=8)
def _version(path: Path, state: tuple[int, ...]) -> str:
    return assignment_version(read(path))


def as_text(nb: NotebookNode) -> str:
    """The file of a notebook with a line for each cell: made ten times faster than with nbformat's indents."""
    lines = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in nb.cells)
    rest = {name: value for name, value in nb.items() if name != "cells"}
    return f'{{"cells": [\n{lines}\n],\n{json.dumps(rest, ensure_ascii=False)[1:]}\n'


def from_text(path: Path) -> NotebookNode:
    """The notebook that `path` describes, not executed, with cell ids that do not change from build to build."""
    nb = jupytext.read(path, fmt="py:percent")
    nb.metadata = NotebookNode(_HEADER)
    nb.nbformat, nb.nbformat_minor = 4, 5
    used: set[str] = set()
    for cell in nb.cells:
        cell["id"] = _cell_id(cell, used)
    return nb


def _cell_id(cell: NotebookNode, used: set[str]) -> str:
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or hashlib.sha256(cell.source.encode()).hexdigest()[:12]
    candidate, repeat = name, 2
    while candidate in used:
        candidate, repeat = f"{name}-{repeat}", repeat + 1
    used.add(candidate)
    return str(candidate)


def code_cell(source: str, cell_id: str) -> NotebookNode:
    """A code cell without outputs or metadata."""
    return nbformat.v4.new_code_cell(source, id=cell_id)


def content_digest(nb: NotebookNode) -> str:
    """A digest of what people edit: cell kinds, sources, tags and nbgrader's metadata. Outputs and ids are left out."""
    cells = [
        [
            cell.cell_type,
            cell.source.strip(),
            sorted(cell.metadata.get("tags", [])),
            {key: value for key, value in cell.metadata.get("nbgrader", {}).items() if key != "checksum"},
        ]
        for cell in nb.cells
    ]
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


def assignment_version(nb: NotebookNode) -> str:
    """The version of an assignment: twelve digits of its content digest. Submissions carry it."""
    return content_digest(nb)[:12]


def build(text: Path, *, discard_edits: bool = False) -> Path:
    """Build and execute the notebook of `text`. An edit made in JupyterLab is never overwritten silently.

    Raises NotebookError when the notebook holds edits that the text does not have, or when a cell fails.
    """
    target = notebook_path(text)
    nb = from_text(text)
    if target.exists() and not discard_edits:
        _refuse_to_overwrite(target, nb)
    _execute(nb, text)
    nb.metadata[STAMP] = {"built": content_digest(nb)}
    target.parent.mkdir(exist_ok=True)
    write_text_atomically(target, nbformat.writes(nb) + "\n")
    return target


def _refuse_to_overwrite(target: Path, nb: NotebookNode) -> None:
    existing = read(target)
    now, built = content_digest(existing), existing.metadata.get(STAMP, {}).get("built")
    if now not in (built, content_digest(nb)):
        raise NotebookError(
            f"{target.relative_to(ROOT)} was edited since it was built. Bring the edit back into the text with "
            f"`make text`, or drop it with `autograde build --discard-edits`. Nothing was written."
        )


def _execute(nb: NotebookNode, text: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    client = NotebookClient(
        nb,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(text.parent)}},
    )
    with tempfile.TemporaryDirectory(prefix="lecture-build-") as folder:
        client.create_kernel_manager()
        use_private_sockets(client.km, Path(folder))
        try:
            client.execute()
        except CellExecutionError as error:
            raise NotebookError(f"{text.name}: a cell failed, nothing was written.\n{error}") from None
    nb.metadata = NotebookNode(_HEADER)
    for cell in nb.cells:
        cell.metadata.pop("execution", None)


def to_text(text: Path) -> bool:
    """Bring edits of the notebook back into its text. Returns whether the text changed."""
    target = notebook_path(text)
    if not target.exists():
        raise NotebookError(f"{target.relative_to(ROOT)} does not exist: run `make notebooks`")
    nb = read(target)
    for cell in nb.cells:
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata})
        cell.metadata.get("nbgrader", {}).pop("checksum", None)
    existing = text.read_text("utf-8")
    # The text keeps its own header: jupytext would write its version into it.
    header, body = existing.split("# %%", 1)[0], jupytext.writes(nb, fmt="py:percent").split("# %%", 1)[1]
    written = f"{header}# %%{body}"
    if written == existing:
        return False
    write_text_atomically(text, written)
    return True
