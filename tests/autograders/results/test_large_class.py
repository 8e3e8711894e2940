"""A class of any size has the rows of a small one, and the database is not asked once for each student."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, GradedClass, MixedClass, kept_assignments
from helpers.large_class import multiply

from autograders.course import Course, CourseError
from autograders.grading.journal import DamagedRecord, look_up, read_record
from autograders.grading.lateness import lateness_of
from autograders.grading.pending import find_pending
from autograders.intake.roster import Roster
from autograders.nbgrader.database import open_gradebook
from autograders.nbgrader.scores import maxima, scores_of
from autograders.questions.question import QUESTIONS
from autograders.questions.titles import question_titles
from autograders.results.class_tables import write_csv
from autograders.results.report_page import write_report
from autograders.results.rows import rows
from autograders.tables import read_table

pytestmark = pytest.mark.slow


def test_the_scores_of_one_query_are_those_of_nbgrader_s_own_properties(graded: GradedClass) -> None:
    with open_gradebook(graded.course) as gradebook:
        for assignment in kept_assignments():
            scores = scores_of(gradebook, assignment)
            submissions = gradebook.find_assignment(assignment).submissions
            assert scores.keys() == {submission.student.id for submission in submissions}
            for submission in submissions:
                ours = scores[submission.student.id]
                assert ours.score == submission.score
                assert sum(maxima(gradebook, assignment).values()) == submission.max_score
                assert lateness_of(ours, None, "").seconds == submission.total_seconds_late
                assert scores_of(gradebook, assignment, submission.student.id) == {submission.student.id: ours}
                grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
                theirs = [(grade.name.removesuffix("-test"), grade.auto_score, grade.manual_score) for grade in grades]
                assert [(one.question, one.auto_score, one.manual_score) for one in ours.questions] == theirs
        assert scores_of(gradebook, "nothing") == maxima(gradebook, "nothing") == {}


@pytest.fixture(scope="module")
def large(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Sixty students who handed in what the six of the mixed class did."""
    return multiply(mixed_graded.course, tmp_path_factory.mktemp("large") / "course", 60, [MIXED])


def test_every_student_of_a_large_class_has_the_row_of_the_one_they_copy(
    large: Course, mixed_graded: MixedClass
) -> None:
    models = [row for row in rows(mixed_graded.course, [MIXED]) if row.student != "absent"]
    copies = rows(large, [MIXED])
    told = [(row.state, row.score, row.max_score, row.by_hand_open, row.reason) for row in copies]
    expected = [(row.state, row.score, row.max_score, row.by_hand_open, row.reason) for row in models]
    assert told == expected * 10
    written = write_csv(large, [MIXED])
    assert [row["student"] for row in read_table(large.grades)] == [row.student for row in written]
    questions = Counter(row["question"] for row in read_table(large.root / "questions.csv"))
    assert set(questions.values()) == {60}


def test_tables_and_report_ask_the_database_as_often_for_sixty_as_for_six(
    large: Course, mixed_graded: MixedClass, tmp_path: Path
) -> None:
    """Counted, not timed: no statement and no file of the course is read once for each student."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def statements(work: Callable[[], Any]) -> int:
        seen: list[str] = []

        def note(*arguments: Any) -> None:
            seen.append(arguments[2])

        event.listen(Engine, "before_cursor_execute", note)
        try:
            work()
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        return len(seen)

    small = mixed_graded.course
    assert statements(lambda: rows(large, [MIXED])) == statements(lambda: rows(small, [MIXED])) > 0
    reports = [statements(lambda c=course: write_report(c, [MIXED], to=tmp_path / "r")) for course in (large, small)]
    assert reports[0] == reports[1]


def test_what_is_done_is_found_without_its_observations(large: Course) -> None:
    summary, todo = find_pending(large, [MIXED], None)
    assert todo == []
    assert summary.already == 60
    assert [record.student for record in summary.set_aside] == [f"student-{number:05}" for number in range(4, 60, 6)]
    assert all(not record.observations for record in (*summary.set_aside, *summary.incidents))


def test_a_record_without_its_observations_is_the_same_and_its_damage_is_seen(large: Course) -> None:
    whole, short = read_record(large, MIXED, "student-00003"), look_up(large, MIXED, "student-00003")
    assert whole is not None
    assert short is not None
    assert whole.observations
    assert {**vars(whole), "observations": {}} == vars(short)
    path = large.journal(MIXED, "student-00003")
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-20])
        assert "its length" in (record.reason if (record := look_up(large, MIXED, "student-00003")) else "")
        position = content.index(b'"observations": ') + 40
        path.write_bytes(content[:position] + b"#" + content[position + 1 :])
        with pytest.raises(DamagedRecord, match="observations' checksum"):
            read_record(large, MIXED, "student-00003")
    finally:
        path.write_bytes(content)


def test_titles_are_those_of_the_questions() -> None:
    assert question_titles() == {name: question.public.title for name, question in QUESTIONS.items()}


@pytest.mark.parametrize(
    ("sought", "student"),
    [
        ("Ada Lovelace", "1"),
        ("lovelace, ADA", "1"),
        ("lovelaceada", "1"),
        ("adalovelace", "1"),
        ("Zoë", "3"),
        ("zoe", "3"),
        ("Alan Turing", None),  # two of them
        ("Grace Hopper", None),
        ("", None),
    ],
)
def test_a_name_is_looked_up_as_it_was_compared(course: Course, sought: str, student: str | None) -> None:
    names = ["Ada Lovelace", "Grace Brewster Hopper", "Zoë", "Alan Turing", "Turing Alan", "Adalove Lacey"]
    course.roster.write_text("id,name\n" + "".join(f"{n},{name}\n" for n, name in enumerate(names, 1)), "utf-8")
    assert Roster(course).by_name(sought) == student


def test_a_roster_with_one_id_for_two_is_refused(course: Course) -> None:
    course.roster.write_text("id,name\n1,Ada\n1,Bob\n", "utf-8")
    with pytest.raises(CourseError, match="the id 1 is that of 'Ada' and of 'Bob'"):
        Roster(course)
