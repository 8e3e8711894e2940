"""The files of a new question: everything that a question has, in its place, for its author to fill in."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template

from .files import write_text_atomically
from .notebooks import NotebookError
from .setting import ANSWERS, DESCRIPTIONS, PUBLIC_HALVES, ROOT

SKELETONS = Path(__file__).with_name("skeletons")
_ID = re.compile(r"[0-9]{2}[a-z]-[a-z][a-z0-9]*")


def write_question(question: str, function: str) -> list[Path]:
    """Write a question's three files; its checks refuse it until they are filled in. Returns their paths.

    Raises NotebookError when the id or the function's name cannot be one, or a file is there already.
    """
    if not _ID.fullmatch(question):
        raise NotebookError(f"{question!r} cannot be a question's id. Give a notebook's number and a word: 03a-clip.")
    if not function.isidentifier() or keyword.iskeyword(function):
        raise NotebookError(f"{function!r} cannot be a function's name in Python.")
    name = question.partition("-")[2]
    files = {
        PUBLIC_HALVES / f"{name}.py": "public.txt",
        DESCRIPTIONS / f"{name}.py": "description.txt",
        ANSWERS / f"{question}.md": "answers.txt",
    }
    for path in files:
        if path.exists():
            raise NotebookError(f"{path.relative_to(ROOT)} is there already. Take another word for the question.")
    for path, skeleton in files.items():
        write_text_atomically(path, filled(skeleton, id=question, function=function))
    return list(files)


def question_cells(question: str, function: str) -> str:
    """The cells that ask a question, for a notebook's text."""
    return filled("cells.txt", id=question, function=function)


def filled(skeleton: str, **values: object) -> str:
    """A skeleton with its $names replaced."""
    return Template((SKELETONS / skeleton).read_text("utf-8")).substitute(values)
