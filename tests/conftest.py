"""Shared fixtures: a released course, and classes graded once for all tests that look at the result."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from helpers import approximate_numbers, command_line
from helpers.command_line import Finished
from nbformat import NotebookNode

from autograders import notebooks
from autograders.course import WITHOUT_SANDBOX_VARIABLE, Course
from autograders.nbgrader.scores import question_of
from autograders.notebooks import assignments, number_of
from autograders.questions.question import answer_to
from autograders.questions.seeds import create_secret
from autograders.questions.simulate import simulate
from autograders.questions.verdict_cache import VerdictCache
from autograders.release.release import release
from autograders.sandbox.jail import why_no_walls

# One thread a process: outputs and scores do not depend on the machine, and processes do not wait for each other.
# Notebooks are built with two (autograders/notebooks.py), so what nbval compares has to hold for both.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)  # for this process, which may have imported it already

# Where Python is told to write no bytecode, each of the hundreds of processes would compile this package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Hidden inputs that no run has seen before; with this variable a failure can be repeated.
SECRET_VARIABLE = "LECTURE_TEST_SECRET"
os.environ.setdefault(SECRET_VARIABLE, secrets.token_hex(32))

# Where this machine has no sandbox, the tests of everything else still run, with limits alone.
if why_no_walls() is not None:
    os.environ[WITHOUT_SANDBOX_VARIABLE] = "1"

approximate_numbers.install()

ROOT = Path(__file__).resolve().parents[1]
HELPERS = ROOT / "tests" / "helpers"
Once = Callable[[str, Callable[[Path], object]], Path]
"""Name of a folder, and what fills it -> the folder."""


LONG = (
    "tests/browser/test_browser.py",
    "tests/autograders/sandbox/test_attacks.py",
    "notebooks/",
    "tests/autograders/grading/test_runner.py",
    "tests/autograders/grading/test_grading.py",
    "tests/autograders/results/test_report.py",
    "tests/autograders/grading/test_killed_grader.py",
    "tests/autograders/release/",
    "tests/autograders/sandbox/",
    "tests/autograders/grading/",
)
"""What takes minutes comes first, so that no process is left alone with it at the end."""
DIVIDED = (
    "tests/autograders/questions/test_answer_bank.py",
    "tests/autograders/questions/test_descriptions.py",
    "tests/autograders/questions/test_verify.py",
    "tests/lecture_lib/debugging/",
    "tests/lecture_lib/commands/test_debug.py",
)
"""Tests that share nothing come last, and each goes to the process that is free."""
TOGETHER = ("tests/autograders/grading/test_grading.py", "tests/autograders/results/test_report.py")
"""Files that look at a class which one of them grades again: one process has it."""


def _turn(item: pytest.Item) -> int:
    """When a test runs, among the others of its process."""
    if item.nodeid.startswith(DIVIDED):
        return len(LONG) + 1
    return next((turn for turn, place in enumerate(LONG) if item.nodeid.startswith(place)), len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, the tests of a file stay together unless they share nothing."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrTest(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(DIVIDED):
                return nodeid
            file = super()._split_scope(nodeid)
            return TOGETHER[0] if file in TOGETHER else file

    config.option.loadscopereorder = False  # in the order of `_turn`
    return ByFileOrTest(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice as many processes as cores with `-n auto`: tests of limits, kernels and pages wait half of their time."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Each test draws the same weights, whichever tests its process ran before."""
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """So does what follows a fixture that another test may have paid for."""
    torch.manual_seed(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="with the long repetitions")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="long: in make test-full"))


def pytest_report_header() -> str:
    return f"hidden inputs of this run: {SECRET_VARIABLE}={os.environ[SECRET_VARIABLE]}"


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """matplotlib warns at the twenty-first open figure of a process, whichever test has opened the others."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def fresh_secret() -> bytes:
    """The secret of this run, from which some tests draw hidden inputs."""
    return bytes.fromhex(os.environ[SECRET_VARIABLE])


@pytest.fixture(scope="session")
def repetitions(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Chooses between a count for `make test` and one for `make test-full`."""
    full = request.config.getoption("--full")
    return lambda short, long: long if full else short


@pytest.fixture(scope="session")
def kept_verdicts(request: pytest.FixtureRequest) -> VerdictCache:
    """What earlier runs found out on inputs that never change; nothing in `make test-full`."""
    return VerdictCache(None) if request.config.getoption("--full") else VerdictCache()


@pytest.fixture(scope="session")
def once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes a folder once in a run: the first process that asks for it does, the others wait. Tests only read it."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if hasattr(request.config, "workerinput") else place) / "made-once"
    place.mkdir(exist_ok=True)

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        made, finished = place / name, place / f"{name}.finished"
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if not finished.exists():
                    shutil.rmtree(made, ignore_errors=True)  # of a process that failed
                    made.mkdir()
                    make(made)
                    finished.touch()
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)
        return made

    return folder


KEPT = ("03a-accumulate", "03a-clip", "03a-p5", "03b-inspect", "03b-baseline", "03b-p4")
"""The questions of the course that most tests grade: all of both notebooks would take minutes."""


@pytest.fixture(scope="session")
def shorter(once: Once) -> Path:
    """The notebooks that ask the questions of KEPT, with these alone, in the place of `notebooks/`."""

    def shorten(folder: Path) -> None:
        for name in assignments():
            nb = notebooks.read(notebooks.master_path(name))
            nb.cells = [cell for cell in nb.cells if _is_kept(cell)]
            if not any("nbgrader" in cell.metadata for cell in nb.cells):
                continue
            (folder / f"{name}.py").touch()
            (folder / name).mkdir()
            nbformat.write(nb, folder / name / f"{name}.ipynb")

    return once("notebooks", shorten)


@pytest.fixture(scope="session")
def released(shorter: Path, once: Once, fresh_secret: bytes) -> Course:
    """A course folder with the shorter notebooks released; tests copy it and leave it as it is."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(notebooks, "NOTEBOOKS", shorter)
            release(course_of_this_run(folder, fresh_secret), kept_assignments(), verify=False)

    return Course(once("released", make) / "course")


@pytest.fixture(scope="session")
def released_in_full(once: Once, fresh_secret: bytes) -> Course:
    """All notebooks released as they are, with every question; tests leave it as it is."""

    def make(folder: Path) -> None:
        release(course_of_this_run(folder, fresh_secret), assignments(), verify=False)

    return Course(once("released-in-full", make) / "course")


def course_of_this_run(folder: Path, secret: bytes) -> Course:
    """A folder that draws its hidden inputs from the secret of this run, so that a failure can be repeated."""
    course = Course(folder / "course")
    course.root.mkdir()
    create_secret(course.secret, secret)
    return course


def kept_assignments() -> list[str]:
    """The notebooks of the shorter course, which ask the questions of KEPT."""
    return [name for name in assignments() if any(question.startswith(f"{number_of(name)}-") for question in KEPT)]


def _is_kept(cell: NotebookNode) -> bool:
    return question_of(cell.metadata.get("nbgrader", {}).get("grade_id", KEPT[0])) in KEPT


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    """A released course of the test's own."""
    return copy_course(released, tmp_path / "course")


def copy_course(course: Course, to: Path) -> Course:
    """Another folder with the same course: the same secret, releases and database."""
    shutil.copytree(course.root, to)
    return Course(to)


def autograde(*arguments: str | Path, course: Course | None = None) -> Finished:
    """Run `autograde` as an instructor would, in a process of its own."""
    given = list(map(str, arguments))
    if arguments[0] == "grade" and "--workers" not in arguments:
        given += ["--workers", "1"]  # pytest's own processes have the cores already
    if course is not None:
        given += ["--course", str(course.root)]
    return command_line.run(given)


def torchrun(count: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in several processes that train together."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )


@dataclass(frozen=True)
class GradedClass:
    """A simulated class with three broken submissions, after `autograde grade`."""

    course: Course
    grading: Finished
    broken: dict[str, str]


@pytest.fixture(scope="session")
def class_size(repetitions: Callable[[int, int], int]) -> int:
    """In `make test-full` every answer of the bank is handed in."""
    return repetitions(8, 14)


@pytest.fixture(scope="session")
def simulated(released: Course, class_size: int, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class that has handed in both notebooks."""
    course = copy_course(released, tmp_path_factory.mktemp("simulated") / "course")
    simulate(course, kept_assignments(), class_size)
    return course


@pytest.fixture(scope="session")
def graded(simulated: Course, tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    """The class graded once by the command line, beside three submissions that cannot be."""
    course = copy_course(simulated, tmp_path_factory.mktemp("graded") / "course")
    whole = course.notebook("submitted", kept_assignments()[0], "ada-01").read_bytes()
    broken = {"truncated": whole[: len(whole) // 2], "web-page": b"<!DOCTYPE html><html>"}
    for student, content in broken.items():
        path = course.notebook("submitted", kept_assignments()[0], student)
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    empty = course.step("submitted", "no-notebook", kept_assignments()[0])
    empty.mkdir(parents=True)
    (empty / "answers.txt").write_bytes(whole)
    grading = autograde("grade", "--quiet", course=course)
    reasons = {"truncated": "not JSON", "web-page": "it is an HTML page", "no-notebook": "no notebook"}
    return GradedClass(course, grading, reasons)


@pytest.fixture
def nbgrader_environment() -> dict[str, str]:
    """The environment in which nbgrader's own commands find theirs."""
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]}


MIXED = "03a-training-recipe"
FORGED = """
import autograders.probes
honest = autograders.probes.probe
def twice(*arguments):
    honest(*arguments), honest(*arguments)
autograders.probes.probe = twice
"""


@pytest.fixture(scope="session")
def mixed(released: Course, once: Once) -> Course:
    """Six submissions of one notebook that end in different states, and a student of the roster without one."""
    return Course(once("mixed", lambda folder: hand_in_mixed(copy_course(released, folder / "course"))) / "course")


def hand_in_mixed(course: Course) -> None:
    """Hand in the six submissions."""
    weighted, divided, together, each, by_heart = (
        answer_to(*named)
        for named in (
            ("03a-accumulate", "right_weighted"),
            ("03a-accumulate", "wrong_divide_by_k"),
            ("03a-clip", "right_concatenate"),
            ("03a-clip", "wrong_per_parameter"),
            ("03a-p5", "full"),
        )
    )
    answers = {
        "right": (weighted, together, by_heart),
        "wrong": (divided, each, by_heart),
        "syntax": (weighted, "def clip_by_global_norm(:", None),
        "killer": (weighted, "import os\nos._exit(1)", by_heart),
        "forger": (weighted, together, None),
    }
    for student, (accumulate, clip, words) in answers.items():
        nb = notebooks.read(course.notebook("release", MIXED))
        for cell in nb.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = {"03a-accumulate": accumulate, "03a-clip": clip, "03a-p5": words}.get(name) or cell.source
        if student == "forger":
            nb.cells.insert(2, nbformat.v4.new_code_cell(FORGED))
        path = course.notebook("submitted", MIXED, student)
        path.parent.mkdir(parents=True)
        nbformat.write(nb, path)
    cut = course.notebook("submitted", MIXED, "truncated")
    cut.parent.mkdir(parents=True)
    cut.write_bytes(course.notebook("submitted", MIXED, "right").read_bytes()[:2000])
    course.roster.write_text("id\n" + "\n".join([*answers, "truncated", "absent"]) + "\n", "utf-8")


@dataclass(frozen=True)
class MixedClass:
    """The mixed class after `autograde grade` and `autograde gradebook`."""

    course: Course
    grading: Finished


@pytest.fixture(scope="session")
def mixed_graded(mixed: Course, once: Once) -> MixedClass:
    """The mixed class graded once by the command line; tests leave it as it is."""

    def make(folder: Path) -> None:
        course = copy_course(mixed, folder / "course")
        grading = autograde("grade", "--quiet", course=course)
        autograde("gradebook", "--assignment", MIXED, course=course)
        (folder / "grading.json").write_text(json.dumps(asdict(grading)), "utf-8")

    folder = once("mixed-graded", make)
    return MixedClass(Course(folder / "course"), Finished(**json.loads((folder / "grading.json").read_text("utf-8"))))
