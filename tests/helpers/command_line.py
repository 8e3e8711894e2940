"""Runs `autograde` and scripts in processes that are forked from one which has imported PyTorch and nbgrader already.

A command of its own takes five seconds for that, and the tests run a hundred. What a process holds besides its imports
is its own, as it is for an instructor; test_runner.py and test_published_course.py start commands from nothing.
"""

from __future__ import annotations

import atexit
import importlib.util
import multiprocessing
import multiprocessing.util
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograders.questions import answer_process

ROOT = Path(__file__).resolve().parents[2]

_FORKED = multiprocessing.get_context("forkserver")
# A process has one server to fork from, for commands and for the bank's answers: it imports what both need, whichever
# of them starts it. An answer would import PyTorch's compiler anew, a command nbgrader.
answer_process.PRELOADED += ["autograders.__main__", "autograders.grading.grade", "nbgrader.converters"]
_FORKED.set_forkserver_preload(answer_process.PRELOADED)


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Run `autograde` with these arguments at the top of the checkout, in this environment or another."""
    return _forked(_autograde, ["autograde", *arguments], environment)


def run_script(path: Path, *arguments: str) -> Finished:
    """Run `python path arguments` at the top of the checkout."""
    return _forked(_script, [str(path), *arguments], None)


def _forked(program: Callable[[], object], arguments: Sequence[str], environment: Mapping[str, str] | None) -> Finished:
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("out", "err")]
        process = _FORKED.Process(target=_run, args=(program, arguments, dict(environment or os.environ), files))
        process.start()
        process.join()
        out, err = (Path(file).read_text("utf-8") for file in files)
    assert process.exitcode is not None
    return Finished(process.exitcode, out, err)


def _run(
    program: Callable[[], object], arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[str]
) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # read $TMPDIR anew
    for stream, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
    multiprocessing.util.Finalize(None, atexit._run_exitfuncs, exitpriority=0)
    sys.argv = list(arguments)
    _customize(environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.exit(program())


def _customize(path: Sequence[str]) -> None:
    """Run the first sitecustomize.py on PYTHONPATH, as a process that starts from nothing does."""
    for file in (Path(folder) / "sitecustomize.py" for folder in path if folder):
        if file.is_file():
            spec = importlib.util.spec_from_file_location("sitecustomize", file)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


def _autograde() -> int:
    from autograders.__main__ import main

    return main(sys.argv[1:])


def _script() -> None:
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
