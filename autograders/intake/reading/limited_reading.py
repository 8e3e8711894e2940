"""Reads what a student handed in, with the computing time and memory that reading may cost.

The same three steps as in `reading` and `rebuild`, in a process of their own: whatever a file does to a parser costs
that file only.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

from nbformat import NotebookNode

from . import identify, reading, rebuild
from .decoding import Unreadable
from .limited_process import LimitedProcess, OverLimit
from .reading import ReadNotebook
from .submission_limits import READING_MEGABYTES, READING_SECONDS

P = ParamSpec("P")
T = TypeVar("T")

reader = LimitedProcess(READING_SECONDS, READING_MEGABYTES, preload=[rebuild.__name__, identify.__name__])
atexit.register(reader.close)


def read_notebook(content: bytes) -> ReadNotebook:
    """Read a submitted file. Raises Unreadable with the reason, in words that can be passed on to the student."""
    return _call("reading it", reading.read_notebook, content)


def related(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether a submission has anything of the released notebook. Raises Unreadable when that takes too much."""
    # Most have their ids, and comparing those is quick whatever they are.
    if rebuild.is_recognised(submitted, release):
        return True
    return _call("comparing it with the released notebook", rebuild.has_answers, submitted, release)


def which(submitted: NotebookNode, releases: Mapping[str, NotebookNode]) -> list[str]:
    """The assignments that a submission may be of; see `identify.which`. Raises Unreadable when that takes too much."""
    return _call("finding its assignment", identify.which, submitted, releases)


def rebuilt(submitted: NotebookNode, release: Path) -> NotebookNode:
    """The released notebook in a file with the submission's answers; see `rebuild.rebuild`. Raises Unreadable."""
    return _call("finding its answers", rebuild.rebuild_from, submitted, release)


def _call(step: str, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    try:
        return reader.call(function, *arguments, **named)
    except Unreadable:
        raise
    except OverLimit as error:
        raise Unreadable(
            f"{step} {error}, more than any notebook of this course needs: open it in Jupyter, remove what is not "
            "yours or very long, clear the outputs, save it, hand in again"
        ) from None
    except Exception as error:
        # Not foreseen, and all the same no reason to stop: it is this file that cannot be read.
        message = f"{type(error).__name__}: {str(error)[:100]}"
        raise Unreadable(f"{step} failed ({message}): talk to your instructor") from None
