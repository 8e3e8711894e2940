"""The guide's pages are a term: their commands run one after the other, between them students and graders act."""

from __future__ import annotations

import io
import json
import re
import shlex
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from conftest import ROOT, copy_course
from helpers.lms import (
    Person,
    canvas_feedback,
    canvas_file,
    canvas_gradebook,
    canvas_reads,
    moodle_feedback,
    moodle_file,
    moodle_reads,
    moodle_worksheet,
)
from helpers.submissions import ACCUMULATE, CLIP, FIRST, WORDS, handed_in

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course
from autograders.nbgrader.database import open_gradebook
from autograders.questions.question import QUESTIONS
from autograders.tables import read_table

pytestmark = pytest.mark.slow

GUIDE = ROOT / "autograders" / "guide"
TERM = ("first-week", "each-assignment", "end-of-term", "moving-machines", "privacy")
NAMED = {"ada": "Ada Lovelace", "zoe": "Zoë O'Brien", "late": "Søren van der Berg", "wrong-file": "李 小龍"}
NAMED |= {"absent": "Grace Hopper", "again": "Alan Turing"}
PEOPLE = [Person(student, name, 101 + number) for number, (student, name) in enumerate(NAMED.items())]
PEOPLE += [Person(f"s{number:02}", f"Student Number{number:02}", 200 + number) for number in range(24)]
BY_ID = {person.id: person for person in PEOPLE}
COLUMN = "03a: training recipe (4711)"
ANSWERS = [
    {ACCUMULATE: "right_weighted", CLIP: "right_loops"},
    {ACCUMULATE: "wrong_divide_by_k", CLIP: "right_concatenate"},
    {ACCUMULATE: "right_weighted", CLIP: "wrong_per_parameter"},
]
BY_HAND = 1.25


@dataclass
class Expected:
    """What a student's row must say, by what is known of the student alone."""

    state: str = "graded"
    score: float | None = None


def declared(answers: Mapping[str, str]) -> float:
    """The points that the bank declares for the answers."""
    bank = {(question, answer.name): answer.points for question in answers for answer in QUESTIONS[question].answers()}
    return float(sum(bank[pair] for pair in answers.items()))


class Term:
    """A course of the test's own, thirty students, and what the tables must say of them."""

    def __init__(self, course: Course, folder: Path) -> None:
        self.course, self.folder = course, folder
        self.expected = {person.id: Expected("missing") for person in PEOPLE}
        self.graded_by_hand: set[str] = set()

    def notebook(self, student: str, answers: Mapping[str, str]) -> bytes:
        """A notebook as the student hands it in, and the row that it must lead to."""
        self.expected[student] = Expected("graded", declared(answers))
        return json.dumps(handed_in(self.course, answers)).encode()

    def hand_in(self) -> None:
        """Twelve in Canvas, eight in Moodle, six by mail and three in nbgrader's folders; one hands in nothing."""
        handing = [person for person in PEOPLE if person.id != "absent"]
        content = {p.id: self.notebook(p.id, ANSWERS[number % 3]) for number, p in enumerate(handing)}
        content["wrong-file"], self.expected["wrong-file"] = b"%PDF-1.7", Expected("unreadable")
        self.expected["late"] = Expected("late", 0.0)
        self.expected["ada"] = Expected("late", 0.0)
        canvas, moodle, mail, folders = handing[:12], handing[12:20], handing[20:26], handing[26:]
        self.canvas_ids, self.moodle_ids = {p.id for p in canvas}, {p.id for p in moodle}
        self.zip("canvas.zip", {self.canvas_name(p, 900 + n): content[p.id] for n, p in enumerate(canvas)})
        self.zip("moodle.zip", {moodle_file(p, f"{FIRST}.ipynb"): content[p.id] for p in moodle})
        for person in mail:
            manifest = {"format": 1, "id": person.id, "name": person.name, "notebooks": {FIRST: "v"}}
            manifest["submitted"] = "2026-02-27 10:00:00 UTC"
            packed = {"manifest.json": json.dumps(manifest).encode(), f"{FIRST}.ipynb": content[person.id]}
            self.zip(f"by-mail/submission-{person.id}.zip", packed)
        for person in folders:
            path = self.folder / "nbgrader-exchange" / person.id / FIRST / f"{FIRST}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_bytes(content[person.id])

    @staticmethod
    def canvas_name(person: Person, attachment: int) -> str:
        ending = "pdf" if person.id == "wrong-file" else "ipynb"
        return canvas_file(person, attachment, f"{FIRST}.{ending}", late=person.id in ("late", "ada"))

    def zip(self, name: str, files: Mapping[str, bytes]) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for each, content in files.items():
                archive.writestr(each, content)

    def give_points(self) -> None:
        """A grader's work in the formgrader: the same for every text that waits."""
        with open_gradebook(self.course) as gradebook:
            for submission in gradebook.assignment_submissions(FIRST):
                grade = gradebook.find_grade(WORDS, FIRST, FIRST, submission.student.id)
                if grade.needs_manual_grade:
                    grade.manual_score, grade.needs_manual_grade = BY_HAND, False
                    self.graded_by_hand.add(submission.student.id)
            gradebook.db.commit()
        for student in self.graded_by_hand - {"late", "ada"}:
            given = self.expected[student].score
            self.expected[student].score = (given or 0.0) + BY_HAND

    def more_time(self) -> None:
        """What `extend ada` must lead to, in time with the mark of Canvas gone."""
        self.expected["ada"] = Expected("graded", declared(ANSWERS[0]) + BY_HAND)

    def hand_in_again(self) -> None:
        """A better notebook with the same text, as Moodle's only file this time."""
        better = self.notebook("again", ANSWERS[0])
        self.expected["again"].score = declared(ANSWERS[0]) + BY_HAND
        self.zip("second.zip", {canvas_file(BY_ID["again"], 990, f"{FIRST}.ipynb"): better})

    def check_tables(self) -> None:
        """Every row of grades.csv, and the wide table where it was written."""
        written = {row["student"]: row for row in read_table(self.course.grades) if row["assignment"] == FIRST}
        assert written.keys() == self.expected.keys()
        for student, expected in self.expected.items():
            row = written[student]
            score = float(row["score"]) if row["score"] else None
            assert (row["state"], score) == (expected.state, expected.score), (student, row)
        wide = self.course.root / "grades-wide.csv"
        if wide.exists():
            assert {row["student"]: row[FIRST] for row in read_table(wide)} == {
                student: row["score"] for student, row in written.items()
            }

    def scores(self) -> dict[int, float]:
        return {BY_ID[s].number: each.score for s, each in self.expected.items() if each.score is not None}

    def check_canvas(self) -> None:
        upload = canvas_reads((self.course.root / "export" / "canvas.csv").read_text("utf-8"))
        assert {number: float(cells[COLUMN]) for number, cells in upload.items()} == self.scores()
        pages = canvas_feedback(self.course.root / "export" / "canvas-feedback.zip")
        assert pages.keys() >= {BY_ID[student].number for student in self.canvas_ids - {"wrong-file", "again"}}

    def check_moodle(self) -> None:
        upload = moodle_reads((self.course.root / "export" / f"moodle-{FIRST}.csv").read_text("utf-8"))
        assert {number: float(grade) for number, grade in upload.items() if grade} == self.scores()
        pages = moodle_feedback(self.course.root / "export" / f"moodle-feedback-{FIRST}.zip")
        assert pages.keys() >= {BY_ID[student].number for student in self.moodle_ids}

    def check_forgotten(self) -> None:
        del self.expected["zoe"]
        assert not list(self.course.root.rglob("zoe*"))

    def check_restored(self) -> None:
        other = Course(self.folder / "grading-on-the-new-machine")
        for name in ("grades.csv", "questions.csv", "secret"):
            assert (other.root / name).read_bytes() == (self.course.root / name).read_bytes()


def commands(page: str) -> list[str]:
    """What stands in the shell blocks of a page, a command a line."""
    text = (GUIDE / f"{page}.md").read_text("utf-8")
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines() if line]


def due_dates_of(page: str) -> str:
    (table,) = re.findall(r"```csv\n(.*?)```", (GUIDE / f"{page}.md").read_text("utf-8"), re.DOTALL)
    return str(table)


@pytest.fixture
def term(released: Course, shorter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Term:
    """The folder that the pages speak of, with the class's export, on the notebooks that most tests use."""
    course = copy_course(released, tmp_path / "grading")
    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setenv("LECTURE_COURSE", str(course.root))
    monkeypatch.chdir(tmp_path)
    maximum = f"{sum(QUESTIONS[name].points for name in (ACCUMULATE, CLIP)) + 2:.2f}"
    (tmp_path / "canvas.csv").write_text(canvas_gradebook(PEOPLE, [COLUMN], maximum=maximum), "utf-8")
    (tmp_path / "worksheet.csv").write_text(moodle_worksheet(PEOPLE, maximum=maximum), "utf-8")
    return Term(course, tmp_path)


def test_a_term_by_the_commands_of_the_guide(
    term: Term, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: dict[str, Callable[[], object]] = {
        "collect canvas.zip": term.hand_in,
        "collect second.zip": term.hand_in_again,
    }
    after: dict[str, Callable[[], object]] = {
        "extend ada": term.more_time,
        f"export --canvas canvas.csv --assignment {FIRST}": term.check_canvas,
        f"export --moodle worksheet.csv --assignment {FIRST}": term.check_moodle,
        "gradebook --course": term.check_restored,
        "forget zoe --yes": term.check_forgotten,
    }
    run: list[str] = []
    for page in TERM:
        for line in commands(page):
            program, *arguments = shlex.split(line, comments=True)
            assert program == "autograde"
            command = " ".join(arguments)
            for name, act in before.items():
                if command.startswith(name):
                    act()
            if command in ("release", "release --replace"):
                arguments.append("--skip-verify")  # test_release.py verifies
            monkeypatch.setattr("sys.stdin", io.StringIO("a long walk\n" * 2))
            code = main(arguments)
            told = capsys.readouterr()
            allowed = {"grade": (0, 3), "gradebook": (0, 3), "doctor": (0, 1), "collect": (0, 3)}
            assert code in allowed.get(arguments[0], (0,)), (line, told.err, told.out)
            if command == "release":
                (term.course.root / "assignments.csv").write_text(due_dates_of("first-week"), "utf-8")
            if command == "grade" and not term.graded_by_hand:
                term.give_points()
            for name, act in after.items():
                if command.startswith(name) and "--dry-run" not in command:
                    act()
            if command in ("gradebook", "gradebook --wide"):
                term.check_tables()
            run.append(arguments[0])
    assert {"release", "roster", "extend", "export", "regrade", "forget", "backup", "restore"} <= set(run)
    assert len(term.graded_by_hand) == 28


def test_every_page_of_the_guide_is_played_and_linked() -> None:
    pages = {path.stem for path in GUIDE.glob("*.md")}
    explained = {"publish", "canvas-and-moodle", "grading-runs", "scores-and-sandbox", "how-a-verdict-is-reached"}
    authors = {"another-course", "notebooks-and-questions", "answer-bank", "answer-tables"}
    front_page = {"how-well-it-works", "learning-alone"}
    assert pages == {*TERM, *explained, *authors, *front_page, "what-is-learned", "rubrics"}
    readme = (GUIDE.parent / "README.md").read_text("utf-8")
    assert all(f"](guide/{page}.md)" in readme for page in pages)


def test_a_row_that_differs_is_noticed(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail."""
    assert main(["roster", "canvas.csv"]) == 0
    assert main(["gradebook"]) == 0
    term.check_tables()
    term.expected["ada"] = replace(term.expected["ada"], score=1.0)
    with pytest.raises(AssertionError, match="ada"):
        term.check_tables()
