"""What is graded is the instructor's notebook with the student's answers put in.

A deleted, edited or retyped test cell changes nothing that way. The student's own code cells keep their place: an
answer may need a helper or an import that is there.
"""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from ... import notebooks
from ...notebooks import STAMP
from ...reasons import Kind
from .bindings import definitions
from .decoding import Unreadable
from .matching import Matches, answer_cells, match_answers
from .reading import claimed_id
from .submission_limits import MAX_CODE


def rebuild(submitted: NotebookNode, release: NotebookNode) -> NotebookNode:
    """The released notebook with the submission's answers and own code cells; notes on what was repaired.

    Args: a notebook as `reading` gives it, and the released one, which is changed and returned.

    Raises Unreadable when the two have nothing in common.
    """
    if not related(submitted, release):
        raise Unreadable("it is another notebook: none of its cells is of this assignment", Kind.ANOTHER_NOTEBOOK)
    matches = match_answers(submitted, release)
    extras = _extra_cells(submitted, release, matches)
    notes = [*matches.notes, *_changed_tests(submitted, release)]
    cells = list(extras.pop(None, []))
    for cell in release.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in matches.sources and cell.cell_type == "code" and len(matches.sources[grade_id]) > MAX_CODE:
            notes.append(f"the answer {grade_id} has more than the {MAX_CODE:,} characters allowed: it is left out")
        elif grade_id in matches.sources:
            cell.source = matches.sources[grade_id]
            if matches.attachments.get(grade_id):
                cell["attachments"] = matches.attachments[grade_id]
        cells.append(cell)
        cells += extras.pop(cell["id"], [])
    stamp = submitted.metadata.get(STAMP, {})
    version, tag = stamp.get("version"), stamp.get("release")
    released = release.metadata.get(STAMP, {}).get("version")
    if version != released:
        notes.append(f"made from release {version or 'unknown'}, graded as {released}")
    release.cells = cells
    release.metadata[STAMP] = {"notes": notes, "submitted_version": version, "submitted_release": tag}
    return release


def related(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether a submission has anything of the released notebook: an answer, or a cell as it was released."""
    return is_recognised(submitted, release) or has_answers(submitted, release)


def is_recognised(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether a submission has cells of the released notebook by their ids or their texts."""
    # As in `identify`: nobody writes three such long cells by chance.
    sources = {cell.source.strip() for cell in release.cells if len(cell.source) > 40}
    ids = {cell["id"] for cell in release.cells}
    shared = {cell.source.strip() for cell in submitted.cells} & sources
    return len(shared) >= 3 or any(claimed_id(cell) in ids for cell in submitted.cells)


def has_answers(submitted: NotebookNode, release: NotebookNode) -> bool:
    """Whether any answer is found in a submission, however its cells were changed. It takes parsing every cell."""
    return bool(match_answers(submitted, release).sources)


def rebuild_from(submitted: NotebookNode, release: Path) -> NotebookNode:
    """`rebuild`, with the released notebook in a file."""
    return rebuild(submitted, notebooks.read(release))


def _changed_tests(submitted: NotebookNode, release: NotebookNode) -> list[str]:
    """Notes on test cells that are not as they were released: the released ones are run all the same."""
    notes = []
    for cell in release.cells:
        meta = cell.metadata.get("nbgrader", {})
        if not meta.get("grade") or meta.get("solution"):
            continue
        copies = [copy for copy in submitted.cells if claimed_id(copy) == meta["grade_id"]]
        if not copies:
            notes.append(f"the test cell {meta['grade_id']} was deleted; the released one is run")
        elif any(copy.source.strip() != cell.source.strip() or copy.cell_type != "code" for copy in copies):
            notes.append(f"the test cell {meta['grade_id']} was changed; the released one is run")
        if len(copies) > 1:
            notes.append(f"the test cell {meta['grade_id']} is there {len(copies)} times; it is run once")
    return notes


def _extra_cells(
    submitted: NotebookNode, release: NotebookNode, matches: Matches
) -> dict[str | None, list[NotebookNode]]:
    """The student's own code cells, keyed by the id of the released cell that they are behind (None: at the top).

    A released code cell that the student changed counts as one of them, behind the original. Cells that only show
    something are left as they were released, but for the imports and functions that the student wrote into them.
    """
    by_id = {cell["id"]: cell for cell in release.cells}
    by_source = {cell.source: cell["id"] for cell in reversed(release.cells)}
    answers = answer_cells(release)
    extras: dict[str | None, list[NotebookNode]] = {}
    behind: str | None = None
    for position, cell in enumerate(submitted.cells):
        source = cell.source
        if position in matches.chosen:
            behind = answers[matches.chosen[position]]["id"]
        if position in matches.used:
            continue
        released_id = claimed_id(cell)
        released_id = released_id if released_id in by_id else by_source.get(source, "")
        # A further copy of an answer runs where it stood, before or behind the one that counts.
        if released_id in by_id and released_id not in answers:
            behind, original = released_id, by_id[released_id]
            # Unchanged cells are in the released notebook already, and a student's version of a test never runs.
            if original.source == source or "nbgrader" in original.metadata:
                continue
            if "demo" in original.metadata.get("tags", []):
                source = _own_definitions(source, original.source)
        if cell.cell_type == "code" and source.strip():
            extra = notebooks.code_cell(source, f"extra-{sum(map(len, extras.values()))}")
            extras.setdefault(behind, []).append(extra)
    return extras


def _own_definitions(source: str, released: str) -> str:
    """What a student wrote into a cell that only shows something, as far as an answer may need it."""
    released_definitions = definitions(released)
    return "\n".join(text for key, text in definitions(source).items() if key not in released_definitions)
