"""What a large class costs: tables, report and a grading run with nothing to do, for 50, 500 and 5,000 students.

Four simulated students are released to and graded once, on both whole notebooks. The classes are copies of them under
other names: their records with the observations, their files, their scores. So no kernel runs for the 5,000, and
everything that reads what a class left behind reads as much as after a real term. Computing time and memory are those
of the command as an instructor runs it, its start included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))
from helpers.large_class import multiply

from autograders.course import Course
from autograders.grading.grade import grade
from autograders.notebooks import assignments
from autograders.questions.simulate import simulate
from autograders.release.release import release

SIZES = (50, 500, 5_000)
COMMANDS = {"gradebook": (["gradebook"], 20.0), "report": (["report"], 20.0), "grade": (["grade", "--quiet"], 30.0)}
"""What is run, and the most seconds of computing time that it may take for 5,000 students."""
MOST_MEGABYTES = 500.0


def measure(quick: bool) -> list[harness.Row]:
    """Grade four students, multiply them, and measure each command at each size."""
    rows: list[harness.Row] = []
    names = assignments()
    with tempfile.TemporaryDirectory(prefix="class-size-") as folder:
        small = Course(Path(folder) / "four")
        release(small, names, verify=False)
        simulate(small, names, 4)
        grade(small, names, progress=False)
        used: dict[tuple[str, int], float] = {}
        sizes = SIZES[:2] if quick else SIZES
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


# The peak that the system counts for a process begins with that of the one which started it: here a small one.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def cost(arguments: list[str]) -> tuple[float, float]:
    """Seconds of computing time and megabytes of memory of one command; its children are in the time."""
    command = [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "autograders", *arguments]
    code, seconds, megabytes = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if int(code) not in (0, 3, 4):
        raise RuntimeError(f"autograde {' '.join(arguments)} ended with {code}")
    return float(seconds), float(megabytes)


if __name__ == "__main__":
    harness.run(measure)
