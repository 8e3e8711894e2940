"""Chooses among several notebooks of one student and assignment: the one with all answers of the others, or none."""

from __future__ import annotations

from collections.abc import Mapping

from nbformat import NotebookNode

from .reading.matching import answer_cells, match_answers


def answers_given(submitted: NotebookNode, release: NotebookNode) -> dict[str, str]:
    """The answers in a notebook by question, without those that are empty or as they were released."""
    released = {question: cell.source.strip() for question, cell in answer_cells(release).items()}
    sources = match_answers(submitted, release).sources
    answers = {question: source.strip() for question, source in sources.items()}
    return {question: source for question, source in answers.items() if source not in ("", released[question])}


def most_complete(candidates: Mapping[str, NotebookNode], release: NotebookNode, preferred: str) -> str | None:
    """The name of the notebook that counts, or None where a person has to decide.

    A notebook with every answer of the others and more comes first: an original that was left blank, or an early copy,
    does not count beside it. Else the one with the `preferred` name does, unless it has no answers.
    """
    contents = {name: [cell.source for cell in nb.cells] for name, nb in candidates.items()}
    names = [preferred] * (preferred in candidates) + sorted(set(candidates) - {preferred})
    if all(contents[name] == contents[names[0]] for name in names):
        return names[0]
    answers = {name: answers_given(nb, release) for name, nb in candidates.items()}
    complete = [name for name in names if all(answers[rival].items() <= answers[name].items() for rival in names)]
    # Several that are equally complete have the same answers, but perhaps not the same other cells, which run too.
    # Then the name decides, unless none of them answers anything.
    if complete and (len(complete) == 1 or complete[0] == preferred or not answers[complete[0]]):
        return complete[0]
    return preferred if answers.get(preferred) else None
