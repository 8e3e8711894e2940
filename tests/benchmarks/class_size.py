"""What a large class costs: collecting, tables, report and a grading run with nothing to do, for up to 5,000 students;
and a queue of 100,000 submissions.

Four simulated students are released to and graded once, on both whole notebooks. The classes are copies of them under
other names: their records with the observations, their files, their scores. So no kernel runs for the 5,000, and
everything that reads what a class left behind reads as much as after a real term. Computing time and memory are those
of the command as an instructor runs it, its start included.

The archive that is collected is one as Canvas makes it, of notebooks with their outputs. The queue's submissions are a
few bytes each and nobody runs them: what is measured is what the process costs that hands them out and keeps their
records, first while every one is set aside (it remembers the reason of each until the end), then when the same
command is given again and finds 100,000 records of a graded notebook, as after a run that was killed at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from helpers.large_class import canvas_export, multiply, queue, record_as_graded

from autograders.course import Course
from autograders.grading.grade import grade
from autograders.notebooks import assignments, master_path, read
from autograders.questions.simulate import simulate
from autograders.release.release import release

SIZES = (50, 500, 5_000)
QUEUE = 100_000
COLLECT_SECONDS = 60.0
"""The most computing time that collecting an archive of 5,000 notebooks may take."""
COMMANDS = {"gradebook": (["gradebook"], 20.0), "report": (["report"], 20.0), "grade": (["grade", "--quiet"], 30.0)}
"""What is run, and the most seconds of computing time that it may take for 5,000 students."""
MOST_MEGABYTES = 500.0


def measure(quick: bool) -> list[harness.Row]:
    """Grade four students, multiply them, and measure each command at each size."""
    rows: list[harness.Row] = []
    names = assignments()
    sizes = SIZES[:2] if quick else SIZES
    with tempfile.TemporaryDirectory(prefix="class-size-") as folder:
        small = Course(Path(folder) / "four")
        release(small, names, verify=False)
        simulate(small, names, 4)
        grade(small, names, progress=False)
        rows += collecting(small, Path(folder), names, sizes)
        rows += queue_of(small, Path(folder) / "queue", names[0], 2_000 if quick else QUEUE)
        used: dict[tuple[str, int], float] = {}
        for size in sizes:
            harness.progress(f"{size} students")
            course = multiply(small, Path(folder) / str(size), size, names)
            for name, (arguments, limit) in COMMANDS.items():
                used[name, size], megabytes = cost([*arguments, "--course", str(course.root)])
                what = f"{name}, {size:,} students × {len(names)} notebooks"
                if size == SIZES[-1]:
                    target = f"≤ {limit:g} s, ≤ {MOST_MEGABYTES:g} MB"
                    rows.append(harness.at_most(what, used[name, size], "s of computing time", limit, target))
                    rows.append(harness.at_most(f"{what}: memory", megabytes, "MB", MOST_MEGABYTES, target))
                else:
                    rows.append(harness.Row(what, used[name, size], "s of computing time"))
                    rows.append(harness.Row(f"{what}: memory", megabytes, "MB"))
    for name in COMMANDS:
        # Each student of a larger class also bears less of the command's start, so linear is at most 1.
        extra = [used[name, size] / size for size in sizes[1:]]
        growth = extra[-1] / extra[0] if len(extra) > 1 else None
        what = f"{name}: seconds a student, {sizes[-1]:,} against {sizes[1]:,}"
        rows.append(harness.at_most(what, growth, "ratio", 1.2, "≤ 1.2: linear"))
    return rows


def collecting(small: Course, folder: Path, names: list[str], sizes: tuple[int, ...]) -> list[harness.Row]:
    """What `autograde collect` costs for an archive with a notebook of each student."""
    rows = []
    for size in sizes:
        harness.progress(f"an archive of {size} notebooks")
        course, archive = Course(folder / f"collect-{size}"), folder / "canvas.zip"
        shutil.copytree(small.root, course.root)
        canvas_export(course, archive, size, names[0], read(master_path(names[0])))
        for name in ("submitted", "journal"):
            shutil.rmtree(course.root / name)
        seconds, megabytes = cost(["collect", str(archive), "--course", str(course.root)])
        assert len(list(course.step("submitted").glob(f"*/{names[0]}/*.ipynb"))) == size
        what = f"collect, {size:,} notebooks"
        if size == SIZES[-1]:
            rows.append(harness.at_most(what, seconds, "s of computing time", COLLECT_SECONDS, "≤ 60 s"))
            rows.append(harness.at_most(f"{what}: memory", megabytes, "MB", MOST_MEGABYTES, f"≤ {MOST_MEGABYTES:g} MB"))
        else:
            rows.append(harness.Row(what, seconds, "s of computing time"))
            rows.append(harness.Row(f"{what}: memory", megabytes, "MB"))
        shutil.rmtree(course.root)
    return rows


def queue_of(small: Course, folder: Path, name: str, count: int) -> list[harness.Row]:
    """What a queue costs the process that hands it out, and the next one that finds it done."""
    harness.progress(f"a queue of {count} submissions")
    course = queue(small, folder, name, count)
    seconds, megabytes = cost_of([sys.executable, "-c", HAND_OUT, str(course.root), name])
    files = sum(1 for _ in course.journal(name, "x").parent.iterdir())
    model = next(path.stem for path in small.journal(name, "x").parent.glob("*.json"))
    record_as_graded(small, course, name, model)
    again, after = cost(["grade", "--quiet", "--course", str(course.root), "--assignment", name])
    what = f"queue of {count:,}"
    return [
        harness.Row(f"{what}: handed out and set aside", seconds, "s of computing time"),
        harness.at_most(
            f"{what}: memory meanwhile", megabytes, "MB", 2 * MOST_MEGABYTES, f"≤ {2 * MOST_MEGABYTES:g} MB"
        ),
        harness.Row(f"{what}: journal files in a folder", files, "files"),
        harness.Row(f"{what}: finding that all are done", again, "s of computing time"),
        harness.at_most(f"{what}: memory for that", after, "MB", MOST_MEGABYTES, f"≤ {MOST_MEGABYTES:g} MB"),
    ]


# An executor that sets aside at once whatever it gets; `grade` around it is the real one.
HAND_OUT = """
import os, sys
from concurrent.futures import Executor, Future
from pathlib import Path
from autograders.course import Course
from autograders.grading.attempt import Outcome
from autograders.grading.grade import grade
from autograders.grading.states import State
from autograders.reasons import Kind, Reason

class SetsAside(Executor):
    def submit(self, function, task):
        future = Future()
        future.set_result(Outcome(State.UNREADABLE, (Reason(Kind.OTHER, f"of {task.student}"),)))
        return future

os.fsync = lambda _: None
grade(Course(Path(sys.argv[1])), [sys.argv[2]], progress=False, workers=4, executor=SetsAside())
"""

# The peak that the system counts for a process begins with that of the one which started it: here a small one.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def cost(arguments: list[str]) -> tuple[float, float]:
    """Seconds of computing time and megabytes of memory of one command; its children are in the time."""
    return cost_of([sys.executable, "-m", "autograders", *arguments])


def cost_of(command: list[str]) -> tuple[float, float]:
    """The same of any command."""
    launched = [sys.executable, "-c", LAUNCHER, *command]
    environment = {**os.environ, "PYTHONPATH": str(harness.ROOT)}
    done = subprocess.run(launched, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    code, seconds, megabytes = done.stdout.split()
    if int(code) not in (0, 3, 4):
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return float(seconds), float(megabytes)


if __name__ == "__main__":
    harness.run(measure)
