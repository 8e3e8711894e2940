"""nbgrader's formgrader on our gradebook: questions in words are graded there, and grading again leaves that alone."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, ROOT, MixedClass, autograde, copy_course
from helpers.browser import LAPTOP, PATIENCE, chromium, jupyterlab
from helpers.server_process import TOKEN

from autograders.course import Course
from autograders.grading.job import Packer
from autograders.results.rows import rows
from autograders.tables import read_table

pytestmark = pytest.mark.slow

Ask = Callable[..., Any]

if importlib.util.find_spec("jupyter_server") is None:
    pytest.skip("jupyter_server is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def course(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The graded mixed class, for these tests."""
    return copy_course(mixed_graded.course, tmp_path_factory.mktemp("formgrader") / "course")


@pytest.fixture(scope="module")
def server(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab with formgrader on it: its address."""
    settings = tmp_path_factory.mktemp("settings")
    with jupyterlab(course.root.parent, settings, cwd=ROOT, LECTURE_COURSE=str(course.root)) as address:
        yield address


@pytest.fixture(scope="module")
def ask(server: str) -> Ask:
    return asking(server)


def asking(server: str) -> Ask:
    """Asks formgrader: `ask("api/…")`, or with `method` and `data`."""

    def ask(path: str, method: str = "GET", data: Any = None) -> Any:
        request = urllib.request.Request(
            f"{server}formgrader/{path}",
            method=method,
            data=None if data is None else json.dumps(data).encode(),
            headers={"Authorization": f"token {TOKEN}"},
        )
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.startswith("api/") else text

    for _ in range(600):  # it says where it is a moment before it answers there
        with contextlib.suppress(urllib.error.URLError):
            ask("api/status")
            break
        threading.Event().wait(0.1)
    return ask


def notebook_id(ask: Ask, student: str) -> str:
    (found,) = [one for one in ask(f"api/submitted_notebooks/{MIXED}/{MIXED}") if one["student"] == student]
    return str(found["id"])


def test_formgrader_opens_on_the_gradebook(ask: Ask) -> None:
    (assignment,) = [one for one in ask("api/assignments") if one["name"] == MIXED]
    assert assignment["num_submissions"] == 6
    found = {one["student"]: one for one in ask(f"api/submissions/{MIXED}")}
    assert found["right"]["score"] == 16
    assert found["wrong"]["code_score"] == 8
    assert found["right"]["needs_manual_grade"]
    assert not found["truncated"]["autograded"]
    page = ask(f"submissions/{notebook_id(ask, 'wrong')}/")
    assert "03a-clip: 5 of 8 points" in page


def test_a_question_graded_there_counts_and_survives_every_kind_of_regrade(ask: Ask, course: Course) -> None:
    submission = notebook_id(ask, "wrong")
    (grade,) = [one for one in ask(f"api/grades?submission_id={submission}") if one["name"] == "03a-p5"]
    (comment,) = [one for one in ask(f"api/comments?submission_id={submission}") if one["name"] == "03a-p5"]
    assert grade["needs_manual_grade"]
    ask(f"api/grade/{grade['id']}", "PUT", {"manual_score": 1.25, "extra_credit": None})
    ask(f"api/comment/{comment['id']}", "PUT", {"manual_comment": "A good example, Zoë."})

    def check() -> None:
        (row,) = [row for row in rows(course, [MIXED]) if row.student == "wrong"]
        assert (row.score, row.auto_score, row.by_hand_open) == (9.25, 8, 0)
        (grade,) = [one for one in ask(f"api/grades?submission_id={submission}") if one["name"] == "03a-p5"]
        assert (grade["manual_score"], grade["needs_manual_grade"]) == (1.25, False)

    check()
    assert autograde("regrade", "--write", "--assignment", MIXED, course=course).code == 0
    check()
    again = autograde("grade", "--force", "--quiet", "--assignment", MIXED, "--student", "wrong", course=course)
    assert again.code == 0, again.err
    check()
    answer = ask(f"api/submission/{MIXED}/wrong/autograde", "POST")  # the button in formgrader
    assert answer["success"], answer
    check()
    answer = ask(f"api/assignment/{MIXED}/wrong/generate_feedback", "POST")
    assert answer["success"], answer
    page = course.notebook("feedback", MIXED, "wrong").with_suffix(".html").read_text("utf-8")
    assert "A good example, Zoë." in page
    assert "9.25" in page
    assert "<strong>graded</strong>" in page


def test_who_graded_what_is_in_the_table(course: Course, tmp_path: Path) -> None:
    """Two people with a JupyterLab each on one course; the second changes a score of the first."""

    def points_by(grader: str, points: dict[str, float], settings: Path) -> None:
        settings.mkdir()
        environment = {"LECTURE_COURSE": str(course.root), "LECTURE_GRADER": grader}
        with jupyterlab(course.root.parent, settings, cwd=ROOT, **environment) as address:
            ask = asking(address)
            for student, score in points.items():
                grades = ask(f"api/grades?submission_id={notebook_id(ask, student)}")
                (grade,) = [grade for grade in grades if grade["name"] == "03a-p5"]
                ask(f"api/grade/{grade['id']}", "PUT", {"manual_score": score, "extra_credit": None})

    points_by("Ada", {"right": 2.0, "wrong": 0.5, "killer": 1.0}, tmp_path / "ada")
    points_by("=Zoë", {"wrong": 0.75, "killer": 1.0}, tmp_path / "zoe")
    autograde("gradebook", "--assignment", MIXED, course=course)
    by_hand = {row["student"]: row for row in read_table(course.root / "questions.csv") if row["question"] == "03a-p5"}
    given = {student: (row["points"], row["graded by"]) for student, row in by_hand.items() if row["graded by"]}
    # What she saw and left as it was stays Ada's.
    assert given == {"right": ("2.0", "Ada"), "wrong": ("0.75", "=Zoë"), "killer": ("1.0", "Ada")}
    # A grading run changes no name, and nothing of it leaves with a task or stays of a forgotten student.
    assert autograde("grade", "--force", "--quiet", "--student", "wrong", course=course).code == 0
    autograde("gradebook", "--assignment", MIXED, course=course)
    again = {row["student"]: row for row in read_table(course.root / "questions.csv") if row["question"] == "03a-p5"}
    assert again == by_hand
    task = Packer(course).pack(MIXED, "wrong")
    assert task is not None
    assert b"=Zo" not in task.course["gradebook.db"]
    assert autograde("forget", "killer", "--yes", course=course).code == 0
    assert b"killer" not in course.database.read_bytes()


def test_a_graded_submission_is_shown_in_jupyterlab(server: str, ask: Ask) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport=LAPTOP)
        page.set_default_timeout(PATIENCE)
        page.goto(f"{server}lab?token={TOKEN}")
        page.wait_for_function("() => window.jupyterapp?.commands.hasCommand('nbgrader:open-formgrader')")
        page.evaluate(
            """() => jupyterapp.restored
                .then(() => jupyterapp.commands.execute('nbgrader:open-formgrader')).then(() => null)"""
        )
        formgrader = page.frame_locator("iframe")
        formgrader.get_by_text(MIXED).first.wait_for()
        page.goto(f"{server}formgrader/submissions/{notebook_id(ask, 'wrong')}/?token={TOKEN}")
        page.get_by_text("03a-clip: 5 of 8 points").first.wait_for()
