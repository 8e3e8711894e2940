"""Compares the gradebook with what a simulated class must get: its answers' points and mistakes are known."""

from __future__ import annotations

from ..course import Course
from ..grading.journal import look_up
from ..nbgrader.database import open_gradebook
from ..nbgrader.scores import question_of
from ..tables import read_table


def compare_known(course: Course) -> tuple[int, list[str]]:
    """How many known scores a simulated class has, and where the gradebook or a misconception differs from them."""
    differences = []
    expected = read_table(course.known)
    points: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in expected:
        student, assignment, question = row["student"], row["assignment"], row["question"]
        record = look_up(course, assignment, student)
        if record is None or not record.questions:
            differences.append(f"{student}, {question}: no score ({record.reason if record else 'not graded'})")
            continue
        key = (assignment, student)
        if key not in points:
            points[key] = question_points(course, assignment, student)
        score, misconception = points[key].get(question), record.questions[question]["misconception"] or ""
        if score != float(row["points"]) or misconception != row["misconception"]:
            differences.append(
                f"{student}, {question} ({row['answer']}): {score} points, {misconception or 'no misconception'}; "
                f"known: {row['points']}, {row['misconception'] or 'none'}"
            )
    return len(expected), differences


def question_points(course: Course, assignment: str, student: str) -> dict[str, float | None]:
    """The automatic points of each test cell in nbgrader's gradebook, by question id."""
    with open_gradebook(course) as gradebook:
        submission = gradebook.find_submission(assignment, student)
        return {
            question_of(grade.name): grade.auto_score
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.name.endswith("-test")
        }
