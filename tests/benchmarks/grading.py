"""What grading costs above the students' own cells, beside plain `nbgrader autograde` on the same submission files.

A simulated class is graded three times: by `grade` in one process, by `grade` with two workers, and by nbgrader's own
command with nbgrader's own configuration, which knows no sandbox, no hidden inputs and no judge. The small assignment
is 03a with three questions; the whole ones are 03a and 03b as released. Computing time does not depend on the load of
the machine as much as submissions per hour do: run it on an idle one.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import harness
import nbformat

from autograders import notebooks
from autograders.course import Course
from autograders.grading.grade import grade
from autograders.nbgrader.scores import question_of
from autograders.questions.simulate import simulate
from autograders.release.release import release
from autograders.sandbox.processes import family, usage
from autograders.sandbox.warm.warm import why_cold
from autograders.sandbox.watch import Watch

WHOLE = ("03a-training-recipe", "03b-debug-ladder")
KEPT = ("03a-accumulate", "03a-clip", "03a-p5")


@dataclass
class Seen:
    """What the kernels of a run used: seconds of computing time, bytes of their own before the first cell."""

    kernels: float = 0.0
    cells: float = 0.0
    private: list[int] = field(default_factory=list)


@contextlib.contextmanager
def watching(seen: Seen) -> Iterator[None]:
    """Note what kernels use while they are graded."""
    start, cell, kill = Watch.__init__, Watch.cell, Watch.kill

    def started(self: Watch, root: int, *rest: object) -> None:
        start(self, root, *rest)  # type: ignore[arg-type]
        seen.private.append(sum(map(private_bytes, family(root))))

    @contextlib.contextmanager
    def counted(self: Watch, seconds: float) -> Iterator[None]:
        before = self.cpu_seconds
        with cell(self, seconds):
            yield
        seen.cells += self.cpu_seconds - before

    def killed(self: Watch) -> None:
        seen.kernels += usage(self._root).cpu_seconds
        kill(self)

    with mock.patch.multiple(Watch, __init__=started, cell=counted, kill=killed):
        yield


def private_bytes(process: int) -> int:
    """Memory that a process shares with no other."""
    with contextlib.suppress(OSError):
        rows = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
        return 1024 * sum(int(row.split()[1]) for row in rows if row.startswith("Private_"))
    return 0


def computing_time(who: int) -> float:
    """Seconds of computing time of this process or of the children that it waited for."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def made_class(folder: Path, name: str, students: int, short: bool) -> Course:
    """A course with one assignment handed in by a simulated class; `short`: with KEPT's questions alone."""
    course = Course(folder / "course")
    shorter = folder / "notebooks"
    nb = notebooks.read(notebooks.master_path(name))
    if short:
        nb.cells = [cell for cell in nb.cells if _kept(cell)]
    (shorter / name).mkdir(parents=True)
    (shorter / f"{name}.py").touch()
    nbformat.write(nb, shorter / name / f"{name}.ipynb")
    with mock.patch.object(notebooks, "NOTEBOOKS", shorter):
        release(course, [name], verify=False)
    simulate(course, [name], students)
    return course


def _kept(cell: nbformat.NotebookNode) -> bool:
    return question_of(cell.metadata.get("nbgrader", {}).get("grade_id", KEPT[0])) in KEPT


def copied(course: Course, name: str) -> Course:
    """The course before anybody was graded."""
    return Course(Path(shutil.copytree(course.root, course.root.parent / name)))


def plain(course: Course, assignment: str) -> tuple[float, float]:
    """Wall time and computing time of nbgrader's own command, in seconds."""
    config = course.root / "nbgrader_config.py"
    address = f"sqlite:///{course.root / 'gradebook.db'}"
    config.write_text(
        f"c = get_config()\nc.CourseDirectory.root = {str(course.root)!r}\nc.CourseDirectory.db_url = {address!r}\n"
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    clock, before = time.perf_counter(), computing_time(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "nbgrader", "autograde", assignment]
    done = subprocess.run(command, cwd=course.root, env=environment, capture_output=True, text=True, check=False)
    graded = list(course.step("autograded", "").glob("*/*/*.ipynb"))
    if len(graded) != len(list(course.step("submitted", "").iterdir())):
        raise RuntimeError(f"nbgrader graded {len(graded)}: {done.stderr[-500:]}")
    return time.perf_counter() - clock, computing_time(resource.RUSAGE_CHILDREN) - before


def costs(what: str, course: Course, name: str, students: int, targets: bool) -> list[harness.Row]:
    """The rows of one assignment."""
    ours, seen = copied(course, "ours"), Seen()
    # What a process does once (imports, the first drawing of a question's inputs) is not a notebook's.
    grade(ours, [name], progress=False)
    with watching(seen):
        clock, before = time.perf_counter(), computing_time(resource.RUSAGE_SELF)
        grade(ours, [name], force=True, progress=False)
        one = time.perf_counter() - clock
    grader = (computing_time(resource.RUSAGE_SELF) - before) / students
    start = (seen.kernels - seen.cells) / students
    harness.progress(f"{what}: {students} submissions in {one:.1f} s; nbgrader next")
    wall, computing = plain(copied(course, "plain"), name)
    rows = [
        harness.Row(f"{what}: the students' own cells", seen.cells / students, "s of CPU a notebook"),
        harness.Row(f"{what}: the grader's own work", grader, "s of CPU a notebook"),
        harness.Row(f"{what}: a kernel's start and end", start, "s of CPU a notebook"),
        harness.at_most(f"{what}: both together", grader + start, "s of CPU a notebook", 0.5, "at most 0.5"),
        harness.at_most(f"{what}: a kernel's own memory", max(seen.private) / 1e6, "MB", 100.0, "at most 100"),
        harness.Row(f"{what}: plain nbgrader, all of it", computing / students, "s of CPU a notebook"),
        harness.Row(f"{what}: one worker", one / students, "s a submission"),
        harness.Row(f"{what}: plain nbgrader", wall / students, "s a submission"),
        harness.Row(f"{what}: one worker beside plain nbgrader", wall / one, "times its submissions an hour"),
    ]
    return [*rows, *two_workers(what, copied(course, "two"), name, students, wall, targets)]


def two_workers(
    what: str, course: Course, name: str, students: int, plain_wall: float, targets: bool
) -> list[harness.Row]:
    """Submissions an hour with two workers, their start included."""
    if "workers" not in inspect.signature(grade).parameters:
        return [harness.Row(f"{what}: two workers beside plain nbgrader", None, "times its submissions an hour")]
    clock = time.perf_counter()
    grade(course, [name], progress=False, workers=2)  # type: ignore[call-arg]
    two = time.perf_counter() - clock
    ratio, each = plain_wall / two, two / students
    return [
        harness.Row(
            f"{what}: two workers beside plain nbgrader",
            ratio,
            "times its submissions an hour",
            "at least 6" if targets else None,
            ratio >= 6 if targets else None,
        ),
        harness.Row(
            f"{what}: two workers",
            each,
            "s a submission",
            "at most 1.0" if targets else None,
            each <= 1.0 if targets else None,
        ),
    ]


def measure(quick: bool) -> list[harness.Row]:
    """Grade the classes."""
    if (cold := why_cold()) is not None:
        harness.progress(f"kernels are started one by one here: {cold}")
    rows = []
    sizes = {"small assignment": 6 if quick else 24} | {name[:3]: 3 if quick else 10 for name in WHOLE}
    for what, students in sizes.items():
        name = next((name for name in WHOLE if name.startswith(what)), WHOLE[0])
        with tempfile.TemporaryDirectory(prefix="grading-") as folder:
            course = made_class(Path(folder), name, students, short=what not in name)
            rows += costs(what, course, name, students, targets=what not in name)
    return rows


if __name__ == "__main__":
    harness.run(measure)
