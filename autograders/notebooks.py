"""From text to executed notebook and back. The text is the source; nothing else makes a notebook."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import write_text_atomically
from .private_sockets import use_private_sockets
from .setting import NOTEBOOKS, ROOT

# Seconds of computing time, which a command that reads no notebook does not need.
if TYPE_CHECKING:
    from nbformat import NotebookNode

POINTS = ROOT / "lecture_lib" / "notebook" / "points.json"
"""What every question of every notebook is worth, for the summary at a notebook's end; written by the build."""
TO_FILL_IN = "FILL IN:"
"""Stands in a new notebook's text before what its author has to write."""
STAMP = "lecture"
"""The notebook metadata entry that is ours; nbgrader's own are beside it."""

_HEADER: dict[str, Any] = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class NotebookError(RuntimeError):
    """A notebook and its text cannot be brought together; the message has the remedy."""


def text_paths() -> list[Path]:
    """The notebooks' texts, in order: `03a-….py`."""
    return sorted(NOTEBOOKS.glob("[0-9]*.py"))


def notebook_path(text: Path) -> Path:
    """Where the notebook built from `text` lies: in a folder of its own, as nbgrader wants it."""
    return text.with_suffix("") / f"{text.stem}.ipynb"


def master_path(assignment: str) -> Path:
    """The executed notebook with solutions. Raises NotebookError with the known names."""
    path = NOTEBOOKS / assignment / f"{assignment}.ipynb"
    if not path.exists():
        names = ", ".join(assignments()) or "none: run `make notebooks`"
        raise NotebookError(f"no assignment {assignment!r}; there are: {names}")
    return path


_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"


def without_markers(source: str) -> str:
    """An answer cell with its solutions, without the lines that mark them."""
    return "\n".join(line for line in source.splitlines() if _BEGIN not in line and _END not in line)


def separate_solutions(source: str, stub: str = "") -> tuple[str, list[str]]:
    """An answer cell as nbgrader releases it, with the stub in the place of each marked solution; and the solutions."""
    kept: list[str] = []
    solutions: list[list[str]] = []
    inside = False
    for line in source.splitlines():
        if _BEGIN in line:
            kept.append(line[: len(line) - len(line.lstrip())] + stub)
            solutions.append([])
            inside = True
        elif _END in line:
            inside = False
        else:
            (solutions[-1] if inside else kept).append(line)
    return "\n".join(kept), ["\n".join(lines) for lines in solutions]


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
    import nbformat

    # As bytes, so that each caller gets a notebook of its own, which it may change.
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
    import jupytext
    from nbformat import from_dict

    nb = jupytext.read(path, fmt="py:percent")
    nb.metadata = from_dict(_HEADER)
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
    from nbformat.v4 import new_code_cell

    cell: NotebookNode = new_code_cell(source, id=cell_id)
    return cell


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


def build_all(*, discard_edits: bool = False) -> Iterator[Path]:
    """Build every notebook, and write down what its questions are worth. Raises NotebookError, as `build` does."""
    # Before the notebooks: a new one ends with its progress table, which reads this file.
    write_text_atomically(POINTS, json.dumps(points(), indent=1) + "\n")
    for text in text_paths():
        yield build(text, discard_edits=discard_edits)


def points() -> dict[str, dict[str, float]]:
    """What every question is worth, in the order of the notebooks: number of the notebook -> question -> points."""
    return {number_of(text.stem): _points_of(from_text(text)) for text in text_paths()}


def number_of(assignment: str) -> str:
    """The number of a notebook, with which the ids of its questions begin: `03a` of `03a-training-recipe`."""
    return assignment.split("-")[0]


def _points_of(nb: NotebookNode) -> dict[str, float]:
    metas = (cell.metadata.get("nbgrader", {}) for cell in nb.cells)
    return {meta["grade_id"].removesuffix("-test"): meta["points"] for meta in metas if meta.get("grade")}


def not_filled_in(text: Path) -> list[str]:
    """What a notebook's author has still to write, each with its line."""
    lines = enumerate(text.read_text("utf-8").splitlines(), 1)
    gaps = ((number, line.partition(TO_FILL_IN)[2].strip(" |")) for number, line in lines if TO_FILL_IN in line)
    # A quote that the words do not open ends the string that they are in.
    return [f"line {number}: {gap.rstrip(chr(34)) if gap.count(chr(34)) % 2 else gap}" for number, gap in gaps]


def build(text: Path, *, discard_edits: bool = False) -> Path:
    """Build and execute the notebook of `text`. An edit made in JupyterLab is never overwritten silently.

    Raises NotebookError when the text is not filled in yet, when the notebook holds edits that the text does not have,
    or when a cell fails.
    """
    from nbformat import writes

    if missing := not_filled_in(text):
        listed = "\n".join(f"  {entry}" for entry in missing)
        raise NotebookError(
            f"{text.name} is not filled in, nothing was written. Write what these lines ask for, without the words "
            f"{TO_FILL_IN}\n{listed}"
        )
    target = notebook_path(text)
    nb = from_text(text)
    if target.exists() and not discard_edits:
        _refuse_to_overwrite(target, nb)
    _execute(nb, text)
    _fold_answers(nb)
    nb.metadata[STAMP] = {"built": content_digest(nb)}
    target.parent.mkdir(exist_ok=True)
    write_text_atomically(target, writes(nb) + "\n")
    return target


def _fold_answers(nb: NotebookNode) -> None:
    """Show no source where the answer to a prediction is, with what the usual wrong ones would have meant."""
    for cell in nb.cells:
        if cell.cell_type == "code" and cell.source.startswith("reveal("):
            cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab, Colab


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
    from nbformat import from_dict

    client = NotebookClient(
        nb,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # how a kernel cuts its text into pieces is chance
        resources={"metadata": {"path": str(text.parent)}},
    )
    with tempfile.TemporaryDirectory(prefix="lecture-build-") as folder:
        client.create_kernel_manager()
        use_private_sockets(client.km, Path(folder))
        try:
            # As on a student's computer. The tests run the notebooks again with one thread, so that sums in another
            # order tell results that hold from those that happened. The threads wait passively: where they spin beside
            # other processes, a notebook takes several times as long.
            client.execute(env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"})
        except CellExecutionError as error:
            raise NotebookError(f"{text.name}: a cell failed, nothing was written.\n{error}") from None
    nb.metadata = from_dict(_HEADER)
    for cell in nb.cells:
        cell.metadata.pop("execution", None)


def to_text(text: Path) -> bool:
    """Bring edits of the notebook back into its text. Returns whether the text changed."""
    import jupytext
    from nbformat import from_dict

    target = notebook_path(text)
    if not target.exists():
        raise NotebookError(f"{target.relative_to(ROOT)} does not exist: run `make notebooks`")
    nb = read(target)
    for cell in nb.cells:
        cell.metadata = from_dict({key: cell.metadata[key] for key in ("nbgrader", "tags") if key in cell.metadata})
        cell.metadata.get("nbgrader", {}).pop("checksum", None)
    existing = text.read_text("utf-8")
    # The text keeps its own header: jupytext would write its version into it.
    header, body = existing.split("# %%", 1)[0], jupytext.writes(nb, fmt="py:percent").split("# %%", 1)[1]
    written = f"{header}# %%{body}"
    if written == existing:
        return False
    write_text_atomically(text, written)
    return True
