"""What the gradebook says of every student and assignment: the rows behind each table, page and export."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ..course import Course
from ..grading.journal import Record, look_up
from ..grading.lateness import extension_of, lateness_of
from ..grading.states import SET_ASIDE, State
from ..intake.intake import submission_digest, submitted_students
from ..intake.notes import NotPlaced, note_in_force, noted_students, read_not_placed, read_note
from ..intake.roster import Roster
from ..intake.times import Due, due_dates
from ..nbgrader.database import open_gradebook
from ..nbgrader.scores import SubmissionScores, maxima, scores_of
from ..reasons import Kind, Reason
from ..release.history import PastRelease, in_words, read_history
from ..release.publications import Published, read_published, which_release
from .row import Entry, ScoreRow


def enrolled(course: Course) -> list[str]:
    """The students of the roster, or, without one, everybody who handed in anything."""
    if not course.roster.exists():
        return sorted({path.name for path in course.step("submitted", "").glob("*") if path.is_dir()})
    return sorted(Roster(course).names)


def rows(course: Course, assignments: Sequence[str]) -> list[ScoreRow]:
    """A row for every student of the roster (and whoever handed in besides) and every assignment."""
    return [entry.row for entry in entries(course, assignments)]


def entries(course: Course, assignments: Sequence[str]) -> Iterator[Entry]:
    """The rows of `rows`, one after the other, each with what it was made from.

    What concerns the whole class is read once, so that the time grows with the number of students and no faster.
    """
    class_roster = Roster(course)
    published = read_published(course.root)
    history = read_history(course)
    due = due_dates(course)
    loose_files = defaultdict(list)
    for file in read_not_placed(course):
        for owner in {*PurePosixPath(file.file).parts, file.student or ""}:
            loose_files[owner].append(file)
    everybody = set(enrolled(course))
    for assignment in assignments:
        everybody |= {*submitted_students(course, assignment), *noted_students(course, assignment)}
    with open_gradebook(course) as gradebook:
        for assignment in assignments:
            scores, most = scores_of(gradebook, assignment), maxima(gradebook, assignment)
            releases, line = history.get(assignment, ()), due.get(assignment)
            for student in sorted(everybody):
                record, submission = look_up(course, assignment, student), scores.get(student)
                row = _row(
                    course, assignment, student, record, submission, most, published, loose_files, releases, line
                )
                if submission is not None and (extended := extension_of(submission, line)) is not None:
                    row = replace(row, reasons=(*row.reasons, extended))
                if unknown := class_roster.unknown(student):
                    row = replace(row, reasons=(*row.reasons, Reason(Kind.NOTE, unknown)))
                yield Entry(row, record, submission, most)


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
    due: Due | None,
) -> ScoreRow:
    note = read_note(course, assignment, student)
    attempts = len(record.earlier) + 1 if record else 0

    def without_score(state: State, *reasons: Reason) -> ScoreRow:
        return ScoreRow(student, assignment, state, None, None, None, 0, attempts, reasons)

    if note is not None and note.held:
        return without_score(State.TO_CONFIRM, Reason(Kind.OTHER, f"{note.why_held} Run `autograde confirm`"))
    if record is None:
        state, reason = State.MISSING, "nothing was handed in"
        if course.step("submitted", student, assignment).is_dir():
            state, reason = State.NOT_GRADED, "run `autograde grade`"
        elif files := [file for file in loose_files.get(student, ()) if file.assignment in (None, assignment)]:
            listing = "; ".join(f"{file.file}: {file.reason}" for file in files)
            state, reason = State.NOT_PLACED, f"nothing was handed in for this assignment; not placed: {listing}"
        return without_score(state, Reason(Kind.OTHER, reason))
    # A damaged record, which has no version, says so first: no grading run overwrites it.
    if record.version and submission_digest(course, assignment, student) not in (None, record.digest):
        return without_score(
            State.NOT_GRADED, Reason(Kind.OTHER, "handed in again, not graded yet: run `autograde grade`")
        )
    release = which_release(published, assignment, record.submitted_version, record.submitted_release, releases)
    in_force = note_in_force(course, assignment, student)
    reasons = (*record.reasons, *(Reason(Kind.NOTE, note) for note in record.notes))
    if releases and record.version and record.version != releases[-1].version:
        text = f"graded as {in_words(releases, record.version)}: `autograde grade` grades it as the newest release"
        reasons = (Reason(Kind.NOTE, text), *reasons)
    if scores is None or not record.questions or record.state in SET_ASIDE:
        return without_score(record.state, *reasons)
    late = lateness_of(scores, due, in_force.late if in_force is not None else "")
    if late.reason is not None:
        reasons = (*reasons, late.reason)
        # Only a plugin knows what other seconds cost, and it is asked while grading.
        if due is not None and due.penalty is None and due.date != scores.due:
            text = "the due date was changed after grading: `autograde grade` computes what being late costs"
            reasons = (*reasons, Reason(Kind.NOTE, text))
    return ScoreRow(
        student,
        assignment,
        # What happened to a question matters more than being late, which the reasons say.
        State.LATE if late.reason and record.state == State.GRADED else record.state,
        # nbgrader keeps the score before the penalty.
        scores.score - late.points,
        sum(most.values()),
        sum(question.auto_score or 0.0 for question in scores.questions),
        sum(question.needs_manual_grade for question in scores.questions),
        attempts,
        reasons,
        release,
    )


def not_placed(course: Course) -> list[ScoreRow]:
    """A row for each file that nobody is known for, without a student."""
    return [
        ScoreRow(
            "", "", State.NOT_PLACED, None, None, None, 0, 0, (Reason(Kind.OTHER, f"{entry.file}: {entry.reason}"),)
        )
        for entry in read_not_placed(course)
    ]
