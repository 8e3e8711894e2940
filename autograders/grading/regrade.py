"""Judges stored observations again after a judge changed, without running anybody's code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbformat import NotebookNode, writes

from .. import notebooks
from ..course import Course, CourseError
from ..files import write_text_atomically
from ..intake.intake import submitted_students
from ..nbgrader.database import open_gradebook
from ..nbgrader.judge_cells import judged_outputs
from ..notebooks import STAMP
from ..questions.question import QUESTIONS, Question, by_test_id, inputs_digest
from ..questions.seeds import CourseSets
from ..questions.verdict import Verdict
from ..results.class_tables import text_table
from ..writer import only_writer
from .journal import Record, read_record, write_record
from .states import state_of


@dataclass(frozen=True)
class Change:
    """A question of a submission with a new verdict; `after` is None where it cannot be judged again."""

    student: str
    assignment: str
    question: str
    before: float
    after: float | None
    why: str


@dataclass(frozen=True)
class _Judged:
    record: Record
    verdicts: dict[str, Verdict]


def regrade(
    course: Course,
    assignments: Sequence[str],
    questions: Sequence[str] | None = None,
    students: Sequence[str] | None = None,
    *,
    write: bool = False,
) -> list[Change]:
    """Judge the stored observations again; with `write`, enter what changed into gradebook, journal and notebooks.

    A person's scores and comments stay. Raises CourseError when a question is unknown, when it now gives other points
    than were released, or when a journal record is damaged; nothing is written then.
    """
    unknown = sorted(set(questions or ()) - set(QUESTIONS))
    if unknown:
        raise CourseError(f"no question {', '.join(unknown)} with a judge; there are: {', '.join(QUESTIONS)}")
    if not write:
        return [change for _, changes in _all(course, assignments, questions, students) for change in changes]
    with only_writer(course, "regrade --write"):
        submissions = list(_all(course, assignments, questions, students))
        for judged, changes in submissions:
            if judged.verdicts:
                _enter(course, judged, changes)
    return [change for _, changes in submissions for change in changes]


def _all(
    course: Course, assignments: Sequence[str], questions: Sequence[str] | None, students: Sequence[str] | None
) -> Iterator[tuple[_Judged, list[Change]]]:
    # A judge needs the same hidden cases again, which are drawn from the secret and never stored.
    sets = CourseSets(course.root)
    for assignment in assignments:
        course.require_release(assignment)
        _refuse_other_points(course, assignment, questions)
        for student in submitted_students(course, assignment):
            record = read_record(course, assignment, student)
            if record is not None and record.questions and (students is None or student in students):
                yield _judge_again(record, sets, questions)


def _judge_again(record: Record, sets: CourseSets, questions: Sequence[str] | None) -> tuple[_Judged, list[Change]]:
    verdicts, changes = {}, []
    for name, before in record.questions.items():
        published = record.observations.get(name, [])
        if (questions is not None and name not in questions) or name not in QUESTIONS or not published:
            continue  # nothing was observed: its reason stands, whatever the judge says
        question, place = QUESTIONS[name], (record.student, record.assignment, name, before["points"])
        seed = sets.seed(name, record.version, record.pool or 0)
        if record.pool is None or inputs_digest(question.inputs(*seed)) != record.inputs.get(name):
            why = "its hidden inputs are drawn differently now: `autograde grade --force` runs it again"
            changes.append(Change(*place, None, why))
            continue
        after = question.judge(question.draw(*seed), published)
        now = json.loads(json.dumps(after.as_record()))
        # An older checkout's record says no kind of an incident: that alone is no change.
        if now != {"left": [], **{name: now[name] for name in ("incident_kind", "incident_detail")}, **before}:
            verdicts[name] = after
            changes.append(Change(*place, after.points, _why(before, after)))
    return _Judged(record, verdicts), changes


def _why(before: dict[str, Any], after: Verdict) -> str:
    """What is different, part by part."""
    earlier = {part["name"]: part for part in before["parts"]}
    differences = []
    for part in after.parts:
        old = earlier.get(part.name)
        if old is None or old["points"] != part.points:
            differences.append(f"{part.name}: {old['points'] if old else 0:g} → {part.points:g}, {part.message}")
    if before["misconception"] != after.misconception:
        differences.append(f"misconception: {before['misconception'] or 'none'} → {after.misconception or 'none'}")
    return "; ".join(differences) or "the same points, explained differently"


def _refuse_other_points(course: Course, assignment: str, questions: Sequence[str] | None) -> None:
    """A judge that gives other points than the released notebook would overflow or shrink everybody's maximum."""
    for cell in notebooks.read(course.notebook("source", assignment)).cells:
        meta = cell.metadata.get("nbgrader", {})
        question = by_test_id(meta.get("grade_id", ""))
        if question is None or (questions is not None and question.id not in questions):
            continue
        if meta["points"] != question.points:
            raise CourseError(
                f"{question.id} was released with {meta['points']:g} points, its judge gives {question.points:g} now. "
                "Make them equal, or release and grade again. Nothing was written."
            )


def _enter(course: Course, judged: _Judged, changes: Sequence[Change]) -> None:
    """Notebook and gradebook first, the journal last: killed in between, the same command repeats the rest."""
    record = judged.record
    path = course.notebook("autograded", record.assignment, record.student)
    nb = notebooks.read(path)
    for name, verdict in judged.verdicts.items():
        nb.metadata[STAMP]["verdicts"][name] = verdict.as_record()
        _write_outputs(nb, QUESTIONS[name], verdict)
    write_text_atomically(path, writes(nb) + "\n")
    with open_gradebook(course) as gradebook:
        for name, verdict in judged.verdicts.items():
            place = QUESTIONS[name].test_id, record.assignment, record.assignment, record.student
            grade = gradebook.find_grade(*place)
            grade.auto_score = verdict.points
            if grade.manual_score is not None and verdict.points != record.questions[name]["points"]:
                grade.needs_manual_grade = True  # the person's score stands, and waits for them again
        gradebook.db.commit()
    questions = record.questions | {name: verdict.as_record() for name, verdict in judged.verdicts.items()}
    state, reasons = state_of(questions, nb.metadata[STAMP].get("incidents", ()))
    log = [{"question": change.question, "before": change.before, "after": change.after} for change in changes]
    regrades = [*record.regrades, *(entry for entry in log if entry["after"] is not None)]
    write_record(course, replace(record, questions=questions, state=state, reasons=reasons, regrades=regrades))


def _write_outputs(nb: NotebookNode, question: Question, verdict: Verdict) -> None:
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == question.test_id:
            cell.outputs = [*judged_outputs(verdict), *cell.outputs[len(judged_outputs(verdict)) :]]


def manual_scores(course: Course, changes: Sequence[Change]) -> dict[tuple[str, str, str], float]:
    """The scores that a person gave to the questions of `changes`; a new verdict does not change them."""
    from nbgrader.api import MissingEntry

    scores = {}
    with open_gradebook(course) as gradebook:
        for change in changes:
            place = QUESTIONS[change.question].test_id, change.assignment, change.assignment, change.student
            try:
                score = gradebook.find_grade(*place).manual_score
            except MissingEntry:
                continue
            if score is not None:
                scores[change.student, change.assignment, change.question] = float(score)
    return scores


def table(changes: Sequence[Change], manual: dict[tuple[str, str, str], float]) -> str:
    """The changes as a text table."""
    lines = [("student", "question", "before", "after", "why")]
    for change in changes:
        why = change.why
        if (by_hand := manual.get((change.student, change.assignment, change.question))) is not None:
            why = f"the manual score {by_hand:g} stands; {why}"
        after = "–" if change.after is None else f"{change.after:g}"
        lines.append((change.student, change.question, f"{change.before:g}", after, why))
    return text_table(lines)
