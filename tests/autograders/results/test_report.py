"""The class report: its numbers are those of the tables, nobody is named, and the page needs nothing beside it."""

from __future__ import annotations

import csv
import html.parser
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import MIXED, GradedClass, MixedClass, copy_course, kept_assignments
from helpers.accessibility import page_violations

from autograders.__main__ import main
from autograders.course import Course
from autograders.questions.question import QUESTIONS
from autograders.reasons import Kind, Reason
from autograders.results.class_tables import write_csv
from autograders.results.report import BUCKETS, assignment_report, cut
from autograders.results.report_page import write_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> str:
    to = tmp_path_factory.mktemp("report") / "class.html"
    assert main(["report", "--assignment", MIXED, "--to", str(to), "--course", str(mixed_graded.course.root)]) == 0
    return to.read_text("utf-8")


def test_the_page_can_be_read_by_everybody(page: str, tmp_path: Path) -> None:
    path = tmp_path / "class.html"
    path.write_text(page, "utf-8")
    assert page_violations(path, "light", "dark") == []


def test_the_page_leads_with_what_the_class_misunderstood(page: str) -> None:
    begin, end = page.index("<h3>What the class misunderstood"), page.index("<h3>Scores")
    assert begin < end < page.index("<h3>Questions")
    assert begin == page.index("<h3>")
    leading = page[begin:end]
    assert f"<b>{QUESTIONS['03a-clip'].public.title}</b>" in leading
    assert re.search(r"1 of [2-5]<br>", leading)


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
    assert "http" not in page.replace("http-equiv", "")
    (policy,) = [of["content"] for _, of in reader.tags if of.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in str(policy)
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


def test_every_incident_of_a_class_has_its_kind_and_its_question(mixed_graded: MixedClass) -> None:
    found = assignment_report(mixed_graded.course, MIXED, names=True).incidents
    assert {(incident.state, incident.what, *incident.students) for incident in found} == {
        ("partial", "03a-clip: the test cell stopped with NameError", "syntax"),
        ("crashed", "03a-clip: the kernel died", "killer"),
        ("tampered", "03a-accumulate: 2 observations were published", "forger"),
        ("tampered", "03a-clip: 2 observations were published", "forger"),
        ("unreadable", "not JSON", "truncated"),
    }


OWN, ANSWER = "the student's own cell at position 3", "the answer 03a-clip"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason(Kind.TEST_CELL_STOPPED, "ada", "NameError", "", "q"), "q: the test cell stopped with NameError"),
        (Reason(Kind.OUT_OF_TIME, "out of time: ada", "", "", "03a-clip"), "03a-clip: out of time"),
        (Reason(Kind.KERNEL_DIED, "the kernel died: ada"), "the kernel died"),
        (Reason(Kind.NO_NOTEBOOK, "no notebook 03a.ipynb; the folder holds ada.ipynb"), "no notebook"),
        (Reason(Kind.NOT_JSON, "not JSON (line 3: ada): cut off"), "not JSON"),
        (Reason(Kind.OTHER, "the kernel died: ada was here"), "another incident"),
        (Reason(Kind.OTHER, "ada was here", "", "", "03a-clip"), "03a-clip: another incident"),
        (Reason(Kind.OUT_OF_TIME, "out of time: ada", "", ANSWER, "03a-clip"), "03a-clip: out of time"),
        (Reason(Kind.KERNEL_DIED, "the kernel died: ada", "", OWN), "an own cell: the kernel died"),
        (Reason(Kind.PUBLISHED_TWICE, "3 observations, ada", "3"), "3 observations were published"),
        (Reason(Kind.HALF_A_MERGE_CONFLICT, "it holds half (<<<<<<<): ada"), "it holds half a merge conflict"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reason_is_cut_to_its_kind(reason: Reason, expected: str) -> None:
    assert cut(reason) == expected
    assert cut(Reason.from_record(json.loads(json.dumps(reason.as_record())))) == expected


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.NOTE])
def test_every_kind_has_its_words(kind: Kind) -> None:
    assert "ada" not in cut(Reason(kind, "ada"))


def test_the_numbers_are_those_of_the_tables(graded: GradedClass) -> None:
    course = graded.course
    write_csv(course, kept_assignments())
    with (course.root / "questions.csv").open(encoding="utf-8", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["points"] or row["state"] == "waits for a person"]
    for assignment in kept_assignments():
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
    text = write_report(course, kept_assignments()).read_text("utf-8")
    assert Reader(text).open == []
    assert "No known misconception was seen" in text
