"""Grades a class again and again in processes that are killed at random moments.

python tests/helpers/grader_crashes.py COURSE FOLDER KILLS SEED SHARE [--replay REFERENCE] [--workers N] copies COURSE
into FOLDER, kills `autograde grade` KILLS times, each within a SHARE of the time that an undisturbed run takes, lets it
finish, and starts over with a fresh copy whenever the class is done. One line of JSON for each finished class says what
was left, repeated or different. With --replay the notebooks are not run: what a graded class observed is played back,
so that a moment is cheap.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from nbformat.v4 import new_output

from autograders import notebooks
from autograders.__main__ import main as autograde
from autograders.course import Course
from autograders.grading.journal import read_record
from autograders.notebooks import STAMP
from autograders.probes import MIME
from autograders.questions.question import by_test_id
from autograders.results.class_tables import write_csv
from autograders.sandbox.execute import ProbedExecute
from autograders.writer import RUN_VARIABLE

ASSIGNMENT = "03a-training-recipe"


def play_back(reference: Course) -> None:
    """Let every notebook show what its submission showed in `reference`, without a kernel."""

    def preprocess(self: ProbedExecute, nb: Any, resources: Any, km: Any = None) -> Any:
        record = read_record(reference, ASSIGNMENT, resources["nbgrader"]["student"])
        assert record is not None
        for cell in nb.cells:
            question = by_test_id(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            for published in record.observations.get(question.id, []) if question is not None else []:
                cell.outputs.append(new_output("display_data", {MIME: published}))
        seen = notebooks.read(reference.notebook("autograded", ASSIGNMENT, record.student))
        nb.metadata[STAMP]["incidents"] = seen.metadata[STAMP].get("incidents", [])
        return nb, resources

    ProbedExecute.preprocess = preprocess


WORKERS = 1
"""How many processes grade; with more than one, notebooks are not played back."""


RUNS: set[str] = set()
"""The ids of the runs that were killed."""


ENDED: list[int] = []
"""How the runs ended that were not killed, as the shell says it: 137 is a kill by somebody else."""


def run(course: Course, seconds: float | None) -> bool:
    """Grade in a process of its own and kill it after `seconds`; returns whether it came to its end."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        place = ["--course", str(course.root), "--assignment", ASSIGNMENT]
        os._exit(autograde(["grade", "--quiet", *place, "--workers", str(WORKERS)]))
    deadline = None if seconds is None else time.monotonic() + seconds
    while (ended := os.waitpid(child, 0 if deadline is None else os.WNOHANG)) == (0, 0):
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with contextlib.suppress(OSError, ValueError, KeyError):
                RUNS.add(json.loads((course.root / ".writer").read_text("utf-8"))["run"])
            return False
        time.sleep(0.002)
    ENDED.append(os.waitstatus_to_exitcode(ended[1]))
    return True


def records(course: Course) -> dict[str, tuple[int, bytes]]:
    """The journal: a record that was written again has another inode."""
    found = sorted((course.root / "journal").rglob("*.json"))
    return {path.stem: (path.stat().st_ino, path.read_bytes()) for path in found}


def rewritten(before: dict[str, tuple[int, bytes]], now: dict[str, tuple[int, bytes]]) -> list[str]:
    """What a second run graded again, with what its record said before."""
    again = [json.loads(record[1]) for name, record in before.items() if now.get(name) != record]
    return [f"{record['student']}: {record['state']}, {record['reason']}" for record in again]


def scores(course: Course) -> list[Any]:
    """Every score of the gradebook, as it stands in the database."""
    with sqlite3.connect(course.root / "gradebook.db") as database:
        return database.execute(
            "select submitted_assignment.student_id, base_cell.name, grade.auto_score, grade.needs_manual_grade "
            "from grade join submitted_notebook on grade.notebook_id = submitted_notebook.id "
            "join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id "
            "join base_cell on grade.cell_id = base_cell.id order by 1, 2"
        ).fetchall()


def tables(course: Course) -> list[Any]:
    """What must be the same as after an undisturbed run."""
    write_csv(course, [ASSIGNMENT])
    return [course.grades.read_text("utf-8"), (course.root / "questions.csv").read_text("utf-8"), scores(course)]


def leftovers(course: Course) -> list[str]:
    """Processes, temporary folders and half-written files that a finished run should not leave."""
    marks = {f"{RUN_VARIABLE}={one}".encode() for one in RUNS}
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environment.read_bytes().split(b"\0")
        except OSError:
            continue
        if marks.intersection(variables):
            found.append(f"process {environment.parent.name}")
    found += [str(path) for path in Path(tempfile.gettempdir()).iterdir()]
    found += [str(path) for path in course.root.rglob(".*") if path.name not in (".writer", ".gitignore")]
    whole = {path.parent.parent.name for path in course.root.glob("autograded/*/*/*.ipynb")}
    found += [str(path) for path in course.root.glob("autograded/*") if path.name not in whole]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("course", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("share", type=float)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    global WORKERS
    WORKERS = options.workers
    tempfile.tempdir = tempfile.mkdtemp(prefix="kills-")
    if options.replay is not None:
        play_back(Course(options.replay))
    draw, course = random.Random(options.seed), Course(options.folder / "course")
    shutil.copytree(options.course, course.root)
    began = time.monotonic()
    run(course, None)
    seconds = options.share * (time.monotonic() - began)
    expected = tables(course)
    kills = 0
    while kills < options.kills:
        shutil.rmtree(course.root)
        shutil.copytree(options.course, course.root)
        killed, repeated, finished = 0, [], records(course)
        while killed + kills < options.kills and not run(course, draw.uniform(0, seconds)):
            killed += 1
            now = records(course)
            repeated += rewritten(finished, now)
            finished = now
        run(course, None)
        now = records(course)
        repeated += rewritten(finished, now)
        same = tables(course) == expected
        kills += killed
        line = {"kills": killed, "same": same, "repeated": repeated, "left": leftovers(course), "ended": ENDED[-3:]}
        print(json.dumps(line), flush=True)
    shutil.rmtree(tempfile.gettempdir())


if __name__ == "__main__":
    main()
