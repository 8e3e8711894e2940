"""The instructor's path on a simulated class: known scores, nothing stopped by one submission, nothing given away."""

from __future__ import annotations

import csv
import json
import subprocess

import pytest
from conftest import KEPT, ROOT, GradedClass, autograde, copy_course, kept_assignments

from autograders import notebooks
from autograders.course import Course
from autograders.grading.journal import read_record
from autograders.probes import MIME
from autograders.questions.question import QUESTIONS, by_test_id
from autograders.questions.simulate import simulate
from autograders.results.class_tables import write_csv
from autograders.results.known_scores import compare_known, question_points
from autograders.results.rows import rows

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"
ASKED = [name for name in KEPT if name in QUESTIONS]


def known_rows(course: Course) -> list[dict[str, str]]:
    with course.known.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_score_and_misconception_is_the_known_one(graded: GradedClass, class_size: int) -> None:
    count, differences = compare_known(graded.course)
    assert differences == []
    assert count == class_size * len(ASKED)


def test_a_class_that_is_large_enough_hands_in_every_answer_of_the_bank_and_the_empty_one(course: Course) -> None:
    simulate(course, kept_assignments(), 1 + max(len(QUESTIONS[name].answers()) for name in ASKED))
    handed_in = {(row["question"], row["answer"]) for row in known_rows(course)}
    bank = {(name, answer.name) for name in ASKED for answer in QUESTIONS[name].answers()}
    assert handed_in == bank | {(name, "(empty)") for name in ASKED}


def test_a_wrong_known_score_is_reported(graded: GradedClass, tmp_path) -> None:
    course = copy_course(graded.course, tmp_path / "course")
    text = course.known.read_text("utf-8")
    course.known.write_text(text.replace("wrong_divide_by_k,3.0", "wrong_divide_by_k,4.0"), "utf-8")
    assert text != course.known.read_text("utf-8")
    _, differences = compare_known(course)
    assert len(differences) == text.count("wrong_divide_by_k,3.0")
    assert "3.0 points" in differences[0]


@pytest.mark.parametrize("student", ["truncated", "web-page", "no-notebook"])
def test_a_broken_submission_is_set_aside_with_its_reason(graded: GradedClass, class_size: int, student: str) -> None:
    assert graded.grading.code == 3
    found = {row.student: row for row in write_csv(graded.course, [FIRST])}
    row = found[student]
    assert row.state == "unreadable"
    assert graded.broken[student] in row.reason
    assert row.score is None
    assert graded.broken[student] in graded.grading.out
    with graded.course.grades.open(encoding="utf-8", newline="") as file:
        in_csv = {line["student"]: line for line in csv.DictReader(file)}
    assert graded.broken[student] in in_csv[student]["reason"]
    assert in_csv[student]["score"] == ""
    assert sum(row.state == "graded" for row in found.values()) == class_size


def test_submissions_are_left_as_they_were_sent(graded: GradedClass, simulated: Course) -> None:
    for path in sorted(simulated.step("submitted", "").rglob("*.ipynb")):
        sent = path.read_bytes()
        assert (graded.course.root / path.relative_to(simulated.root)).read_bytes() == sent


def test_a_second_run_repeats_nothing(graded: GradedClass, class_size: int) -> None:
    journal = {path: path.read_bytes() for path in (graded.course.root / "journal").rglob("*.json")}
    again = autograde("grade", course=graded.course)
    assert f"nothing to do; {2 * class_size + 3} were already done" in again.out
    assert {path: path.read_bytes() for path in (graded.course.root / "journal").rglob("*.json")} == journal


def test_a_resubmission_is_graded_and_the_earlier_attempt_kept(graded: GradedClass, tmp_path) -> None:
    course = copy_course(graded.course, tmp_path / "course")
    better = course.notebook("submitted", FIRST, "ada-01").read_bytes()
    course.notebook("submitted", FIRST, "chen-03").write_bytes(better)
    before = read_record(course, FIRST, "chen-03")
    assert autograde("grade", "--quiet", "--student", "chen-03", course=course).code == 0
    record = read_record(course, FIRST, "chen-03")
    assert record is not None
    assert before is not None
    assert record.earlier[0]["digest"] == before.digest
    assert question_points(course, FIRST, "chen-03") == question_points(course, FIRST, "ada-01")


def test_feedback_explains_and_shows_no_hidden_test(graded: GradedClass, class_size: int, tmp_path) -> None:
    course = copy_course(graded.course, tmp_path / "course")
    done = autograde("feedback", "--quiet", "--assignment", FIRST, course=course)
    assert done.code == 0, done.err
    pages = {path.parts[-3]: path.read_text("utf-8") for path in course.root.glob(f"feedback/*/{FIRST}/*.html")}
    assert len(pages) == class_size + 3
    for student, page in pages.items():
        for hidden in ("HIDDEN TESTS", "autograders", "observation+json", "probe("):
            assert hidden not in page, f"{student}: {hidden}"
    told = [row for row in known_rows(course) if row["answer"] == "wrong_divide_by_k"]
    assert told
    for row in told:
        assert "even: 1 of 1" in pages[row["student"]]
        assert "the loss was divided by the K that was asked for" in pages[row["student"]]
    assert "not JSON" in pages["truncated"]


def test_a_name_that_looks_like_a_pattern_is_a_name(course: Course) -> None:
    for student in ("[m]*", "O'Brien, Zoë +1", "m"):
        path = course.notebook("submitted", FIRST, student)
        path.parent.mkdir(parents=True)
        path.write_bytes(course.notebook("release", FIRST).read_bytes())
    assert autograde("grade", "--quiet", "--student", "[m]*", course=course).code == 0
    states = {row.student: row.state for row in rows(course, [FIRST])}
    assert states == {"[m]*": "graded", "O'Brien, Zoë +1": "not graded", "m": "not graded"}
    assert autograde("feedback", "--quiet", course=course).code == 0
    assert [path.name for path in course.step("feedback", "").rglob("*.*")] == [f"{FIRST}.html"]


def test_a_course_folder_that_looks_like_a_pattern_is_refused(tmp_path) -> None:
    done = autograde("release", "--course", tmp_path / "course [1]")
    assert done.code == 1
    assert "use another folder" in done.err
    assert not (tmp_path / "course [1]").exists()


def test_a_class_is_not_simulated_among_real_students(course: Course) -> None:
    real = course.notebook("submitted", FIRST, "zoe-99")
    real.parent.mkdir(parents=True)
    real.write_bytes(course.notebook("release", FIRST).read_bytes())
    done = autograde("simulate", course=course)
    assert done.code == 1
    assert "submissions of 1 students (zoe-99" in done.err
    assert [path.name for path in course.step("submitted", "").iterdir()] == ["zoe-99"]


def test_nothing_that_the_students_process_wrote_is_left_for_nbgrader_to_score(graded: GradedClass) -> None:
    for path in sorted(graded.course.step("autograded", "").glob(f"*/{FIRST}/*.ipynb")):
        for cell in notebooks.read(path).cells:
            if by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", "")) is not None:
                first, *others = cell.outputs
                assert first.output_type == "execute_result"
                assert 0 <= float(first.data["text/plain"]) <= cell.metadata["nbgrader"]["points"]
                assert {output.output_type for output in others} == {"display_data"}
                assert not any(MIME in output.data for output in others)


def test_every_student_of_the_roster_has_a_row(graded: GradedClass, tmp_path) -> None:
    course = copy_course(graded.course, tmp_path / "course")
    course.roster.write_text("id,last_name\nada-01,A\nzoe-99,Z\n", "utf-8")
    found = {row.student: row for row in rows(course, [FIRST])}
    assert found["zoe-99"].state == "missing"
    assert found["zoe-99"].score is None
    assert found["ben-02"].state == "graded"  # handed in without being on the roster


@pytest.mark.full
def test_plain_nbgrader_gives_the_same_scores(simulated: Course, tmp_path, nbgrader_environment) -> None:
    """`make test` compares a class of each kind of ending, in test_states.py, and one with late files, in
    test_collect.py.
    """
    course = copy_course(simulated, tmp_path / "course")
    environment = {**nbgrader_environment, "LECTURE_COURSE": str(course.root)}
    for assignment in kept_assignments():
        done = subprocess.run(
            ["nbgrader", "autograde", assignment],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    for row in known_rows(course):
        assert question_points(course, row["assignment"], row["student"])[row["question"]] == float(row["points"])


def test_questions_graded_by_hand_wait_for_a_person_and_empty_ones_are_zero(graded: GradedClass) -> None:
    found = rows(graded.course, kept_assignments())
    answered = {
        (row.student, row.assignment): "*Write your answer here.*"
        not in graded.course.notebook("submitted", row.assignment, row.student).read_text("utf-8")
        for row in found
        if row.state == "graded"
    }
    assert {True, False} == set(answered.values())
    for row in found:
        if row.state == "graded":
            assert row.by_hand_open == int(answered[row.student, row.assignment])


def test_the_journal_keeps_observations_but_no_secret(graded: GradedClass) -> None:
    secret = graded.course.secret.read_text("ascii").strip()
    record = read_record(graded.course, FIRST, "ada-01")
    assert record is not None
    assert set(record.observations) == {"03a-clip", "03a-accumulate"}
    for path in graded.course.root.rglob("*"):
        if path.is_file() and path != graded.course.secret:
            assert secret.encode() not in path.read_bytes(), path
    verdict = record.questions["03a-clip"]
    question = QUESTIONS["03a-clip"]
    assert json.dumps(verdict)  # plain data
    assert verdict["maximum"] == question.points
