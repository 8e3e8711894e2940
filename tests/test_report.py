"""The class report: its numbers are those of the tables, nobody is named, and the page needs nothing beside it."""

from __future__ import annotations

import csv
import html.parser
from collections import Counter
from pathlib import Path

import pytest
from accessible import page_violations
from conftest import MIXED, GradedClass, MixedClass, copy_course

from autograders.__main__ import main
from autograders.course import Course
from autograders.gradebook import write_csv
from autograders.notebooks import assignments
from autograders.questions import QUESTIONS
from autograders.report import BUCKETS, assignment_report, kind, write_report


@pytest.fixture(scope="module")
def page(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> str:
    to = tmp_path_factory.mktemp("report") / "class.html"
    assert main(["report", "--assignment", MIXED, "--to", str(to), "--course", str(mixed_graded.course.root)]) == 0
    return to.read_text("utf-8")


def test_the_page_can_be_read_by_everybody(page: str, tmp_path: Path) -> None:
    path = tmp_path / "class.html"
    path.write_text(page, "utf-8")
    assert page_violations(path, "light", "dark") == []


class Reader(html.parser.HTMLParser):
    """Every tag with its attributes, and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "line", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_beside_it(page: str) -> None:
    reader = Reader(page)
    assert reader.open == []
    for tag, attributes in reader.tags:
        assert tag not in ("script", "link", "img", "iframe")
        assert not {"src", "href"} & set(attributes)
    assert "http" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_figures_say_their_numbers_in_words(page: str) -> None:
    labels = [attributes["aria-label"] for tag, attributes in Reader(page).tags if tag == "svg"]
    assert labels[0] == (
        "Students by score: 0 to 10 percent 1, 10 to 20 percent 0, 20 to 30 percent 0, 30 to 40 percent 0, "
        "40 to 50 percent 3, 50 to 60 percent 0, 60 to 70 percent 0, 70 to 80 percent 0, 80 to 90 percent 1, "
        "90 to 100 percent 0"
    )
    assert labels[1] == "03a-accumulate: full points 3, less than half 1, no verdict 1"


def test_nobody_is_named_and_no_student_is_quoted(mixed_graded: MixedClass, tmp_path: Path) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    names = {"right": "ada-lovelace", "syntax": "O'Brien, Zoë +1"}
    for step in ("submitted", "autograded"):
        for student, name in names.items():
            course.step(step, student).rename(course.step(step, name))
    text = write_report(course, [MIXED]).read_text("utf-8")
    for told in ("ada-lovelace", "Brien", "is not defined", "clip_by_global_norm", "killer", "truncated"):
        assert told not in text, told
    named = write_report(course, [MIXED], names=True).read_text("utf-8")
    assert "ada-lovelace" in named
    assert "killer" in named
    assert "O&#39;Brien, Zoë +1" in named


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("03a-clip: the test cell stopped with NameError: 'ada'", "the test cell stopped with NameError"),
        ("03a-clip: out of time: the test cell did not end", "out of time"),
        ("the kernel died: Kernel died", "the kernel died"),
        ("no notebook 03a.ipynb; the folder holds ada.ipynb", "no notebook"),
        ("not JSON (line 3: x): cut off", "not JSON"),
        ("ada was here", "another incident"),
        ("03a-clip: ada was here", "another incident"),
        ("the answer 03a-clip: out of time: the cell used more than 30 s", "03a-clip: out of time"),
        ("the hidden cases of 03a-clip: the kernel was stopped: memory", "03a-clip: the kernel was stopped"),
        ("the student's own cell at position 3: the kernel died: x", "an own cell: the kernel died"),
        ("it holds half a merge conflict (<<<<<<<): ada", "it holds half a merge conflict"),
    ],
)  # fmt: skip
def test_a_reason_is_cut_to_its_kind(reason: str, expected: str) -> None:
    question = "03a-clip: " if reason.startswith("03a-clip") else ""
    assert kind(reason) == question + expected


def test_the_numbers_are_those_of_the_tables(graded: GradedClass) -> None:
    course = graded.course
    write_csv(course, assignments())
    with (course.root / "questions.csv").open(encoding="utf-8", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["points"] or row["state"] == "waits for a person"]
    for assignment in assignments():
        report = assignment_report(course, assignment, names=False)
        of = [row for row in table if row["assignment"] == assignment]
        made = Counter(
            (row["question"], row["misconception"]) for row in of if row["misconception"] not in ("", "unanswered")
        )
        assert {(one.question, one.id): one.students for one in report.misconceptions} == made
        ranks = [one.students for one in report.misconceptions]
        assert ranks == sorted(ranks, reverse=True)
        for one in report.misconceptions:
            lost = [
                float(row["maximum"]) - float(row["points"])
                for row in of
                if (row["question"], row["misconception"]) == (one.question, one.id)
            ]
            assert one.points_lost == sum(lost)
            assert one.meaning == QUESTIONS[one.question].public.misconceptions[one.id].what
        for question in report.questions:
            rows = [row for row in of if row["question"] == question.id]
            assert sum(question.buckets.values()) == len(rows)
            full = sum(row["points"] == row["maximum"] for row in rows)
            assert question.buckets["full points"] == full
            assert set(question.buckets) == set(BUCKETS)
        assert sum(report.histogram) == report.scored


def test_a_class_that_handed_in_nothing_has_a_page(course: Course) -> None:
    text = write_report(course, assignments()).read_text("utf-8")
    assert Reader(text).open == []
    assert "No known misconception was seen" in text
