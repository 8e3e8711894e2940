"""Explains one student's points for a question to the instructor: hidden inputs, expected and observed values.

What it prints holds hidden inputs and right values. It is for answering an appeal, not for handing on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..course import Course, CourseError
from ..grading.journal import Record, read_record
from ..questions.case_lines import case_lines
from ..questions.question import QUESTIONS, inputs_digest
from ..questions.seeds import CourseSets


def explain_points(course: Course, assignments: Sequence[str], student: str, question_id: str) -> str:
    """The whole verdict on a student's answer to one question, case by case.

    Raises CourseError when there is no such question or nothing of that student to explain, and when the hidden inputs
    are no longer those that the answer was given.
    """
    if question_id not in QUESTIONS:
        raise CourseError(f"no question {question_id}; there are: {', '.join(QUESTIONS)}")
    question = QUESTIONS[question_id]
    record = _record(course, assignments, student, question_id)
    verdict = record.questions[question_id]
    lines = [f"{student}, {question_id}: {verdict['points']:g} of {verdict['maximum']:g} points"]
    lines += [
        f"  {part['name']}: {part['points']:g} of {part['maximum']:g}: {part['message']}" for part in verdict["parts"]
    ]
    if verdict["misconception"]:
        lines.append(f"  misconception: {verdict['misconception']}: {verdict['meaning']}")
    published = record.observations.get(question_id, [])
    if verdict["incident"] or not published:
        return "\n".join([*lines, "  There is no observation to explain case by case."])
    seed = CourseSets(course.root).seed(question_id, record.version, record.pool or 0)
    if record.pool is None or inputs_digest(question.inputs(*seed)) != record.inputs.get(question_id):
        raise CourseError(
            f"{question_id}: its hidden inputs are drawn differently now than when {student} was graded. Explain it "
            "with the checkout that graded, or grade again: `autograde grade --force`."
        )
    cases = question.draw(*seed)
    observations = question.read(published[0], len(cases))
    replaced = f", replaced by set {seed[2]}" if seed[2] != record.pool else ""
    lines.append(f"  set {record.pool} of hidden cases{replaced}:")
    for number, (case, observation) in enumerate(zip(cases, observations, strict=True), 1):
        lines += [f"    {line}" for line in case_lines(question, number, case, observation)]
    return "\n".join(lines)


def _record(course: Course, assignments: Sequence[str], student: str, question: str) -> Record:
    for assignment in assignments:
        record = read_record(course, assignment, student)
        if record is not None and question in record.questions:
            return record
    raise CourseError(
        f"nothing of {student} was graded that holds {question} (assignments: {', '.join(assignments)}). "
        "`autograde gradebook` lists who was graded."
    )
