"""What the sandbox rests on: who is blamed for a dead kernel, what is refused, what the doctor says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT, autograde, copy_course
from helpers.attacks import FIRST, RIGHT, SECOND

from autograders import notebooks
from autograders.course import WITHOUT_SANDBOX_VARIABLE, Course
from autograders.grading.journal import read_record
from autograders.grading.states import State
from autograders.reasons import Kind, Reason
from autograders.results.known_scores import question_points
from autograders.sandbox import watch
from autograders.sandbox.doctor import examine, report
from autograders.sandbox.jail import Place, environment, why_no_walls
from autograders.sandbox.limits import Limits
from autograders.sandbox.output import Meter
from autograders.sandbox.plan import ANSWER, OWN, RELEASED, RUN, SKIP, STAND_IN, TEST, NobodyToBlame, Plan, Step
from autograders.sandbox.processes import Usage, family, usage
from autograders.sandbox.student_files import MOST_FILES, copy_files
from autograders.sandbox.watch import Watch

pytestmark = pytest.mark.slow

ASSIGNMENT = "03a-training-recipe"
needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")

SETUP, OWN_CELL, A, A_TEST, B, B_TEST, C, C_TEST = STEPS = [
    Step(0, RELEASED),
    Step(1, OWN),
    Step(2, ANSWER, "a"),
    Step(3, TEST, "a"),
    Step(5, ANSWER, "b"),
    Step(6, TEST, "b"),
    Step(8, ANSWER, "c"),
    Step(9, TEST, "c"),
]
LATE = Reason(Kind.OUT_OF_TIME, "out of time: too slow")
DIED = Reason(Kind.KERNEL_DIED, "died")


def play(bad: dict[Step, Reason], burns: tuple[Step, ...] = ()) -> tuple[Plan, int]:
    """Run a plan to its end on a pretended kernel, which ends at the steps in `bad` whenever they really run."""
    plan, kernels = Plan(STEPS), 0

    def kernel() -> None:
        for step in plan.todo():
            action = plan.action(step)
            if action == RUN and step in bad:
                plan.blame(step, bad[step])
                return
            if action != SKIP:
                plan.ran(step, observed=True)
            if action == RUN and step in burns:
                plan.suspect(step, "left a thread behind")
                plan.drop(step, LATE)
                return

    while plan.todo():
        kernel()
        kernels += 1
        assert kernels < 20
    for _ in plan.appeals():
        kernel()
        kernels += 1
    return plan, kernels


@pytest.mark.parametrize(
    ("bad", "lost", "kernels"),
    [
        ({}, set(), 1),
        ({A_TEST: LATE}, {"a"}, 2),
        ({A: LATE}, {"a"}, 2),
        ({C_TEST: DIED}, {"c"}, 1),
        ({OWN_CELL: LATE}, set(), 2),
        ({A_TEST: LATE, OWN_CELL: LATE}, {"a"}, 3),
    ],
    ids=["nothing", "hidden cases", "definition", "last cell", "own cell", "own cell and hidden cases"],
)
def test_a_kernel_that_ends_costs_one_question(bad: dict[Step, Reason], lost: set[str], kernels: int) -> None:
    plan, used = play(bad)
    assert plan.observed == {"a", "b", "c"} - lost
    assert {incident.question for incident in plan.incidents.values()} - {None} == lost
    assert used == kernels


def test_each_question_that_hangs_is_lost_and_no_other() -> None:
    plan, _ = play({A_TEST: LATE, C: DIED})
    assert plan.observed == {"b"}
    assert [(incident.kind, incident.text) for _, incident in sorted(plan.incidents.items())] == [
        (told.kind, told.text) for told in (LATE, DIED)
    ]


def test_an_answer_that_burns_is_dropped_and_keeps_what_was_observed() -> None:
    plan, kernels = play({}, burns=(A_TEST,))
    assert plan.observed == {"a", "b", "c"}
    assert plan.action(A) == STAND_IN
    assert kernels == 2


def test_an_answer_is_kept_after_its_hidden_cases_hung_because_others_may_use_it() -> None:
    plan = Plan(STEPS)
    plan.blame(A_TEST, LATE)
    assert [plan.action(step) for step in (A, A_TEST, B)] == [RUN, SKIP, RUN]
    plan.blame(B_TEST, LATE)
    assert [plan.action(step) for step in (A, A_TEST, B, B_TEST)] == [STAND_IN, SKIP, RUN, RUN]


def test_what_one_answer_does_late_costs_no_other_question() -> None:
    """An answer whose timer ends the kernel three cells later: alone, the others prove to be innocent."""
    plan = Plan(STEPS)

    def kernel() -> None:
        armed = False
        for step in plan.todo():
            if plan.action(step) == SKIP:
                continue
            if armed and step in (B_TEST, C, C_TEST):
                plan.blame(step, DIED)
                return
            armed = armed or (step == A and plan.action(step) == RUN)
            plan.ran(step, observed=True)

    for _ in range(2 * len(STEPS)):
        kernel()
    assert plan.todo() == []
    assert plan.observed == {"a"}
    for _ in plan.appeals():
        kernel()
    assert plan.observed == {"a", "b", "c"}


@pytest.mark.parametrize("hits", [A_TEST, B, C_TEST], ids=["hidden cases", "answer", "last"])
@pytest.mark.parametrize("own", [True, False], ids=["by an own cell", "by nobody's late call"])
def test_what_an_own_cell_does_late_costs_no_question(hits: Step, own: bool) -> None:
    """A timer of an own cell ends the kernel later, at the same step each time, in runs for one question too."""
    plan = Plan(STEPS)

    def kernel() -> None:
        armed = False
        for step in plan.todo():
            if plan.action(step) == SKIP:
                continue
            if armed and step == hits:
                plan.blame(step, DIED, died=True)
                return
            armed = armed or (own and step == OWN_CELL)
            plan.ran(step, observed=True)

    for _ in range(2 * len(STEPS)):
        kernel()
    for _ in plan.appeals():
        kernel()
    assert plan.observed == {"a", "b", "c"}
    assert (OWN_CELL.name in {incident.cell for incident in plan.incidents.values()}) is own
    assert own or not plan.incidents


def test_what_an_answer_does_is_not_laid_on_an_innocent_own_cell() -> None:
    plan = Plan(STEPS)

    def kernel() -> None:
        for step in plan.todo():
            if step == A_TEST and plan.action(step) == RUN:
                plan.blame(step, DIED, died=True)
                return
            if plan.action(step) != SKIP:
                plan.ran(step, observed=True)

    kernel()
    kernel()
    assert len([kernel() for _ in plan.appeals()]) == 1
    assert plan.observed == {"b", "c"}
    assert [(each.cell, each.question) for each in plan.incidents.values()] == [(A_TEST.name, "a")]


def test_a_note_names_the_students_cell_and_costs_nothing() -> None:
    plan = Plan(STEPS)
    for step in STEPS:
        plan.ran(step, observed=True)
        if step in (OWN_CELL, B_TEST):
            plan.note(step, Reason(Kind.KERNEL_TOLD_TO_END, "the kernel was told to end"))
    assert [(each.cell, each.question) for each in plan.incidents.values()] == [(OWN_CELL.name, None), (B.name, "b")]
    assert plan.todo() == []
    assert list(plan.appeals()) == []


def test_a_released_cell_that_fails_before_anything_of_the_students_is_nobodys_fault() -> None:
    with pytest.raises(NobodyToBlame, match="died"):
        Plan(STEPS).blame(SETUP, DIED)


def test_a_notebook_whose_time_is_used_up_says_so_for_each_question_left() -> None:
    plan = Plan(STEPS)
    plan.ran(A_TEST, observed=True)
    plan.give_up(LATE)
    assert plan.todo() == []
    assert {incident.question for incident in plan.incidents.values()} == {"b", "c"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cell_seconds": 0.0}, "cell_seconds is 0.0"),
        ({"cell_seconds": float("nan")}, "cell_seconds is nan"),
        ({"wall_factor": 0.5}, "wall_factor is 0.5"),
        ({"memory_mb": 100.0}, "needs 1200"),
        ({"processes": 3}, "allow 24"),
    ],
    ids=["no time", "not a number", "clock before time", "memory", "processes"],
)
def test_limits_under_which_nothing_runs_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Limits(**wrong)  # type: ignore[arg-type]


def test_an_observation_is_kept_when_everything_else_is_cut() -> None:
    from autograders.probes import MIME

    meter, cell = Meter(1000), notebooks.code_cell("", "x")
    stream = {"msg_type": "stream", "content": {"name": "stdout", "text": "x" * 900}}
    observation = {"msg_type": "display_data", "content": {"data": {MIME: "y" * 10_000}}}
    assert [meter.takes(message, cell) for message in [stream] * 4] == [True, True, True, False]
    assert [meter.takes(observation, cell) for _ in range(4)] == [True, True, True, False]
    assert [output.text for output in cell.outputs] == [
        "[output cut: while grading, a cell shows at most 1,000 characters]\n"
    ]


def test_a_submissions_files_are_copied_without_following_anything(tmp_path: Path) -> None:
    folder = tmp_path / "submission"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "data.csv").write_text("1,2")
    (folder / "note.ipynb").write_text("{}")
    (folder / "link").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")
    notes = copy_files(folder, tmp_path / "copy")
    assert [str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*.*")] == ["sub/data.csv"]
    assert notes == ["link: it is a link, which is not followed", "pipe: it is a pipe, which is not followed"]


def test_too_many_files_are_left_out_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "submission"
    folder.mkdir()
    for number in range(MOST_FILES + 5):
        (folder / f"{number}.txt").write_text("x")
    notes = copy_files(folder, tmp_path / "copy")
    assert len(list((tmp_path / "copy").iterdir())) == MOST_FILES
    assert notes == [f"files were left out: more than {MOST_FILES}, or 20 MB together"]


def test_a_process_is_ended_at_its_computing_time_with_its_children() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    process = subprocess.Popen([sys.executable, "-c", code])
    watch = Watch(process.pid, Limits(), (0.0, 0.0))
    with watch.cell(0.5):
        while len(relatives := list(family(process.pid))) < 2 and process.poll() is None:
            time.sleep(0.01)
        process.wait(30)
    assert watch.ended == Reason(Kind.OUT_OF_TIME, "out of time: the cell used more than 0.5 s of computing time")
    # A signal is on its way for a moment.
    deadline = time.monotonic() + 20
    while any(usage(number).threads for number in relatives) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [number for number in relatives if usage(number).threads] == []


class Clock:
    """Time that passes by the polls of a watch, of which each is `step` seconds long."""

    def __init__(self, step: float) -> None:
        self.now, self._step = 0.0, step

    def monotonic(self) -> float:
        return self.now

    def wait(self, _: float) -> bool:
        self.now += self._step
        return False


@pytest.mark.parametrize(
    ("computes", "waits", "ended"),
    [
        (0.5, 0.0, "used more than 5 s of computing time"),
        (0.05, 0.45, "used more than 5 s of computing time"),
        (0.1, 0.9, "used more than 5 s of computing time"),
        (0.0, 0.0, "did not end within 15 s by the clock"),
        (0.05, 0.0, "did not end within 15 s by the clock"),
    ],
    ids=["loop", "loop on a busy machine", "two loops on a busy machine", "sleep", "sleep with a little work"],
)
def test_on_a_busy_machine_a_loop_ends_by_its_computing_time_and_a_sleep_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, computes: float, waits: float, ended: str
) -> None:
    """In each half second of the clock, so much computing time and so much waiting for it."""
    clock = Clock(0.5)
    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(watch, "usage", lambda _: Usage(computes * clock.now / 0.5, waits * clock.now / 0.5))
    made = Watch(os.getpid(), Limits(cell_seconds=5, wall_factor=3), (0.0, 0.0))
    monkeypatch.setattr(made, "kill", lambda: None)
    made._poll(clock, Usage(), 0.0, 5.0)
    assert made.ended is not None
    assert ended in made.ended.text


def test_time_in_which_the_machine_computes_for_others_is_seen() -> None:
    """Two loops on one core: each waits while the other one computes."""
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(flush=True)\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for loop in loops:
            loop.stdout.readline()
        deadline = time.monotonic() + 60
        while (seen := usage(loops[0].pid)).cpu_seconds < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert seen.waiting_seconds > 0.3 * seen.cpu_seconds
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


def test_a_process_is_watched_whatever_its_name() -> None:
    code = r"open('/proc/self/comm', 'wb').write(b'\xff) R 1 ('); print(flush=True); sum(range(10**8))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    seen = usage(process.pid)
    process.kill()
    process.communicate()
    assert (seen.processes, seen.threads) == (1, 1)
    assert seen.resident_bytes > 1e6


def test_a_kernels_environment_holds_nothing_of_the_graders(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("LECTURE_COURSE", "/somewhere")
    made = environment(Place(tmp_path, walls=True, course_root=tmp_path))
    assert "SOME_TOKEN" not in made
    assert "LECTURE_COURSE" not in made
    assert made["OMP_NUM_THREADS"] == "1"


@needs_walls
def test_plain_nbgrader_copies_no_secret_through_a_link(course: Course, nbgrader_environment) -> None:
    """And what ends a kernel costs the same there."""
    hand_in(course, "linked")
    (course.step("submitted", "linked", ASSIGNMENT) / "points.txt").symlink_to(course.secret)
    hand_in(course, "killed", f"import os\nos._exit(1)\n{RIGHT}")
    environment = {**nbgrader_environment, "LECTURE_COURSE": str(course.root)}
    command = ["nbgrader", "autograde", ASSIGNMENT]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert question_points(course, ASSIGNMENT, "linked") == {FIRST: 8, SECOND: 0}
    assert question_points(course, ASSIGNMENT, "killed") == {FIRST: 0, SECOND: 0}
    secret = course.secret.read_bytes().strip()
    graded = [path for path in course.step("autograded", "").rglob("*") if path.is_file()]
    assert len(graded) == 2
    assert not [path for path in graded if secret in path.read_bytes()]


@needs_walls
def test_the_doctor_finds_this_machine_fit() -> None:
    findings = examine()
    assert [finding.name for finding in findings if not finding.holds] == []
    assert "this machine can hold" in report(findings)


def without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which there is no bwrap, for commands of this test."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(WITHOUT_SANDBOX_VARIABLE, raising=False)


def hand_in(course: Course, student: str, answer: str = RIGHT) -> None:
    nb = notebooks.read(course.notebook("release", ASSIGNMENT))
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == FIRST:
            cell.source = answer
    path = course.notebook("submitted", ASSIGNMENT, student)
    path.parent.mkdir(parents=True)
    nbformat.write(nb, path)


def test_the_doctor_names_what_is_missing_with_its_remedy(monkeypatch, tmp_path: Path) -> None:
    without_bubblewrap(monkeypatch, tmp_path)
    done = autograde("doctor")
    assert done.code == 1
    assert "MISSING  bubblewrap: not installed\n         remedy: apt install bubblewrap" in done.out
    assert "--without-sandbox" in done.out


def test_without_a_sandbox_grading_refuses_until_that_is_acknowledged(course: Course, monkeypatch, tmp_path) -> None:
    hand_in(course, "ada")
    without_bubblewrap(monkeypatch, tmp_path)
    refused = autograde("grade", "--quiet", course=course)
    assert refused.code == 1
    assert "bubblewrap is not installed" in refused.err
    assert "--without-sandbox" in refused.err
    assert read_record(course, ASSIGNMENT, "ada") is None
    done = autograde("grade", "--quiet", "--without-sandbox", course=course)
    assert done.code == 0, done.err
    assert "warning: no sandbox" in done.err
    record = read_record(course, ASSIGNMENT, "ada")
    assert record is not None
    assert (record.state, record.reason) == (State.GRADED, "")
    assert question_points(course, ASSIGNMENT, "ada") == {FIRST: 8, SECOND: 0}


def test_plain_nbgrader_refuses_too(course: Course, monkeypatch, tmp_path) -> None:
    hand_in(course, "ada")
    without_bubblewrap(monkeypatch, tmp_path)
    scripts = Path(sys.executable).parent
    for name in ("alembic", "python"):
        (tmp_path / name).symlink_to(scripts / name)
    environment = {**os.environ, "LECTURE_COURSE": str(course.root)}
    command = [sys.executable, "-m", "nbgrader", "autograde", ASSIGNMENT]
    refused = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "no sandbox: bubblewrap is not installed" in refused.stderr
    assert not course.step("autograded", "ada", ASSIGNMENT).exists()


def test_nothing_is_graded_where_no_limit_would_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another system than Linux, also for somebody who does without the sandbox."""
    from autograders.sandbox import jail

    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(jail.SandboxError, match="grading needs Linux"):
        jail.require_walls(without_sandbox=True)


def test_a_class_of_the_courses_own_answers_needs_no_acknowledgement(simulated: Course, monkeypatch, tmp_path) -> None:
    from autograders.sandbox import consent, jail

    course = copy_course(simulated, tmp_path / "course")
    monkeypatch.delenv(WITHOUT_SANDBOX_VARIABLE, raising=False)
    monkeypatch.setattr(consent, "why_no_walls", lambda: "a test says so")
    monkeypatch.setattr(jail, "why_no_walls", lambda: "a test says so")
    assert consent.with_consent(Course(course.root)).without_sandbox
    hand_in(course, "a-real-student")
    with pytest.raises(jail.SandboxError, match="a test says so"):
        consent.with_consent(Course(course.root))
