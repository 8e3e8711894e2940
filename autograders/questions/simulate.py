"""Makes a class whose true scores are known: submissions spliced from the bank of answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat

from .. import notebooks
from ..course import Course, CourseError
from ..tables import write_table
from .bank import Answer
from .question import QUESTIONS, answers_to
from .seeds import read_secret
from .verdict import UNANSWERED

KNOWN_FIELDS = ("student", "assignment", "question", "answer", "points", "misconception")
_NAMES = ("ada", "ben", "chen", "dora", "emil", "farah", "goran", "hana", "ines", "jonas", "kofi", "lena")


def simulate(course: Course, assignments: Sequence[str], students: int) -> Path:
    """Write a class of `students` into the course's submitted folder, and what each must get into `known.csv`.

    Answers rotate, so that every answer of the bank, and the empty one, is handed in as soon as the class is large
    enough. Questions graded by hand get an answer too; their points are a person's. Returns the path of known.csv.
    """
    rows: list[tuple[object, ...]] = []
    simulated = [f"{_NAMES[number % len(_NAMES)]}-{number + 1:02d}" for number in range(students)]
    _refuse_real_class(course, simulated)
    for assignment in assignments:
        course.require_release(assignment)
        for number, student in enumerate(simulated):
            nb = notebooks.read(course.notebook("release", assignment))
            for shift, cell in enumerate(
                cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("solution")
            ):
                grade_id = cell.metadata["nbgrader"]["grade_id"]
                question = QUESTIONS.get(grade_id)
                bank = question.of_course(read_secret(course.secret)).answers() if question else answers_to(grade_id)
                choices: list[Answer | None] = [*bank, None]
                # Shifted from cell to cell, so that no student gets the first answer of the bank to every question.
                answer = choices[(number + shift) % len(choices)]
                if answer is not None:
                    cell.source = answer.source
                if grade_id in QUESTIONS:
                    rows.append((student, assignment, grade_id, *_known_row(answer)))
            target = course.notebook("submitted", assignment, student)
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(nb, target)
    write_table(course.known, [KNOWN_FIELDS, *rows])
    return course.known


def _refuse_real_class(course: Course, simulated: Sequence[str]) -> None:
    """Invented students must not end up among real ones."""
    real = sorted({path.name for path in course.step("submitted", "").glob("*")} - set(simulated))
    if real and not course.known.exists():
        raise CourseError(
            f"{course.root} holds submissions of {len(real)} students ({real[0]}, …): simulate a class "
            "in a folder of its own, with --course DIR."
        )


def _known_row(answer: Answer | None) -> tuple[str, float, str]:
    return ("(empty)", 0.0, UNANSWERED) if answer is None else (answer.name, answer.points, answer.misconception or "")
