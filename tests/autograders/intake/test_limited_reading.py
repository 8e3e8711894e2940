"""Reading costs the grader little, whatever is handed in: limits, a process of its own, notebooks changed at random."""

from __future__ import annotations

import ast
import copy
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import nbformat
import pytest
from helpers.submissions import CLIP, FIRST, RIGHT, Notebook, cell_of, code, earned, edited, handed_in, rebuilt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograders import notebooks
from autograders.course import Course
from autograders.intake.intake import receive
from autograders.intake.reading import limited_reading
from autograders.intake.reading.decoding import Unreadable, read_json
from autograders.intake.reading.limited_process import LimitedProcess, OverLimit
from autograders.intake.reading.matching import answer_cells
from autograders.intake.reading.reading import read_notebook
from autograders.intake.reading.rebuild import rebuild
from autograders.intake.reading.submission_limits import (
    MAX_ALL,
    MAX_ALL_CODE,
    MAX_CODE,
    MAX_LISTS,
    MAX_NOTEBOOKS,
    MAX_NOTES,
    MAX_TEXT,
)
from autograders.notebooks import as_text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def good(released: Course) -> Notebook:
    return handed_in(released)


@pytest.fixture
def process() -> Iterator[LimitedProcess]:
    limited = LimitedProcess(1.0, 300, preload=[])
    yield limited
    limited.close()


SPIN = "while True: pass"
BUSY = """
import time
end = time.process_time() + 0.6
while time.process_time() < end:
    pass
"""
ODD = """
class Odd(Exception):
    "An exception that pickle cannot carry."
raise Odd("1 and 2")
"""


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (exec, (SPIN,), "takes more than 1 s of computing time"),
        (bytes, (10**9,), "needs more than 300 MB of memory"),
        (os.abort, (), "ended the process that did it"),
    ],
)
def test_a_call_that_takes_too_much_is_stopped_and_the_next_one_is_answered(
    process: LimitedProcess, function: Callable[..., Any], arguments: tuple[Any, ...], says: str
) -> None:
    assert process.call(sorted, [2, 1]) == [1, 2]
    with pytest.raises(OverLimit, match=says):
        process.call(function, *arguments)
    assert process.call(sorted, [2, 1]) == [1, 2]


def test_what_a_call_raises_arrives(process: LimitedProcess) -> None:
    with pytest.raises(Unreadable, match="the file is empty"):
        process.call(read_json, b" ")
    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        process.call(exec, ODD)


def test_each_call_has_the_whole_time(process: LimitedProcess) -> None:
    """Three calls of 0.6 s within a limit of 1 s."""
    for _ in range(3):
        process.call(exec, BUSY)


def test_a_process_that_somebody_killed_has_a_successor(process: LimitedProcess) -> None:
    number = process.call(os.getpid)
    os.kill(number, signal.SIGKILL)
    assert process.call(os.getpid) not in (number, os.getpid())


def raw(*cells: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **fields}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<<<<<<<\n=======\n" * 1000, "half a merge conflict"),
        (b"<<<<<<<\n" * 100_000 + b"=======\n" * 100_000, "half a merge conflict"),
        (b"[" * 100_000, "brackets within brackets"),
        (b'{"cells": [], "x": [' + b"[]," * MAX_LISTS + b"1]}", "opening brackets"),
        (raw(*[code("x = 1\n" * 30_000)] * 12), f"{MAX_ALL_CODE:,} are allowed"),
        (raw(*[{"cell_type": "raw", "source": "x" * MAX_TEXT}] * 5), f"{MAX_ALL:,} are allowed"),
        (raw(nbformat={"a": ["b"] * 1000}, cells=0), r"no list of cells \(notebook format a dict\)"),
        (raw(nbformat=3, cells=None, worksheets=[{"cells": 5}]), "no list of cells"),
    ],
    ids=["conflicts", "more conflicts", "nesting", "lists", "code", "text", "format", "worksheets"],
)
def test_what_would_take_long_is_refused_with_its_own_reason(content: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        limited_reading.read_notebook(content)


def test_what_takes_too_long_to_read_is_unreadable(monkeypatch: pytest.MonkeyPatch, process: LimitedProcess) -> None:
    monkeypatch.setattr("autograders.intake.reading.limited_reading.reader", process)
    with pytest.raises(Unreadable, match=r"reading it takes more than 1 s of computing time, .* hand in again"):
        limited_reading._call("reading it", exec, SPIN)


def test_an_error_that_nobody_foresaw_costs_the_file_only() -> None:
    with pytest.raises(Unreadable, match=r"reading it failed \(ValueError: invalid .*\): talk to your instructor"):
        limited_reading._call("reading it", int, "x")


def test_each_cell_is_parsed_once_for_all_answers_that_are_missing(
    released_in_full: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    nb = json.loads(released_in_full.notebook("release", FIRST).read_text("utf-8"))
    nb["cells"] += [code(f"x = {number}\n" * 1000) for number in range(20)]
    parse, sources = ast.parse, list[str]()
    monkeypatch.setattr("ast.parse", lambda source: (sources.append(source), parse(source))[1])
    rebuilt(released_in_full, nb)
    sources = [source for source in sources if len(source) > 5000]
    assert len(sources) == 20
    assert len(set(sources)) == 20


def test_a_cell_that_is_too_long_costs_its_own_question(released: Course, good: Notebook) -> None:
    def lengthen(nb: Notebook) -> None:
        cell_of(nb, CLIP)["source"] += "\nx = 1" * (MAX_CODE // 6)

    nb = json.dumps(edited(good, lengthen)).encode()
    read = limited_reading.read_notebook(nb)
    assert f"a code cell may have {MAX_CODE:,}: it is left out" in "; ".join(read.notes)
    graded = limited_reading.rebuilt(read.notebook, released.notebook("release", FIRST))
    points = {question: earned(graded, question) for question in RIGHT}
    assert points == dict.fromkeys(RIGHT, 8.0) | {CLIP: 0.0}


def test_of_very_many_notebooks_some_are_looked_at_one_at_a_time(
    course: Course, good: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = course.step("submitted", "ada", FIRST)
    folder.mkdir(parents=True)
    for number in range(MAX_NOTEBOOKS + 5):
        (folder / f"a{number:03}.ipynb").write_text("{}")
    looked: list[bytes] = []
    real = limited_reading.read_notebook
    monkeypatch.setattr(
        "autograders.intake.intake.read_notebook", lambda content: (looked.append(content), real(content))[1]
    )
    with pytest.raises(Unreadable, match="no list of cells"):
        receive(course, FIRST, "ada")
    assert len(looked) == MAX_NOTEBOOKS
    (folder / f"{FIRST}.ipynb").write_text(json.dumps(good))
    looked.clear()
    assert "there are other notebooks, not graded: a000.ipynb" in receive(course, FIRST, "ada").notes[-1]
    assert looked[0] == json.dumps(good).encode()
    assert len(looked) == MAX_NOTEBOOKS


def test_a_notebook_beside_it_that_takes_too_long_costs_nothing(
    course: Course, good: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = course.step("submitted", "ada", FIRST)
    folder.mkdir(parents=True)
    (folder / "a.ipynb").write_bytes(raw(code("x = 1")))
    (folder / "mine.ipynb").write_text(json.dumps(good))
    process = LimitedProcess(1.0, 300, preload=[])
    monkeypatch.setattr("autograders.intake.reading.limited_reading.reader", process)
    monkeypatch.setattr("autograders.intake.reading.limited_reading.rebuild.has_answers", exec)
    assert "the notebook is called mine.ipynb" in receive(course, FIRST, "ada").notes[0]
    process.close()


def test_thousands_of_repairs_are_told_in_short() -> None:
    read = read_notebook(raw(*[{"cell_type": "code", "source": f"\ud800{number}"} for number in range(500)]))
    assert len(read.notes) == MAX_NOTES + 1
    assert read.notes[-1] == f"and {500 - MAX_NOTES} more repairs"


KEYS = st.text(max_size=4) | st.just("\udfff")
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["\ud800", "\udcdc", "\x1b[31m", "a" * 3000, "03a-clip", "code", "../x", "1" * 4000, -1, 2**70]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("\udfff"), inner, max_size=3)
    ),
    max_leaves=5,
)


def change_at_random(value: Any, data: st.DataObject) -> None:
    """Put something else in the place of one thing in nested JSON, take it out, or put it in twice."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            value = inner
            continue
        match data.draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                value[key] = data.draw(JUNK)
            case "remove":
                del value[key]
            case _ if isinstance(value, dict):
                value[data.draw(st.text(max_size=5))] = copy.deepcopy(inner)
            case _:
                value.insert(key, copy.deepcopy(inner))
        return


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_notebook_changed_at_random_is_read_or_refused_and_never_harms(
    released: Course, good: Notebook, data: st.DataObject
) -> None:
    nb = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 4))):
        change_at_random(nb, data)
    check_what_is_read(released, nb)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_cell_changed_at_random_costs_no_other_question(
    released: Course, good: Notebook, data: st.DataObject
) -> None:
    nb = copy.deepcopy(good)
    name = data.draw(st.sampled_from(list(RIGHT)))
    for _ in range(data.draw(st.integers(1, 3))):
        change_at_random(cell_of(nb, name) if name in ids(nb) else nb["cells"][-1], data)
    graded = check_what_is_read(released, nb)
    assert graded is not None
    for other in set(RIGHT) - {name}:
        assert answer_cells(graded)[other].source == cell_of(good, other)["source"]


def ids(nb: Notebook) -> list[Any]:
    found = []
    for cell in nb["cells"]:
        meta = cell.get("metadata")
        inner = meta.get("nbgrader") if isinstance(meta, dict) else None
        found.append(inner.get("grade_id") if isinstance(inner, dict) else None)
    return found


def check_what_is_read(released: Course, nb: Any) -> Any:
    """Read and rebuild it: what comes of that is a notebook that can be validated and written; else None."""
    content = json.dumps(nb).encode()
    try:
        read = read_notebook(content)
        graded = rebuild(read.notebook, notebooks.read(released.notebook("release", FIRST)))
    except Unreadable as error:
        refused = str(error)
        refused.encode()
        return None
    for each in (read.notebook, graded):
        nbformat.validate(each)
        as_text(each).encode()
    "".join(read.notes).encode()
    assert all(len(note) < 300 for note in read.notes)
    return graded
