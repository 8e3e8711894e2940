"""What the gradebook holds: as a table, as CSV for the registrar, and compared with a simulated class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any

from ..course import Course
from ..grading.journal import Record, look_up
from ..grading.states import State, lateness
from ..intake.intake import submitted_students
from ..intake.notes import Note, NotPlaced, note_in_force, noted_students, read_not_placed, read_note
from ..intake.roster import Roster
from ..intake.times import Due, due_dates
from ..nbgrader.database import open_gradebook
from ..nbgrader.scores import SubmissionScores, maxima, question_of, scores_of
from ..plain_text import plain
from ..reasons import Kind, Reason
from ..release.history import History, PastRelease, in_words, read_history
from ..release.publications import Published, read_published, which_release
from ..tables import read_table, write_table
from .question_rows import QUESTION_COLUMNS, question_rows
from .row import COLUMNS, Entry, Row


def roster(course: Course) -> list[str]:
    """The students of the roster, or, without one, everybody who handed in anything."""
    if not course.roster.exists():
        return sorted({path.name for path in course.step("submitted", "").glob("*") if path.is_dir()})
    return sorted(Roster(course).names)


def rows(course: Course, assignments: Sequence[str]) -> list[Row]:
    """A row for every student of the roster (and whoever handed in besides) and every assignment."""
    return [entry.row for entry in entries(course, assignments)]


def entries(course: Course, assignments: Sequence[str]) -> Iterator[Entry]:
    """The rows of `rows`, one after the other, each with what it was made from.

    What concerns the whole class is read once, so that the time grows with the number of students and no faster.
    """
    class_roster = Roster(course)
    enrolled = roster(course)
    published = read_published(course.root)
    history = read_history(course)
    due = due_dates(course)
    loose_files = defaultdict(list)
    for file in read_not_placed(course):
        for part in set(PurePosixPath(file.file).parts):
            loose_files[part].append(file)
    with open_gradebook(course) as gradebook:
        for assignment in assignments:
            scores, most = scores_of(gradebook, assignment), maxima(gradebook, assignment)
            releases = history.get(assignment, ())
            for submission in scores.values():
                submission.late_submission_penalty = penalty_of(submission, due.get(assignment))
            for student in sorted(
                {*enrolled, *submitted_students(course, assignment), *noted_students(course, assignment)}
            ):
                record = look_up(course, assignment, student)
                row = _row(
                    course, assignment, student, record, scores.get(student), most, published, loose_files, releases
                )
                if (extended := extension_of(scores.get(student))) is not None:
                    row = replace(row, reasons=(*row.reasons, extended))
                if unknown := class_roster.unknown(student):
                    row = replace(row, reasons=(*row.reasons, Reason(Kind.NOTE, unknown)))
                yield Entry(row, record, scores.get(student), most)


def _row(
    course: Course,
    assignment: str,
    student: str,
    record: Record | None,
    scores: SubmissionScores | None,
    most: Mapping[str, float],
    published: Sequence[Published],
    loose_files: Mapping[str, Sequence[NotPlaced]],
    releases: Sequence[PastRelease],
) -> Row:
    note = read_note(course, assignment, student)
    if note is not None and note.held:
        held = Reason(Kind.OTHER, f"{note.why_held} Run `autograde confirm`")
        attempts = len(record.earlier) + 1 if record else 0
        return Row(student, assignment, State.TO_CONFIRM, None, None, None, 0, attempts, (held,))
    if record is None:
        state, reason = State.MISSING, "nothing was handed in"
        if course.step("submitted", student, assignment).is_dir():
            state, reason = State.NOT_GRADED, "run `autograde grade`"
        elif student in loose_files:
            listing = "; ".join(f"{entry.file}: {entry.reason}" for entry in loose_files[student])
            state, reason = State.NOT_PLACED, f"nothing was handed in for this assignment; not placed: {listing}"
        return Row(student, assignment, state, None, None, None, 0, 0, (Reason(Kind.OTHER, reason),))
    attempts = len(record.earlier) + 1
    release = which_release(published, assignment, record.submitted_version, record.submitted_release, releases)
    in_force = note_in_force(course, assignment, student)
    late = lateness_of(scores, scores.late_submission_penalty, in_force) if scores else None
    reasons = (*record.reasons, *(Reason(Kind.NOTE, note) for note in record.notes), *([late] if late else []))
    if releases and record.version and record.version != releases[-1].version:
        text = f"graded as {in_words(releases, record.version)}: `autograde grade` grades it as the newest release"
        reasons = (Reason(Kind.NOTE, text), *reasons)
    if scores is None or not record.questions:
        return Row(student, assignment, record.state, None, None, None, 0, attempts, reasons)
    return Row(
        student,
        assignment,
        # What happened to a question matters more than being late, which the reasons say.
        State.LATE if late and record.state == State.GRADED else record.state,
        # nbgrader keeps the score before the penalty.
        scores.score - scores.late_submission_penalty,
        sum(most.values()),
        sum(question.auto_score or 0.0 for question in scores.questions),
        sum(question.needs_manual_grade for question in scores.questions),
        attempts,
        reasons,
        release,
    )


def penalty_of(submission: Any, due: Due | None) -> float:
    """What being late costs now. nbgrader computes it while it grades, and a person may give points afterwards."""
    if due is not None and due.penalty == "zero" and submission.total_seconds_late > 0:
        return float(submission.score)
    return float(submission.late_submission_penalty or 0.0)


def lateness_of(submission: Any, penalty: float, note: Note | None) -> Reason | None:
    """How late a submission in the gradebook is: by its time, or because an LMS or a person marks it so."""
    seconds = submission.total_seconds_late
    # A due date that was met, after an extension for instance, overrules the LMS's mark.
    marked = note.late if note is not None and (seconds > 0 or submission.duedate is None) else ""
    return lateness(seconds, penalty, marked)


def extension_of(submission: Any) -> Reason | None:
    """What to say of a student's extension, from the submission in the gradebook; None without one."""
    if submission is None or submission.extension is None or submission.duedate is None:
        return None
    return Reason(Kind.NOTE, f"the due date was extended to {submission.duedate:%Y-%m-%d %H:%M} UTC")


def releases_in_use(student_rows: Sequence[Row], history: History) -> list[str]:
    """Where an assignment has had several releases: how many submissions were made from which, a line each."""
    counts = Counter((row.assignment, row.release) for row in student_rows if row.release)
    return [
        f"{assignment}: {count} made from {release}"
        for (assignment, release), count in counts.items()
        if len(history.get(assignment, ())) > 1
    ]


def not_placed(course: Course) -> list[Row]:
    """A row for each file that nobody is known for, without a student."""
    return [
        Row("", "", State.NOT_PLACED, None, None, None, 0, 0, (Reason(Kind.OTHER, f"{entry.file}: {entry.reason}"),))
        for entry in read_not_placed(course)
    ]


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


def write_csv(course: Course, assignments: Sequence[str]) -> list[Row]:
    """Write `grades.csv` (one row a student and assignment) and `questions.csv` (one row a question).

    In `grades.csv` the files come last that could not be placed, in rows without a student.
    """
    student_rows: list[Row] = []

    def question_lines() -> Iterator[Sequence[Any]]:
        yield [name.replace("_", " ") for name in QUESTION_COLUMNS]
        for entry in entries(course, assignments):
            student_rows.append(entry.row)
            yield from map(attrgetter(*QUESTION_COLUMNS), question_rows(entry))

    write_table(course.root / "questions.csv", question_lines())
    everything = [*student_rows, *not_placed(course)]
    write_table(course.grades, [COLUMNS, *map(attrgetter(*COLUMNS), everything)])
    return everything


def write_wide(course: Course, student_rows: Sequence[Row]) -> Path:
    """Write `grades-wide.csv`: a row a student with what the roster knows of them, a score and a state an assignment.

    An empty score is none, and the state says why; the total is the sum of the scores that there are.
    """
    people = Roster(course)
    by_student: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in student_rows:
        if row.student:
            by_student[row.student][row.assignment] = row
    names = sorted({row.assignment for row in student_rows if row.assignment})
    columns = [column for name in names for column in (name, f"{name}: state")]
    lines: list[list[Any]] = [["student", "name", "email", "lms_id", *columns, "total"]]
    for student, own in sorted(by_student.items()):
        cells = [cell for name in names for cell in (own[name].score, str(own[name].state))]
        total = sum(row.score for row in own.values() if row.score is not None)
        person = people.names.get(student, ""), people.emails.get(student, ""), people.lms_ids.get(student, "")
        lines.append([student, *person, *cells, total])
    path = course.root / "grades-wide.csv"
    write_table(path, lines)
    return path


def table(student_rows: Sequence[Row]) -> str:
    """The rows as a text table."""
    lines = [("student", "assignment", "state", "score", "of", "by hand", "")]
    for row in student_rows:
        score = "–" if row.score is None else f"{row.score:g}"
        maximum = "" if row.max_score is None else f"{row.max_score:g}"
        waiting = f"{row.by_hand_open} open" if row.by_hand_open else ""
        lines.append((row.student, row.assignment, row.state, score, maximum, waiting, row.reason[:60]))
    return text_table(lines)


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text, with columns as wide as their longest cell; the last one may be of any length."""
    lines = [[plain(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


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
