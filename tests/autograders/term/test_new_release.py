"""A release in mid-term: a question is new, one is gone, one is worth more and one has other cells."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from conftest import course_of_this_run
from helpers.submissions import ACCUMULATE, CLIP, FIRST, RIGHT, WORDS, handed_in

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course, ReleaseError
from autograders.grading.grade import grade
from autograders.nbgrader.database import open_gradebook
from autograders.nbgrader.scores import question_of
from autograders.questions.question import QUESTIONS
from autograders.release.history import read_history
from autograders.release.release import release
from autograders.results.question_rows import BY_HAND, WAITING
from autograders.results.row import ScoreRow
from autograders.results.rows import rows
from autograders.tables import read_table

pytestmark = pytest.mark.slow

GONE = "03a-p3"
WORTH = {ACCUMULATE: 8.0, CLIP: 8.0}
"""As the notebook says it."""


def masters(folder: Path, questions: tuple[str, ...], *, words: float, docstring: str = "") -> Path:
    """A folder of notebooks with these questions of the first one; the one in words is worth `words`."""
    nb = notebooks.read(notebooks.master_path(FIRST))
    cells = []
    for cell in nb.cells:
        names = cell.metadata.get("nbgrader", {})
        question = question_of(names.get("grade_id", questions[0]))
        if question not in questions:
            continue
        if names.get("grade_id") == WORDS:
            names["points"] = words
        if names.get("grade_id") == ACCUMULATE:
            cell.source = cell.source.replace('"""', f'"""{docstring}', 1)
        cells.append(cell)
    nb.cells = cells
    (folder / FIRST).mkdir(parents=True)
    (folder / f"{FIRST}.py").touch()
    nbformat.write(nb, folder / FIRST / f"{FIRST}.ipynb")
    return folder


@dataclass
class MidTerm:
    """A course with a second release, and what it looked like before."""

    course: Course
    refusal: str
    unchanged: bool
    versions: tuple[str, str]
    between: ScoreRow
    printed: str


def state_of_files(course: Course) -> dict[str, str]:
    paths = [path for path in course.root.rglob("*") if path.is_file() and path.name != ".writer"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def hand_in(course: Course, student: str, answers: dict[str, str], text: str = "By heart.") -> None:
    path = course.notebook("submitted", FIRST, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(handed_in(course, answers, text)), "utf-8")


def give(course: Course, student: str, cell: str, points: float, comment: str = "") -> None:
    """What a grader does in the formgrader."""
    with open_gradebook(course) as gradebook:
        score = gradebook.find_grade(cell, FIRST, FIRST, student)
        score.manual_score, score.needs_manual_grade = points, False
        if comment:
            gradebook.find_comment(cell, FIRST, FIRST, student).manual_comment = comment
        gradebook.db.commit()


def row_of(course: Course, student: str) -> ScoreRow:
    (row,) = [row for row in rows(course, [FIRST]) if row.student == student]
    return row


@pytest.fixture(scope="module")
def mid_term(tmp_path_factory: pytest.TempPathFactory, fresh_secret: bytes) -> MidTerm:
    folder = tmp_path_factory.mktemp("mid-term")
    course = course_of_this_run(folder, fresh_secret)
    old = masters(folder / "old", (ACCUMULATE, GONE, WORDS), words=2)
    new = masters(folder / "new", (ACCUMULATE, CLIP, WORDS), words=3, docstring="Mended. ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notebooks, "NOTEBOOKS", old)
        first = release(course, [FIRST], verify=False)[FIRST]
        hand_in(course, "early", {ACCUMULATE: RIGHT[ACCUMULATE]})
        hand_in(course, "wrong", {ACCUMULATE: "wrong_divide_by_k"})
        grade(course, [FIRST], progress=False)
        give(course, "early", WORDS, 1.5)
        give(course, "early", GONE, 1.25, "=well said")
        for student in ("early", "wrong"):
            assert row_of(course, student).max_score == WORTH[ACCUMULATE] + 2 + 2
        patch.setattr(notebooks, "NOTEBOOKS", new)
        before = state_of_files(course)
        with pytest.raises(ReleaseError) as refused:
            release(course, [FIRST], verify=False)
        unchanged = state_of_files(course) == before
        printed = folder / "printed"
        with printed.open("w") as file, pytest.MonkeyPatch.context() as terminal:
            terminal.setattr("sys.stdout", file)
            options = ["--course", str(course.root), "--assignment", FIRST]
            assert main(["release", "--replace", "--skip-verify", "--quiet", *options]) == 0
        between = row_of(course, "early")
        second = read_history(course)[FIRST][-1].version
        hand_in(course, "new", RIGHT)
        grade(course, [FIRST], progress=False)
    return MidTerm(course, str(refused.value), unchanged, (first, second), between, printed.read_text("utf-8"))


def test_it_is_refused_until_the_instructor_has_read_what_it_changes(mid_term: MidTerm) -> None:
    assert mid_term.unchanged
    for said in (
        f"version {mid_term.versions[1]} follows version {mid_term.versions[0]}; 2 handed in",
        f"{GONE} is not asked any more",
        f"{WORDS} is worth 3 points instead of 2",
        f"the cells of {ACCUMULATE} have changed",
        f"{CLIP} is new, 8 points",
        "grades 2 of them again",
    ):
        assert said in mid_term.refusal, said
        assert said in mid_term.printed, said
    assert "add --replace" in mid_term.refusal
    assert f"the cells of {WORDS}" not in mid_term.refusal


def test_the_table_says_that_grading_is_due(mid_term: MidTerm) -> None:
    assert f"graded as version {mid_term.versions[0]}" in mid_term.between.reason
    assert "`autograde grade` grades it as the newest release" in mid_term.between.reason


@pytest.mark.parametrize(
    ("student", "answer", "words"), [("early", RIGHT[ACCUMULATE], 1.5), ("wrong", "wrong_divide_by_k", 0.0)]
)
def test_an_earlier_notebook_has_the_new_points_and_waits_where_it_could_not_answer(
    mid_term: MidTerm, student: str, answer: str, words: float
) -> None:
    declared = next(each.points for each in QUESTIONS[ACCUMULATE].answers() if each.name == answer)
    row = row_of(mid_term.course, student)
    assert row.max_score == sum(WORTH.values()) + 3
    assert row.score == declared + words
    # The text of "wrong" waits as before; CLIP was not asked.
    assert row.by_hand_open == (1 if student == "early" else 2)
    assert f"not in the release that it was made from: {CLIP}" in row.reason
    assert f"{WORDS} is worth 3 points instead of 2" in row.reason
    assert f"version {mid_term.versions[0]}, released" in row.release
    assert row.release.endswith("an earlier release")
    assert row.attempts == 2


def test_a_notebook_of_the_new_release_is_as_ever(mid_term: MidTerm) -> None:
    row = row_of(mid_term.course, "new")
    assert (row.score, row.max_score, row.by_hand_open) == (sum(WORTH.values()), sum(WORTH.values()) + 3, 1)
    assert f"version {mid_term.versions[1]}, released" in row.release
    assert "release" not in row.reason


def test_what_a_person_gave_to_a_removed_question_is_kept_until_the_student_is_forgotten(mid_term: MidTerm) -> None:
    path = mid_term.course.root / "removed-scores.csv"
    given = [(line["student"], line["cell"], line["points"], line["comment"]) for line in read_table(path)]
    assert given == [("early", GONE, "", "=well said"), ("early", GONE, "1.25", "")]


def test_the_tables_tell_the_releases_apart(mid_term: MidTerm, capsys: pytest.CaptureFixture[str]) -> None:
    course = mid_term.course
    give(course, "wrong", f"{CLIP}-test", 4.0)
    assert main(["gradebook", "--course", str(course.root), "--assignment", FIRST]) == 0
    printed = capsys.readouterr().out
    assert f"{FIRST}: 2 made from version {mid_term.versions[0]}" in printed
    assert f"{FIRST}: 1 made from version {mid_term.versions[1]}" in printed
    table = read_table(course.root / "questions.csv")
    states = {line["student"]: (line["state"], line["points"]) for line in table if line["question"] == CLIP}
    assert states == {"early": (WAITING, "0.0"), "wrong": (BY_HAND, "4.0"), "new": ("graded", "8.0")}
    assert not [line for line in table if line["question"] == GONE]
    # Graded once more, a person's decision about it stays.
    grade(course, [FIRST], ["wrong"], force=True, progress=False)
    row = row_of(course, "wrong")
    declared = next(each.points for each in QUESTIONS[ACCUMULATE].answers() if each.name == "wrong_divide_by_k")
    assert (row.score, row.by_hand_open) == (declared + 4.0, 1)


def test_the_same_release_again_changes_nothing(
    mid_term: MidTerm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course = mid_term.course
    monkeypatch.setattr(notebooks, "NOTEBOOKS", course.root.parent / "new")
    before, history = rows(course, [FIRST]), read_history(course)
    options = ["--course", str(course.root), "--assignment", FIRST, "--skip-verify", "--quiet"]
    assert main(["release", *options]) == 0
    assert "handed in" not in capsys.readouterr().out
    assert rows(course, [FIRST]) == before
    assert read_history(course) == history
    assert main(["forget", "early", "--yes", *options[:4]]) == 0
    assert not read_table(course.root / "removed-scores.csv")
