"""Many at a time: processes and clusters give the scores of a serial run, also when they are killed or interrupted."""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from conftest import HELPERS, MIXED, ROOT, MixedClass, copy_course, kept_assignments
from helpers import command_line, grader_crashes
from helpers.command_line import Finished
from helpers.grader_crashes import leftovers, records, rewritten, scores

from autograders.course import Course, CourseError
from autograders.grading import cluster as clusters
from autograders.grading import worker
from autograders.grading.cluster import cluster
from autograders.grading.grade import grade
from autograders.grading.job import Packer, environment
from autograders.grading.worker import grade_task
from autograders.questions.simulate import simulate
from autograders.results.class_tables import write_csv
from autograders.results.known_scores import compare_known

pytestmark = pytest.mark.slow

FIRST = "ada-01"


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of processes that grade without kernels, and whose temporary files lie in a folder of ours."""
    with tempfile.TemporaryDirectory(prefix="run-", dir="/tmp") as temporary:
        paths = os.pathsep.join([str(HELPERS / "without_kernels"), str(ROOT)])
        triggers = str(tmp_path_factory.mktemp("triggers"))
        yield {**os.environ, "PYTHONPATH": paths, "TMPDIR": temporary, "TRIGGERS": triggers, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def triggers(variables: dict[str, str]) -> Iterator[Path]:
    folder = Path(variables["TRIGGERS"])
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture(scope="module")
def students(repetitions: Callable[[int, int], int]) -> int:
    """How many are in the class: more than the processes that grade it have at once."""
    return repetitions(8, 24)


@pytest.fixture(scope="module")
def simulated_class(released: Course, students: int, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class that handed in one notebook, and nobody graded yet."""
    course = copy_course(released, tmp_path_factory.mktemp("simulated") / "course")
    simulate(course, [MIXED], students)
    return course


@pytest.fixture
def ungraded(simulated_class: Course, tmp_path: Path) -> Course:
    return copy_course(simulated_class, tmp_path / "class")


@pytest.fixture
def few(released: Course, tmp_path: Path) -> Course:
    """The first four of them."""
    course = copy_course(released, tmp_path / "few")
    simulate(course, [MIXED], 4)
    return course


@pytest.fixture(scope="module")
def serial(
    simulated_class: Course, students: int, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Course:
    """The class graded by one process."""
    course = copy_course(simulated_class, tmp_path_factory.mktemp("serial") / "course")
    done = run(course, variables, "--workers", "1")
    assert done.code == 0, done.err
    assert compare_known(course) == (2 * students, [])
    return course


def command(course: Course, *options: str) -> list[str]:
    place = ["--course", str(course.root)]
    chosen = [] if "--assignment" in options else ["--assignment", MIXED]
    return [sys.executable, "-m", "autograders", "grade", *place, *chosen, *options]


def run(course: Course, variables: dict[str, str], *options: str) -> Finished:
    if "--workers" in options:
        return command_line.run(command(course, *options)[3:], variables)
    done = subprocess.run(
        command(course, *options), cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def tables(course: Course, names: list[str]) -> list[Any]:
    """What must be the same however a class was graded: both tables by the byte, and every score in the database."""
    write_csv(course, names)
    return [course.grades.read_bytes(), (course.root / "questions.csv").read_bytes(), scores(course)]


def same(course: Course, other: Course, names: list[str] | None = None) -> None:
    for found, expected in zip(tables(course, names or [MIXED]), tables(other, names or [MIXED]), strict=True):
        assert found == expected


def nothing_left(course: Course, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as here:  # not for longer: what this process starts would lie there, too
        here.setattr(tempfile, "tempdir", variables["TMPDIR"])
        assert leftovers(course) == []


def test_two_processes_give_the_scores_of_one(
    ungraded: Course, serial: Course, students: int, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(ungraded, variables, "--workers", "2")
    assert done.code == 0, done.err
    assert done.out == f"{students} graded; 0 were already done\n"
    assert compare_known(ungraded) == (2 * students, [])
    same(ungraded, serial)
    for step in ("received", "autograded"):
        for path in sorted(serial.step(step, "").rglob("*.ipynb")):
            found = json.loads((ungraded.root / path.relative_to(serial.root)).read_text("utf-8"))
            assert found == json.loads(path.read_text("utf-8"))
    nothing_left(ungraded, variables, monkeypatch)


def test_real_notebooks_in_two_processes(mixed: Course, mixed_graded: MixedClass, tmp_path: Path) -> None:
    """Every state that a kernel can end in, and what lies beside a notebook that is not sent away."""
    course = copy_course(mixed, tmp_path / "class")
    done = run(course, {**os.environ, "PYTHONPATH": str(ROOT)}, "--workers", "2")
    assert (done.code, done.out.splitlines()[1:]) == (mixed_graded.grading.code, mixed_graded.grading.out.splitlines())
    same(course, mixed_graded.course)


@contextlib.contextmanager
def local_cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a scheduler with two worker processes, each of which is started again when it is killed."""
    pytest.importorskip("distributed")
    script = (
        "import sys\nfrom distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=':0') as cluster:\n"
        "        print(cluster.scheduler_address, flush=True)\n"
        "        sys.stdin.read()\n"
    )
    path = folder / "dask_cluster.py"
    path.write_text(script, "utf-8")
    process = subprocess.Popen(
        [sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, cwd=ROOT
    )
    with process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


@pytest.fixture(scope="module")
def dask_cluster(variables: dict[str, str]) -> Iterator[str]:
    """A cluster that grades without kernels."""
    alone = {name: value for name, value in variables.items() if name != "TMPDIR"}
    with local_cluster(Path(variables["TRIGGERS"]).parent, alone) as address:
        yield address


def test_a_dask_cluster_gives_the_scores_of_one_process(
    ungraded: Course, serial: Course, students: int, variables: dict[str, str], dask_cluster: str, triggers: Path
) -> None:
    """One of its workers is killed in mid-run: Dask hands what it had to the other."""
    (triggers / "chen-03.kill").write_text("1", "utf-8")
    done = run(ungraded, variables, "--scheduler", dask_cluster)
    assert (triggers / "chen-03.kill").read_text("utf-8") == "0"
    assert done.code == 0, done.err
    assert done.out == f"{students} graded; 0 were already done\n"
    same(ungraded, serial)


def test_a_worker_with_other_packages_is_refused(
    few: Course, dask_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(environment(), "torch", "1.0")  # here, not there
    with pytest.raises(CourseError, match=r"torch \S+ \(here 1\.0\)"), cluster(dask_cluster):
        pass
    task = Packer(few).pack(MIXED, FIRST)
    assert task is not None
    task = replace(task, environment={**environment(), "this package's code": "other"})
    with pytest.raises(CourseError, match=r"this package's code .* install the same checkout"):
        grade_task(task)


def test_a_cluster_that_cannot_be_had_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(clusters, "_SECONDS", 1)
    with (
        pytest.raises(CourseError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 "),
        cluster("tcp://127.0.0.1:9"),
    ):
        pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CourseError, match=r"`distributed`, which is not installed: pip install"), cluster("tcp://x:1"):
        pass


def test_a_process_that_is_killed_costs_nobody_but_what_kills_it(
    few: Course, variables: dict[str, str], triggers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (triggers / f"{FIRST}.kill").write_text("2", "utf-8")
    (triggers / "ben-02.kill").write_text("9", "utf-8")
    done = run(few, variables, "--workers", "2")
    assert done.code == 3
    assert "1 failed, 3 graded" in done.out
    assert (
        "set aside: ben-02, 03a-training-recipe: the process that graded it ended (3 times): it was killed" in done.out
    )
    assert (triggers / f"{FIRST}.kill").read_text("utf-8") == "0"
    assert (triggers / "ben-02.kill").read_text("utf-8") == "6"
    (triggers / "ben-02.kill").unlink()
    finished = records(few)
    done = run(few, variables, "--workers", "1")
    assert done.out == "1 graded; 3 were already done\n", done.err
    assert [line.split(":")[0] for line in rewritten(finished, records(few))] == ["ben-02"]
    assert compare_known(few) == (8, [])
    nothing_left(few, variables, monkeypatch)


def test_a_full_disk_in_a_process_stops_the_run(few: Course, variables: dict[str, str], triggers: Path) -> None:
    (triggers / "dora-04.full").touch()
    done = run(few, variables, "--workers", "2")
    assert done.code == 1
    assert "cannot write while grading dora-04, 03a-training-recipe (" in done.err
    assert "Make room, then run the same command again" in done.err
    assert "Traceback" not in done.err
    assert "dora-04" not in records(few)
    (triggers / "dora-04.full").unlink()
    assert run(few, variables, "--workers", "1").code == 0
    assert len(records(few)) == 4


def told_to_end_at_its_end(lifeline: Connection, temporary: str) -> None:
    """Grade nothing, and be asked to stop while the process clears up after itself."""
    atexit.register(os.kill, os.getpid(), signal.SIGTERM)
    worker.start(lifeline, temporary)
    worker.ready()


def test_a_process_that_ends_by_itself_is_not_ended_once_more(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    process = context.Process(target=told_to_end_at_its_end, args=(theirs, str(tmp_path)))
    process.start()
    process.join(300)  # it ends by itself, on a busy machine late
    ours.close()
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""


@pytest.fixture
def _heeds_interrupts() -> Iterator[None]:
    """Where tests run in the background, a shell has told them, and what they start, to ignore Ctrl+C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeds_interrupts")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl+C", "kill -9"])
def test_stopped_while_processes_grade(
    few: Course,
    variables: dict[str, str],
    triggers: Path,
    signal_number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was finished is kept, processes end, and the same command goes on with more workers, or with one."""
    (triggers / "chen-03.wait").touch()
    process = subprocess.Popen(
        command(few, "--workers", "2"), cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True, process_group=0
    )
    wait_until(lambda: (triggers / "chen-03.waits").exists() and len(records(few)) == 3)
    run_id = json.loads((few.root / ".writer").read_text("utf-8"))["run"]
    monkeypatch.setattr(grader_crashes, "RUNS", {run_id})
    if signal_number == signal.SIGINT:
        os.killpg(process.pid, signal_number)  # as a terminal does: every process of the group gets it
    else:
        process.kill()
    said = process.communicate()[1]
    assert process.returncode == (130 if signal_number == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in said
    if signal_number == signal.SIGINT:
        assert "what was finished is kept" in said
        nothing_left(few, variables, monkeypatch)
    wait_until(lambda: not any(left.startswith("process") for left in leftovers(few)))
    finished = records(few)
    (triggers / "chen-03.wait").unlink()
    workers = "3" if signal_number == signal.SIGINT else "1"
    done = run(few, variables, "--workers", workers)
    assert done.out == "1 graded; 3 were already done\n", done.err
    assert rewritten(finished, records(few)) == []
    assert compare_known(few) == (8, [])
    nothing_left(few, variables, monkeypatch)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_student_then_one_notebook_then_the_rest(few: Course, variables: dict[str, str]) -> None:
    assert run(few, variables, "--workers", "1", "--student", FIRST).out == "1 graded; 0 were already done\n"
    assert run(few, variables, "--workers", "2").out == "3 graded; 1 were already done\n"
    second = kept_assignments()[1]
    simulate(few, kept_assignments(), 4)
    before = {path: path.stat().st_ino for path in (few.root / "journal").rglob("*.json")}
    both = ("--assignment", MIXED, "--assignment", second, "--workers", "2")
    assert run(few, variables, *both).out == "4 graded; 4 were already done\n"
    after = {path: path.stat().st_ino for path in (few.root / "journal").rglob("*.json")}
    assert before.items() < after.items()
    assert len(after) == 8
    assert compare_known(few) == (16, [])


def test_what_is_more_than_plain_files_is_graded_where_the_gradebook_is(few: Course) -> None:
    packer = Packer(few)
    folder = few.step("submitted", FIRST, MIXED)
    task = packer.pack(MIXED, FIRST)
    assert task is not None
    assert set(task.submission) == {f"{MIXED}.ipynb"}
    os.mkfifo(folder / "pipe")
    assert packer.pack(MIXED, FIRST) is None


def test_no_name_and_no_score_of_others_travels(serial: Course, tmp_path: Path) -> None:
    task = Packer(serial).pack(MIXED, FIRST)
    assert task is not None
    course = task.unpack(tmp_path / "there")
    with contextlib.closing(sqlite3.connect(course.root / "gradebook.db")) as database:
        for table in ("student", "grade", "comment", "submitted_assignment"):
            assert database.execute(f"select count(*) from {table}").fetchone() == (0,)
        assert database.execute("select count(*) from grade_cells").fetchone() > (0,)
    everything = b"".join(task.course.values())
    assert b"ben-02" not in everything
    assert FIRST.encode() not in everything


def test_fewer_than_one_worker_is_refused(few: Course, variables: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="0 workers: at least one"):
        grade(few, [MIXED], workers=0)
    done = run(few, variables, "--workers", "0")
    assert done.code == 2
    assert "at least one is needed" in done.err


@pytest.fixture(scope="module")
def two_hundred(released: Course, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class of 200 that handed in every notebook."""
    course = copy_course(released, tmp_path_factory.mktemp("two-hundred") / "course")
    simulate(course, kept_assignments(), 200)
    return course


def kill_one(address: str, course: Course, wanted: int, killed: list[int]) -> None:
    """Kill one of the cluster's worker processes as soon as so many submissions are in the journal."""
    from distributed import Client

    while len(records(course)) < wanted:
        time.sleep(0.5)
    with Client(address) as client:
        killed.extend(list(client.run(os.getpid).values())[:1])
        os.kill(killed[0], signal.SIGKILL)


@pytest.mark.full
@pytest.mark.parametrize("manner", ["one process", "two processes", "Dask"])
def test_two_hundred_students_and_two_notebooks(
    manner: str, tmp_path: Path, variables: dict[str, str], two_hundred: Course
) -> None:
    course = copy_course(two_hundred, tmp_path / "class")
    real = variables | {"PYTHONPATH": str(ROOT)}
    names = [option for name in kept_assignments() for option in ("--assignment", name)]
    killed: list[int] = []
    with contextlib.ExitStack() as stack:
        if manner == "Dask":
            address = stack.enter_context(local_cluster(tmp_path, real))
            threading.Thread(target=kill_one, args=(address, course, 50, killed), daemon=True).start()
            how = ["--scheduler", address]
        else:
            how = ["--workers", "1" if manner == "one process" else "2"]
        done = run(course, real, *names, *how)
    assert done.code == 0, done.err
    assert f"{2 * 200} graded" in done.out
    compared, different = compare_known(course)
    assert compared >= 2 * 200
    assert different == []
    assert len(killed) == (manner == "Dask")
