"""What a class did: scores, misconceptions by frequency, slow cells and incidents, from gradebook and journal."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .. import notebooks
from ..course import Course
from ..grading.states import INCIDENTS, MEANINGS, SET_ASIDE
from ..questions.titles import question_titles
from ..questions.verdict import UNANSWERED
from ..reasons import Kind, Reason
from .question_rows import WAITING, QuestionRow, question_rows
from .row import ScoreRow
from .rows import entries

BUCKETS = ("full points", "half or more", "less than half", "no points", "not answered", "no verdict", "waits")
"""How a question ended for a student, from best to what is still open; the order of the bars."""
SLOW_CELLS = 8
SLOW_SECONDS = 0.1
"""A cell that never took longer is not worth a line."""


@dataclass(frozen=True)
class QuestionSummary:
    """One question over the class: how many students in each bucket, the mean share of points, each part's share."""

    id: str
    title: str
    maximum: float
    buckets: dict[str, int]
    mean: float | None
    parts: list[tuple[str, float]]
    unexplained: int
    """Wrong answers that show none of the known misconceptions."""


@dataclass(frozen=True)
class Misconception:
    """A known mistake: how many made it, of how many who answered, what it cost, what it means."""

    id: str
    question: str
    students: int
    answered: int
    points_lost: float
    meaning: str
    look_at: str


@dataclass(frozen=True)
class SlowCell:
    """A cell and how long it ran over the class, in seconds."""

    name: str
    median: float
    longest: float
    students: int


@dataclass(frozen=True)
class Incident:
    """What happened to how many submissions; the students only where the report names them."""

    state: str
    what: str
    count: int
    students: list[str]


@dataclass(frozen=True)
class AssignmentReport:
    """One notebook's part of the page."""

    assignment: str
    states: list[tuple[str, int, str]]
    with_incident: int
    histogram: list[int]
    """Students by score: ten equal steps from 0 to the maximum."""
    scored: int
    median: float | None
    maximum: float
    waiting: int
    questions: list[QuestionSummary]
    misconceptions: list[Misconception]
    slow: list[SlowCell]
    incidents: list[Incident]
    students: list[ScoreRow]
    """Empty unless names were asked for."""


def assignment_report(course: Course, assignment: str, *, names: bool) -> AssignmentReport:
    """One assignment's numbers."""
    student_rows: list[ScoreRow] = []
    answers: list[QuestionRow] = []
    shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    words: dict[tuple[str, str], tuple[str, str]] = {}
    names_of_cells = _first_lines(course, assignment)
    # Record by record: those of a large class do not fit into memory together.
    for entry in entries(course, [assignment]):
        student_rows.append(entry.row)
        answers += question_rows(entry)
        # A record without a score is of an earlier attempt, or waits for a person.
        if entry.record is not None and entry.row.score is not None:
            for question, verdict in entry.record.questions.items():
                if verdict["misconception"]:
                    words[question, verdict["misconception"]] = verdict["meaning"], verdict["look_at"]
                for part in verdict["parts"]:
                    shares[question][part["name"]].append(part["points"] / part["maximum"])
            for cell, duration in entry.record.cell_seconds.items():
                seconds[names_of_cells.get(cell, "students' own cells")].append(duration)
    scores = [(row.score, row.max_score) for row in student_rows if row.score is not None and row.max_score]
    states: Counter[str] = Counter(row.state for row in student_rows)
    # Full marks belong to the last of the ten steps, not to an eleventh.
    histogram = Counter(min(int(10 * score / maximum), 9) for score, maximum in scores)
    by_question = defaultdict(list)
    for answer in answers:
        by_question[answer.question].append(answer)
    return AssignmentReport(
        assignment,
        [(state, states[state], meaning) for state, meaning in MEANINGS.items() if states[state]],
        sum(states[state] for state in (*INCIDENTS, *SET_ASIDE)),
        [histogram[step] for step in range(10)],
        len(scores),
        statistics.median(score for score, _ in scores) if scores else None,
        max((maximum for _, maximum in scores), default=0.0),
        sum(row.by_hand_open > 0 for row in student_rows),
        [_summary(question, question_answers, shares[question]) for question, question_answers in by_question.items()],
        _misconceptions(answers, words),
        _slow_cells(seconds),
        _incidents(student_rows, names),
        student_rows if names else [],
    )


def _summary(question: str, answers: Sequence[QuestionRow], parts: Mapping[str, Sequence[float]]) -> QuestionSummary:
    points = [answer.points / answer.maximum for answer in answers if answer.points is not None and answer.maximum]
    buckets = Counter(_bucket(answer) for answer in answers if answer.points is not None or answer.state == WAITING)
    return QuestionSummary(
        question,
        question_titles().get(question, "graded by hand"),
        answers[0].maximum,
        {name: buckets[name] for name in BUCKETS},
        statistics.mean(points) if points else None,
        [(name, statistics.mean(shares)) for name, shares in parts.items()],
        sum(_bucket(answer) in BUCKETS[1:4] and not answer.misconception for answer in answers)
        if question in question_titles()
        else 0,
    )


def _bucket(answer: QuestionRow) -> str:
    if answer.state == WAITING:
        return "waits"
    if answer.state in INCIDENTS:
        return "no verdict"
    if answer.points is None or not answer.answered:
        return "not answered"
    share = answer.points / answer.maximum if answer.maximum else 1.0
    return BUCKETS[0 if share >= 1 else 1 if share >= 0.5 else 2 if share > 0 else 3]


def _misconceptions(
    answers: Iterable[QuestionRow], words: Mapping[tuple[str, str], tuple[str, str]]
) -> list[Misconception]:
    """Every known mistake that was made, the most frequent first; `words` has what it means and what to look at."""
    losses: dict[tuple[str, str], list[float]] = defaultdict(list)
    answered: Counter[str] = Counter()
    for answer in answers:
        if answer.points is None or answer.question not in question_titles() or answer.misconception == UNANSWERED:
            continue
        answered[answer.question] += 1
        if answer.misconception:
            losses[answer.question, answer.misconception].append(answer.maximum - answer.points)
    misconceptions = []
    for (question, name), points_lost in losses.items():
        meaning, look_at = words.get((question, name), ("", ""))
        if meaning:
            counts = len(points_lost), answered[question], sum(points_lost)
            misconceptions.append(Misconception(name, question, *counts, meaning, look_at))
    return sorted(
        misconceptions, key=lambda mistake: (-mistake.students, -mistake.points_lost, mistake.question, mistake.id)
    )


def _slow_cells(seconds: Mapping[str, Sequence[float]]) -> list[SlowCell]:
    """The slowest cells by their median; what students added themselves is one entry."""
    cells = [
        SlowCell(name, statistics.median(durations), max(durations), len(durations))
        for name, durations in seconds.items()
    ]
    slow = [cell for cell in cells if cell.longest > SLOW_SECONDS]
    return sorted(slow, key=lambda cell: (-cell.median, -cell.longest, cell.name))[:SLOW_CELLS]


def _first_lines(course: Course, assignment: str) -> dict[str, str]:
    """What to call the released notebook's cells: their nbgrader id, else their first line."""
    cells = notebooks.read(course.notebook("source", assignment)).cells
    ids = [(cell.metadata.get("nbgrader", {}).get("grade_id"), cell) for cell in cells if cell.cell_type == "code"]
    return {grade_id or cell["id"]: grade_id or cell.source.split("\n")[0][:60] for grade_id, cell in ids}


def _incidents(student_rows: Iterable[ScoreRow], names: bool) -> list[Incident]:
    """What went wrong, alike things together. Reasons are cut to their kind: their rest may quote a student."""
    students: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in student_rows:
        if row.state in (*INCIDENTS, *SET_ASIDE):
            for reason_text in sorted({cut(reason) for reason in row.reasons if reason.kind != Kind.NOTE}):
                students[row.state, reason_text].append(row.student)
    incidents = [
        Incident(state, reason_text, len(involved), involved if names else [])
        for (state, reason_text), involved in students.items()
    ]
    return sorted(incidents, key=lambda incident: (-incident.count, incident.state, incident.what))


_WORDS = {
    Kind.OUT_OF_TIME: "out of time",
    Kind.KERNEL_DIED: "the kernel died",
    Kind.KERNEL_STOPPED: "the kernel was stopped",
    Kind.KERNEL_TOLD_TO_END: "the kernel was told to end",
    Kind.CELL_ENDED_ITSELF: "the cell ended itself",
    Kind.TEST_CELL_STOPPED: "the test cell stopped with {}",
    Kind.NOT_OBSERVED: "nothing was observed",
    Kind.PUBLISHED_TWICE: "{} observations were published",
    Kind.MALFORMED: "the observation is malformed",
    Kind.NOT_JUDGED: "the observation could not be judged",
    Kind.EMPTY: "the file is empty",
    Kind.NOT_JSON: "not JSON",
    Kind.NOT_A_NOTEBOOK: "not a notebook",
    Kind.MERGE_CONFLICT: "it holds a merge conflict",
    Kind.HALF_A_MERGE_CONFLICT: "it holds half a merge conflict",
    Kind.NO_NOTEBOOK: "no notebook",
    Kind.ANOTHER_NOTEBOOK: "it is another notebook",
    Kind.SEVERAL_NOTEBOOKS: "{} notebooks could count",
    Kind.LATE: "handed in {} after the due date",
    Kind.MARKED_LATE: "marked as handed in late",
    Kind.OTHER: "another incident",
}


def cut(reason: Reason) -> str:
    """A reason in words of ours only: nothing that a student wrote or is called."""
    words = _WORDS[reason.kind].format(reason.detail)
    place = reason.question or ("an own cell" if reason.cell else "")
    return f"{place}: {words}" if place else words
