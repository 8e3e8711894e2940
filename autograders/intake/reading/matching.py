"""Finds the answers in a submission whose cells were copied, split, swapped, retyped, moved or lost their ids."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nbformat import NotebookNode

from .bindings import names_bound
from .reading import claimed_id

Names = Callable[[str], set[str]]
"""`names_bound`, which parses each source once."""

_JOIN = "\n\n---\n\n"


@dataclass
class Matches:
    """The source of each answer found, the submission's cells they stand for, and notes on what was unclear."""

    sources: dict[str, str] = field(default_factory=dict)
    chosen: dict[int, str] = field(default_factory=dict)
    """The answer that a cell of the submission, by its position, was taken for."""
    used: set[int] = field(default_factory=set)
    """Positions of the submission's cells that are not run in their own place as well."""
    attachments: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """Pictures that belong to an answer in words."""
    notes: list[str] = field(default_factory=list)


def match_answers(submitted: NotebookNode, release: NotebookNode) -> Matches:
    """Find the source of every answer cell of `release` in `submitted`: by id, failing that by name and position."""
    answers = answer_cells(release)
    cells = submitted.cells
    # For this submission alone: every cell is looked at for every answer that is missing.
    names: Names = functools.cache(names_bound)
    claims = _claims(cells, answers, names)
    matches = Matches(notes=claims.notes)
    for grade_id, released in answers.items():
        positions = claims.positions[grade_id]
        if positions:
            _choose(matches, grade_id, released, cells, positions, _position(cells, f"{grade_id}-test"))
    claimed = {position for positions in claims.positions.values() for position in positions}
    for grade_id, released in answers.items():
        stub = released.source.strip()
        if grade_id not in matches.sources or (
            released.cell_type == "code" and matches.sources[grade_id].strip() == stub
        ):
            _search(matches, grade_id, released, submitted, release, claimed, names)
    return matches


def answer_cells(release: NotebookNode) -> dict[str, NotebookNode]:
    """The released notebook's answer cells by nbgrader id."""
    return {
        cell.metadata.nbgrader["grade_id"]: cell
        for cell in release.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


@dataclass
class _Claims:
    positions: dict[str, list[int]]
    notes: list[str] = field(default_factory=list)


def _claims(cells: Sequence[NotebookNode], answers: Mapping[str, NotebookNode], names_of: Names) -> _Claims:
    """Which cells say that they are which answer. Code that defines another question's functions is that question's."""
    claims = _Claims({grade_id: [] for grade_id in answers})
    functions_of = {grade_id: names_of(cell.source) for grade_id, cell in answers.items() if cell.cell_type == "code"}
    for position, cell in enumerate(cells):
        grade_id = claimed_id(cell)
        if grade_id not in answers:
            continue
        bound = names_of(cell.source) if grade_id in functions_of else set()
        answered = [question for question, names in functions_of.items() if names and names <= bound]
        if len(answered) == 1 and answered[0] != grade_id and not functions_of[grade_id] & bound:
            claims.notes.append(f"the cell with the id {grade_id} answers {answered[0]}: it is graded as that")
            grade_id = answered[0]
        claims.positions[grade_id].append(position)
    return claims


def _choose(
    matches: Matches,
    grade_id: str,
    released: NotebookNode,
    cells: Sequence[NotebookNode],
    positions: list[int],
    test: int | None,
) -> None:
    """Settle which of the cells with one id is the answer: the one in force when the notebook runs from the top.

    Copies of the released cell, and second copies of the same content, are ignored. If code cells differ, the last one
    above the question's test counts, and the others run in their own place. If texts differ, a person sees them all.
    """
    different: dict[str, int] = {}
    for position in positions:
        different[cells[position].source.strip()] = position
    stub = released.source.strip()
    if len(different) > 1:
        different.pop(stub, None)
    candidates = sorted(different.values())
    if len(candidates) < len(positions):
        matches.notes.append(
            f"the answer cell {grade_id} is there {len(positions)} times; identical or empty copies are one"
        )
    if len(candidates) == 1:
        chosen = candidates[0]
    elif released.cell_type != "code":
        matches.notes.append(
            f"the answer cell {grade_id} is there with {len(candidates)} different texts: all are kept"
        )
        _take_texts(matches, grade_id, cells, candidates)
        matches.used |= set(positions)
        return
    else:
        above = [position for position in candidates if test is None or position < test]
        chosen = (above or candidates)[-1]
        matches.notes.append(
            f"the answer cell {grade_id} is there with {len(candidates)} different contents: the last one above its "
            "test counts, as when the notebook runs from the top; the others run in their place"
        )
    if cells[chosen].cell_type != released.cell_type:
        matches.notes.append(
            f"the answer cell {grade_id} was a {cells[chosen].cell_type} cell and is read as {released.cell_type}"
        )
    same = {cells[chosen].source.strip(), stub}
    matches.used |= {position for position in positions if cells[position].source.strip() in same}
    matches.chosen[chosen] = grade_id
    _take_texts(matches, grade_id, cells, [chosen])


def _take_texts(matches: Matches, grade_id: str, cells: Sequence[NotebookNode], positions: Sequence[int]) -> None:
    matches.sources[grade_id] = _JOIN.join(cells[position].source for position in positions)
    for position in positions:
        matches.attachments.setdefault(grade_id, {}).update(cells[position].get("attachments", {}))


def _search(
    matches: Matches,
    grade_id: str,
    released: NotebookNode,
    submitted: NotebookNode,
    release: NotebookNode,
    claimed: set[int],
    names_of: Names,
) -> None:
    """Look for an answer whose cell lost its id: code by the names it defines, text by where it is."""
    released_sources = {cell.source.strip() for cell in release.cells}
    ids = {cell["id"] for cell in release.cells}
    free = [
        position
        for position, cell in enumerate(submitted.cells)
        if position not in claimed and cell.source.strip() and cell.source.strip() not in released_sources
    ]
    if released.cell_type == "code":
        _search_code(matches, grade_id, released, submitted.cells, free, names_of)
    else:
        unknown = {position for position in free if claimed_id(submitted.cells[position]) not in ids}
        _search_text(matches, grade_id, submitted.cells, unknown, release)
    if grade_id not in matches.sources:
        matches.notes.append(f"the answer cell {grade_id} is missing")


def _search_code(
    matches: Matches,
    grade_id: str,
    released: NotebookNode,
    cells: Sequence[NotebookNode],
    free: list[int],
    names_of: Names,
) -> None:
    names = names_of(released.source)
    test = _position(cells, f"{grade_id}-test")
    likely = [position for position in free if names & names_of(cells[position].source)]
    # A definition below the question's test comes too late for it, unless there is no other.
    likely = [position for position in likely if test is None or position < test] or likely
    running = [position for position in likely if cells[position].cell_type == "code"]
    if running:
        # The cells keep their place too: what is between them and the answer's place may need them.
        matches.sources[grade_id] = "\n\n".join(cells[position].source for position in running)
        matches.notes.append(f"the answer {grade_id} is not in its cell; found by the functions that it defines")
    elif likely:
        matches.sources[grade_id] = "\n\n".join(cells[position].source for position in likely)
        matches.notes.append(
            f"the answer cell {grade_id} was a {cells[likely[0]].cell_type} cell without its id, read as code"
        )
    elif grade_id not in matches.sources and any(
        names & names_of(cell.source) for cell in cells if cell.cell_type == "code"
    ):
        matches.sources[grade_id] = (
            f"# The answer cell {grade_id} was deleted; what it asks for is defined in another cell."
        )
        matches.notes.append(f"the answer cell {grade_id} was deleted; another cell defines what it asks for")


def _search_text(
    matches: Matches, grade_id: str, cells: Sequence[NotebookNode], free: set[int], release: NotebookNode
) -> None:
    order = [cell["id"] for cell in release.cells]
    place = next(
        index
        for index, cell in enumerate(release.cells)
        if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )
    sources = {cell.source.strip(): index for index, cell in enumerate(release.cells)}
    last_released, adjacent = -1, []
    for position, cell in enumerate(cells):
        claimed = claimed_id(cell)
        released = order.index(claimed) if claimed in order else sources.get(cell.source.strip())
        if released is not None:
            last_released = released
        # Unknown text directly behind the released cell that comes before the answer is most likely the answer.
        elif position in free and last_released == place - 1 and cell.cell_type != "code":
            adjacent.append(position)
    if adjacent:
        matches.used |= set(adjacent)
        _take_texts(matches, grade_id, cells, adjacent)
        matches.notes.append(f"the answer cell {grade_id} lost its id; found by its place")


def _position(cells: Sequence[NotebookNode], claimed: str) -> int | None:
    return next((position for position, cell in enumerate(cells) if claimed_id(cell) == claimed), None)
