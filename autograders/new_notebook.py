"""The text of a new notebook: everything that a notebook has, in its place, for its author to fill in."""

from __future__ import annotations

import re
from pathlib import Path

from . import notebooks
from .files import write_text_atomically
from .new_question import filled, question_cells
from .notebooks import NotebookError, number_of
from .sandbox.limits import Limits

_NAME = re.compile(r"[0-9]{2}[a-z]-[a-z0-9]+(-[a-z0-9]+)*")


def write_skeleton(name: str) -> Path:
    """Write the text of a new notebook, which a build refuses until it is filled in.

    Raises NotebookError when the name has not the form that identifies a notebook, or its number is taken.
    """
    if not _NAME.fullmatch(name):
        raise NotebookError(f"{name!r} is not a notebook's name. Give its number and words, such as 04a-transformers.")
    texts_by_number = {number_of(text.stem): text.name for text in notebooks.text_paths()}
    if number_of(name) in texts_by_number:
        raise NotebookError(f"{number_of(name)} is the number of {texts_by_number[number_of(name)]}. Take another one.")
    limits = Limits()
    skeleton = filled(
        "notebook.txt",
        number=number_of(name),
        question=question_cells(f"{number_of(name)}-first", "first"),
        seconds=f"{limits.cell_seconds:g}",
        clock=f"{limits.wall_factor * limits.cell_seconds:g}",
        memory=f"{limits.memory_mb / 1000:g}",
        processes=limits.processes,
        disk=f"{limits.disk_mb:g}",
        output=f"{limits.output_mb:g}",
    )
    path = notebooks.NOTEBOOKS / f"{name}.py"
    write_text_atomically(path, skeleton)
    return path
