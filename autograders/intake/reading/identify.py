"""Finds which assignment a notebook is of: by its stamp, by released cells, by the functions that it defines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from nbformat import NotebookNode

from ...notebooks import STAMP
from .matching import answer_cells, names_bound
from .reading import claimed_id, is_id
from .submission_limits import MAX_ALL_CODE, MAX_CELLS, MAX_CODE

_CLEAR = 2
"""How many times as much must speak for one assignment as for another, so that there is no need to ask."""
_LONG = 40
"""The characters above which a cell's source is not written twice by chance."""
_ENOUGH = 3
"""The cells with such a source that make a notebook one of the assignment."""


class Traces(NamedTuple):
    """What a notebook has of an assignment, the surest first."""

    ids: frozenset[str]
    sources: frozenset[str]
    functions: frozenset[str]

    @property
    def of_cells(self) -> bool:
        """Whether released cells are in it, not only functions of the names that are asked for."""
        return bool(self.ids) or len(self.sources) >= _ENOUGH


def has_cells_of(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether released cells are in a notebook. Quick, whatever is in it: no code is parsed."""
    return Traces(*_cells_of(submitted, release), frozenset()).of_cells


def traces(submitted: NotebookNode, release: NotebookNode) -> Traces:
    """Which parts of a released notebook are in a notebook that `reading` has read."""
    code = (cell.source for cell in answer_cells(release).values() if cell.cell_type == "code")
    required = {name for source in code for name in names_bound(source)}
    bound = {name for cell in submitted.cells for name in names_bound(cell.source)}
    return Traces(*_cells_of(submitted, release), frozenset(required & bound))


def _cells_of(submitted: NotebookNode, release: NotebookNode) -> tuple[frozenset[str], frozenset[str]]:
    """The ids and the sources of released cells that a notebook has."""
    ids = {claimed_id(cell) for cell in submitted.cells} & {str(cell["id"]) for cell in release.cells}
    sources = {cell.source.strip() for cell in submitted.cells}
    released = {cell.source.strip() for cell in release.cells if len(cell.source) > _LONG}
    return frozenset(ids), frozenset(sources & released)


def which(submitted: NotebookNode, releases: Mapping[str, NotebookNode]) -> list[str]:
    """The assignments that a notebook may belong to: one if that is clear, several if it is not, or none.

    The stamp decides, unless all released cells in the notebook are another assignment's. Then the ids of released
    cells, their sources, and last the functions that are asked for. What two assignments share is evidence for neither.

    Args: a notebook as `reading` gives it, the released notebooks by assignment.
    """
    traces_of = {name: traces(submitted, release) for name, release in releases.items()}
    with_cells = [name for name, trace in traces_of.items() if trace.of_cells]
    stamped = stamp_of(submitted)
    if stamped in traces_of and any(traces_of[stamped]) and (stamped in with_cells or not with_cells):
        return [stamped]
    for kind in range(len(Traces._fields)):
        counts = {
            name: len(trace[kind].difference(*(traces_of[rival][kind] for rival in traces_of if rival != name)))
            for name, trace in traces_of.items()
        }
        best = max(counts, key=lambda name: counts[name])
        if counts[best] and all(counts[best] >= _CLEAR * count for name, count in counts.items() if name != best):
            return [best]
    return sorted(with_cells or (name for name, trace in traces_of.items() if any(trace)))


def stamped(content: bytes, releases: Mapping[str, NotebookNode]) -> str | None:
    """The assignment of a file whose stamp and cells agree, as `which` would find it; None where it takes reading it.

    It looks at the JSON alone, a tenth of the work. Files of a length at which reading refuses some are left to that.
    """
    if len(content) > MAX_ALL_CODE:
        return None
    try:
        value = json.loads(content)
        assignment, cells = value["metadata"][STAMP]["assignment"], value["cells"]
        release = releases[assignment]
        if not isinstance(cells, list) or len(cells) > MAX_CELLS:
            return None
        released = {str(cell["id"]) for cell in release.cells}
        agrees = any(_id_of_json(cell) in released for cell in cells)  # the first does, as a rule
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return str(assignment) if agrees else None


def _id_of_json(cell: Any) -> str | None:
    """`claimed_id` of a cell that was not read; None for one that reading would change or leave out."""
    source, metadata = cell["source"], cell["metadata"]
    length = len(source) if isinstance(source, str) else sum(map(len, source))
    if length > MAX_CODE:
        return None
    claims = metadata.get("nbgrader", {}).get("grade_id"), metadata.get(STAMP, {}).get("id", cell.get("id"))
    return next((claim for claim in claims if is_id(claim)), None)


def stamp_of(submitted: NotebookNode) -> str:
    """The assignment that a notebook's stamp names, or ""."""
    return str(submitted.metadata.get(STAMP, {}).get("assignment") or "")


def named_in(label: str, assignments: Iterable[str]) -> str | None:
    """The assignment that a file's path names, in full or by its number (`03a`); its innermost folder counts."""
    numbers = {name: re.escape(name.split("-")[0]) for name in assignments}
    for part in reversed(PurePosixPath(label).parts):
        named = [name for name in numbers if name.casefold() in part.casefold()] or [
            name
            for name, number in numbers.items()
            if re.search(rf"(?<![^\W_]){number}(?![^\W_])", part, re.IGNORECASE)
        ]
        if named:
            return named[0] if len(named) == 1 else None
    return None
