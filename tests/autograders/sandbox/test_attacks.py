"""Hostile and unlucky submissions: each gains nothing, costs nobody else anything, keeps what it earned, says why."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT, copy_course
from helpers.attacks import ATTACKS, FIRST, LATE_CHILD, REPEATED, RIGHT, SECOND, Attack, write_special
from helpers.spy_cell import SPY, WANTED
from traitlets.config import Config

from autograders import notebooks
from autograders.course import Course
from autograders.grading.grade import grade
from autograders.grading.journal import Record, read_record
from autograders.grading.states import State
from autograders.nbgrader import configuration
from autograders.questions.question import answer_to
from autograders.results.known_scores import question_points
from autograders.sandbox.jail import why_no_walls

ASSIGNMENT = "03a-training-recipe"
CLIP = answer_to(SECOND, "right_concatenate")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_no_walls() is not None, reason=f"the attacks would hit this machine: {why_no_walls()}"),
]


@dataclass(frozen=True)
class Attacked:
    """The course after every attack was graded, one student each."""

    course: Course
    before: dict[Path, bytes]

    def record(self, name: str) -> Record:
        found = read_record(self.course, ASSIGNMENT, student(name))
        assert found is not None
        return found


def student(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def hand_in(course: Course, name: str, attack: Attack) -> None:
    nb = notebooks.read(course.notebook("release", ASSIGNMENT))
    for cell in nb.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = {FIRST: attack.answer, SECOND: CLIP}.get(grade_id, cell.source)
    if attack.own_cell:
        nb.cells.insert(1, nbformat.v4.new_code_cell(attack.own_cell))
    path = course.notebook("submitted", ASSIGNMENT, student(name))
    path.parent.mkdir(parents=True)
    nbformat.write(nb, path)
    for file, content in attack.files.items():
        (path.parent / file).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / file).write_text(content, "utf-8")
    if attack.special:
        write_special(path.parent, course.secret)


def with_short_limits(patch: pytest.MonkeyPatch) -> None:
    """Seconds instead of half minutes, so that what hangs ends soon."""
    original = configuration.configuration

    def shorter(course: Course) -> Config:
        made = original(course)
        made.ProbedExecute.cell_seconds = 5.0
        made.ProbedExecute.wall_factor = 3.0
        made.ProbedExecute.memory_mb = 1500.0
        return made

    patch.setattr(configuration, "configuration", shorter)


@pytest.fixture(scope="session")
def attacked(
    released: Course, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Attacked]:
    """Everybody graded in one run, in this process: what hurts the grader hurts the tests."""
    course = copy_course(released, tmp_path_factory.mktemp("attacked") / "course")
    for name, attack in ATTACKS.items():
        if name not in REPEATED or request.config.getoption("--full"):
            hand_in(course, name, attack)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LECTURE_TEST_TOKEN", "a-token-of-the-grader")
        settings = {
            "root": str(course.root), "checkout": str(ROOT), "port": server.getsockname()[1], "home": str(Path.home())
        }  # fmt: skip
        hand_in(course, "spy", Attack(SPY.replace("SETTINGS", repr(json.dumps(settings))) + RIGHT, 8))
        hand_in(course, "zz last", ATTACKS["none"])
        before = {path: path.read_bytes() for path in _kept(course)}
        with_short_limits(patch)
        grade(course, [ASSIGNMENT], progress=False)
    yield Attacked(course, before)
    shutil.rmtree(course.root)


def _kept(course: Course) -> list[Path]:
    """What no submission may change: the secret, the releases, what was handed in."""
    folders = [course.root / name for name in ("source", "release", "submitted")]
    return [course.secret] + [path for folder in folders for path in folder.rglob("*.ipynb") if path.is_file()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name in REPEATED else ()) for name in ATTACKS]
)
def test_an_attack_costs_its_own_question_only_and_says_why(attacked: Attacked, name: str) -> None:
    attack, record = ATTACKS[name], attacked.record(name)
    # Which limit is reached first depends on the machine.
    stopped = (State.GRADED, State.PARTIAL, State.CRASHED, State.OUT_OF_TIME)
    assert record.state in ((attack.state,) if attack.state else stopped), record.reason
    assert record.questions[SECOND]["points"] == 8, record.questions[SECOND]
    points = record.questions[FIRST]["points"]
    assert points == attack.points or (attack.points is None and points in (0, 8)), record.questions[FIRST]
    assert attack.says in record.reason
    in_gradebook = question_points(attacked.course, ASSIGNMENT, student(name))
    assert in_gradebook == {FIRST: points, SECOND: 8}
    if points == 0:
        messages = [part["message"] for part in record.questions[FIRST]["parts"]]
        assert all(messages)
        if attack.state in (State.CRASHED, State.OUT_OF_TIME):
            assert record.questions[FIRST]["incident"] in record.reason


def test_who_comes_after_all_of_them_has_full_points(attacked: Attacked) -> None:
    record = attacked.record("zz last")
    assert (record.state, record.reason, record.notes) == (State.GRADED, "", [])
    assert {question: verdict["points"] for question, verdict in record.questions.items()} == {FIRST: 8, SECOND: 8}


def test_nothing_of_the_instructors_was_changed(attacked: Attacked) -> None:
    assert {path: path.read_bytes() for path in _kept(attacked.course)} == attacked.before


def left_behind(mark: bytes) -> list[bytes]:
    """The commands with `mark` that run under this process or under nobody; another test process has its own."""
    running: dict[int, tuple[int, bytes]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text("utf-8").rsplit(")", 1)[1].split()[1])
            running[int(folder.name)] = parent, (folder / "cmdline").read_bytes()
        except OSError:
            continue
    found = []
    for parent, command in running.values():
        if mark not in command:
            continue
        while parent in running and mark in running[parent][1]:
            parent = running[parent][0]
        if parent in (0, 1, os.getpid()):
            found.append(command)
    return found


def test_no_process_and_no_folder_is_left(attacked: Attacked) -> None:
    assert left_behind(LATE_CHILD.encode()) == []
    assert left_behind(b"/lecture/inside.py") == []
    assert left_behind(b"/lecture/zygote.py") == []


def test_a_process_that_is_left_behind_is_seen() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)", "left-behind-for-a-test"]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        while not left_behind(b"left-behind-for-a-test") and time.monotonic() < deadline:
            time.sleep(0.05)  # the system writes a command's line a moment after it has started
        assert len(left_behind(b"left-behind-for-a-test")) == 1
    finally:
        process.kill()
        process.wait()
    assert left_behind(b"left-behind-for-a-test") == []


def test_a_flood_is_cut_with_a_note(attacked: Attacked) -> None:
    for name in ("floods", "flood without a line's end in an own cell"):
        path = attacked.course.notebook("autograded", ASSIGNMENT, student(name))
        shown = [
            "".join(output.get("text", "") for output in cell.outputs)
            for cell in notebooks.read(path).cells
            if cell.cell_type == "code"
        ]
        assert path.stat().st_size < 3_000_000
        if name != "floods":  # there the judge writes the cell's outputs anew
            assert any("output cut: while grading, a cell shows at most 1,000,000 characters" in text for text in shown)


def test_links_and_pipes_are_left_out_with_a_note_and_copied_nowhere(attacked: Attacked) -> None:
    name = "links and pipes beside the notebook"
    notes = attacked.record(name).notes
    assert sorted(note.split(":")[0] for note in notes) == ["everything", "nowhere", "pipe", "points.txt"]
    secret = attacked.course.secret.read_bytes().strip()
    for step in ("autograded", "feedback"):
        for path in (attacked.course.root / step).rglob("*"):
            assert not (path.is_file() and secret in path.read_bytes()), path


@pytest.mark.parametrize("wanted", WANTED)
def test_a_spy_finds_nothing(attacked: Attacked, wanted: str) -> None:
    path = attacked.course.notebook("autograded", ASSIGNMENT, "spy")
    (cell,) = [
        cell for cell in notebooks.read(path).cells if cell.metadata.get("nbgrader", {}).get("grade_id") == FIRST
    ]
    text = "".join(output.get("text", "") for output in cell.outputs)
    report = json.loads(text.split("REPORT ", 1)[1].splitlines()[0])
    assert report["found"] == "the spy can read what is there"
    assert report[wanted] is None, report[wanted]


def test_the_spys_own_answer_keeps_its_points(attacked: Attacked) -> None:
    assert attacked.record("spy").questions[FIRST]["points"] == 8


def test_what_the_spy_looks_for_is_there_outside(attacked: Attacked) -> None:
    """Else the spy would find nothing because there is nothing."""
    course = attacked.course
    for path in (
        course.secret,
        course.root / "gradebook.db",
        course.root / "journal",
        course.root / "submitted" / "none",
    ):
        assert path.exists()
    assert os.environ.get("PATH")
    assert (ROOT / "autograders/questions/descriptions/clip.py").exists()
