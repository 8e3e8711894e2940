"""Files as students send them: what can be read is read, with a note; what cannot has a reason to pass on."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.submissions import CLIP, FIRST, RIGHT, SECOND, Notebook, cell_of, earned, edited, handed_in, rebuilt

from autograders import notebooks
from autograders.course import Course, CourseError
from autograders.intake.intake import receive, stage, submission_digest, submitted_students
from autograders.intake.reading.decoding import MAX_BYTES, Unreadable
from autograders.intake.reading.reading import read_notebook
from autograders.intake.reading.rebuild import rebuild
from autograders.intake.times import due_dates, parse_time
from autograders.intake.times import handed_in as time_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def good(released: Course) -> Notebook:
    """A submission with full points, with a character outside ASCII in it."""
    nb = handed_in(released)
    cell_of(nb, CLIP)["source"] += "\n# größer – naïve"
    return nb


def text(nb: Notebook, **options: object) -> str:
    return json.dumps(nb, ensure_ascii=False, indent=1, **options)  # type: ignore[arg-type]


def worksheets(nb: Notebook) -> Notebook:
    """The notebook in format 3."""
    cells = []
    for cell in nb["cells"]:
        old = {key: value for key, value in cell.items() if key not in ("id", "source", "execution_count")}
        key = "input" if cell["cell_type"] == "code" else "source"
        cells.append({**old, key: cell["source"], "language": "python", "prompt_number": 1})
    cells.insert(0, {"cell_type": "heading", "level": 1, "source": "Title", "metadata": {}})
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def conflict_in_outputs(nb: Notebook) -> bytes:
    whole = text(nb)
    line = next(line for line in whole.splitlines() if '"execution_count"' in line)
    both = f"<<<<<<< HEAD\n{line}\n=======\n{line.replace('null', '7')}\n>>>>>>> main"
    return whole.replace(line, both, 1).encode()


def many_outputs(nb: Notebook) -> bytes:
    loud = {"output_type": "stream", "name": "stdout", "text": ["x" * 1000 + "\n"] * 31_000}
    return text(edited(nb, lambda nb: cell_of(nb, CLIP).update(outputs=[loud]))).encode()


def odd_metadata(nb: Notebook) -> None:
    nb["metadata"] = "none"
    for cell in nb["cells"][:3]:
        cell["metadata"]["tags"] = {"a": float("nan")}
        cell["metadata"]["collapsed"] = ["maybe"]
    nb["cells"][1].pop("source")
    nb["cells"][2].pop("metadata")


def junk_among_cells(nb: Notebook) -> None:
    nb["cells"] += [
        3,
        None,
        "x",
        {},
        {"cell_type": ["code"], "source": [1, "y"]},
        {"cell_type": "heading", "source": 4},
    ]


def set_path(*keys: str, to: object) -> Callable[[Notebook], None]:
    def change(nb: Notebook) -> None:
        inner = nb
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = to

    return change


def with_edit(edit: Callable[[Notebook], None]) -> Callable[[Notebook], bytes]:
    return lambda nb: json.dumps(edited(nb, edit)).encode()


REPAIRED: dict[str, tuple[Callable[[Notebook], bytes], str]] = {
    "as Jupyter writes it": (lambda nb: text(nb).encode(), ""),
    "BOM": (lambda nb: b"\xef\xbb\xbf" + text(nb).encode(), "byte order mark"),
    "UTF-16 with a mark": (lambda nb: text(nb).encode("utf-16"), "saved as UTF-16-LE"),
    "UTF-16 big endian": (lambda nb: b"\xfe\xff" + text(nb).encode("utf-16-be"), "saved as UTF-16-BE"),
    "UTF-16 without a mark": (lambda nb: text(nb).encode("utf-16-le"), "saved as UTF-16-LE"),
    "UTF-32": (lambda nb: text(nb).encode("utf-32"), "saved as UTF-32-LE"),
    "Latin-1": (lambda nb: text(nb).replace("–", "-").encode("latin-1", "ignore"), "read as Latin-1"),
    "CRLF": (lambda nb: text(nb).replace("\n", "\r\n").replace("\\n", "\\r\\n").encode(), ""),
    "zero bytes at the end": (lambda nb: text(nb).encode() + b"\0" * 500, "ended in zero bytes"),
    "conflict in an output": (conflict_in_outputs, "merge conflict"),
    "format 3": (lambda nb: json.dumps(worksheets(nb)).encode(), "notebook format 3, and upgraded"),
    "format 99": (with_edit(set_path("nbformat", to=99)), "notebook format 99"),
    "format missing": (with_edit(lambda nb: nb.pop("nbformat")), "notebook format None"),
    "minor format odd": (with_edit(set_path("nbformat_minor", to="five")), ""),
    "31 MB of outputs": (many_outputs, ""),
    "odd metadata": (with_edit(odd_metadata), "metadata were damaged"),
    "junk among the cells": (with_edit(junk_among_cells), "is not a cell and is left out"),
    "NaN": (with_edit(set_path("metadata", "version", to=float("nan"))), ""),
    "widgets": (with_edit(set_path("metadata", "widgets", to={"state": 3})), ""),
    "wrong kernel": (
        with_edit(set_path("metadata", "kernelspec", to={"name": "ir", "language": "R"})),
        "kernel for 'R'",
    ),
    "no kernel": (with_edit(set_path("metadata", "kernelspec", to=["python3"])), ""),
    "forged stamp": (with_edit(set_path("metadata", "lecture", to=[{"notes": []}])), ""),
    "lone surrogate": (
        with_edit(lambda nb: cell_of(nb, CLIP).update(source=cell_of(nb, CLIP)["source"] + "\n# \ud800")),
        "half a character",
    ),
    "lone surrogate in bytes": (
        lambda nb: text(nb).replace("naïve", "\ud800").encode("utf-8", "surrogatepass"),
        "half a character",
    ),
    "cell ids twice and odd": (
        with_edit(
            lambda nb: [cell.update(id=f"{'a b' if number % 2 else ''}") for number, cell in enumerate(nb["cells"])]
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_can_be_repaired_keeps_its_points_and_is_noted(released: Course, good: Notebook, name: str) -> None:
    make, note = REPAIRED[name]
    read = read_notebook(make(good))
    assert note in "; ".join(read.notes)
    assert bool(read.notes) == bool(note)
    graded = rebuild(read.notebook, notebooks.read(released.notebook("release", FIRST)))
    assert {question: earned(graded, question) for question in RIGHT} == dict.fromkeys(RIGHT, 8.0)


@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_read_breaks_no_converter(good: Notebook, name: str) -> None:
    """It is valid, small, and reading it again changes nothing: nbgrader meets this and nothing else."""
    import nbformat

    read = read_notebook(REPAIRED[name][0](good)).notebook
    nbformat.validate(read)
    written = nbformat.writes(read)
    assert len(written) < 1.1 * len(text(good))
    again = read_notebook(written.encode()).notebook
    assert nbformat.writes(again) == written


def half_a_conflict(nb: Notebook) -> bytes:
    return conflict_in_outputs(nb).replace(b">>>>>>> main\n", b"")


def conflict_in_an_answer(nb: Notebook) -> bytes:
    whole = text(edited(nb, lambda nb: cell_of(nb, CLIP).update(source="a = 1")))
    line = next(line for line in whole.splitlines() if '"a = 1"' in line)
    return whole.replace(line, f"<<<<<<< HEAD\n{line}\n=======\n{line.replace('1', '2')}\n>>>>>>> main", 1).encode()


UNREADABLE: dict[str, tuple[Callable[[Notebook], bytes], str]] = {
    "empty": (lambda _: b"", "the file is empty"),
    "spaces and zeros": (lambda _: b" \n\0\0", "the file is empty"),
    "truncated": (lambda nb: text(nb).encode()[: len(text(nb)) // 2], "not JSON .*cut off"),
    "not JSON": (lambda _: b"hello", "not JSON"),
    "random bytes": (lambda _: bytes(range(1, 256)), "not JSON"),
    "a zip": (lambda _: b"PK\x03\x04rest", "a zip archive under another name"),
    "a PDF": (lambda _: b"%PDF-1.7", "it is a PDF"),
    "an HTML page": (lambda _: b"<!DOCTYPE html><html>", "it is an HTML page"),
    "a Git LFS pointer": (lambda _: b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
    "half a conflict": (half_a_conflict, "half a merge conflict"),
    "conflict in an answer": (conflict_in_an_answer, "the two sides differ"),
    "a list": (lambda _: b"[]", "its JSON is a list"),
    "a number": (lambda _: b"1", "its JSON is a int"),
    "no cells": (lambda _: b"{}", "no list of cells"),
    "cells no list": (lambda _: b'{"nbformat": 4, "cells": {}}', "no list of cells"),
    "worksheets empty": (lambda _: b'{"nbformat": 3, "worksheets": [{}]}', "no list of cells"),
    "nested too deep": (lambda _: b"[" * 100_000, "thousands deep: no notebook. Save it in Jupyter"),
    "a number of 5,000 digits": (lambda _: b'{"cells": [], "n": ' + b"9" * 5000 + b"}", "ValueError"),
    "too many cells": (lambda _: b'{"cells": [' + b"{}," * 6_000 + b"{}]}", "6,001 cells"),
    "too large": (lambda _: b" " * (MAX_BYTES + 1), "are allowed: clear the outputs"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_has_a_reason(good: Notebook, name: str) -> None:
    make, reason = UNREADABLE[name]
    with pytest.raises(Unreadable, match=reason):
        read_notebook(make(good))


@pytest.fixture
def folder(released: Course, tmp_path: Path) -> tuple[Course, Path]:
    """A course with an empty folder for one submission."""
    course = Course(tmp_path / "course")
    (course.root / "release").mkdir(parents=True)
    (course.root / "release" / FIRST).symlink_to(released.step("release", assignment=FIRST))
    path = course.step("submitted", "O'Brien, Zoë +1", FIRST)
    path.mkdir(parents=True)
    return course, path


STUDENT = "O'Brien, Zoë +1"
EXACT = f"{FIRST}.ipynb"


def zipped(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


PLACES: dict[str, tuple[Callable[[Path, bytes], object], str]] = {
    "renamed": (lambda path, nb: (path / "03a final FINAL (2).ipynb").write_bytes(nb), "it was found by its cells"),
    "upper-case ending": (lambda path, nb: (path / f"{FIRST}.IPYNB").write_bytes(nb), "found by its cells"),
    "nested": (
        lambda path, nb: [(path / "a" / "b").mkdir(parents=True), (path / "a" / "b" / EXACT).write_bytes(nb)],
        "the notebook is called a/b/",
    ),
    "in a zip": (lambda path, nb: zipped(path / "x.zip", {f"me/{EXACT}": nb}), "the notebook is called x.zip/me/"),
    "a zip beside it": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), zipped(path / "x.zip", {EXACT: b"{}"})],
        "",
    ),
    "extra files": (
        lambda path, nb: [(path / name).write_bytes(nb) for name in (EXACT, "numpy.py", "judges.py", ".hidden")],
        "",
    ),
    "checkpoints": (
        lambda path, nb: [
            (path / ".ipynb_checkpoints").mkdir(),
            *((path / name).write_bytes(nb) for name in (EXACT, ".ipynb_checkpoints/x.ipynb", "._x.ipynb")),
        ],
        "",
    ),
    "another notebook beside it": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), (path / "test.ipynb").write_bytes(b"{}")],
        "there are other notebooks, not graded: test.ipynb",
    ),
    "the right name is broken": (
        lambda path, nb: [(path / EXACT).write_bytes(b"{"), (path / "copy.ipynb").write_bytes(nb)],
        "the notebook is called copy.ipynb",
    ),
    "two identical copies": (
        lambda path, nb: [(path / name).write_bytes(nb) for name in ("a.ipynb", "b.ipynb")],
        "the notebook is called a.ipynb",
    ),
    "a link beside it": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), (path / "secret").symlink_to("/etc/passwd")],
        "",
    ),
    "a link to everything": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), (path / "all").symlink_to("/")],
        "",
    ),
    "a link around in circles": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), (path / "again").symlink_to(path)],
        "",
    ),
    "a pipe beside it": (
        lambda path, nb: [(path / EXACT).write_bytes(nb), os.mkfifo(path / "data.csv")],
        "",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_notebook_is_found_wherever_it_is(folder, good: Notebook, name: str) -> None:
    course, path = folder
    make, note = PLACES[name]
    make(path, text(good).encode())
    received = receive(course, FIRST, STUDENT)
    assert note in "; ".join(received.notes)
    assert bool(received.notes) == bool(note)
    assert [cell.source for cell in received.notebook.cells] == [
        cell.source for cell in read_notebook(text(good).encode()).notebook.cells
    ]
    assert stage(course, FIRST, STUDENT) == received.notes
    assert sorted(item.name for item in course.step("received", STUDENT, FIRST).iterdir()) == [EXACT]


NO_PLACES: dict[str, tuple[Callable[[Path, bytes], object], str]] = {
    "nothing": (lambda path, nb: None, "no notebook 03a-training-recipe.ipynb$"),
    "only other files": (lambda path, nb: (path / "x.py").write_text("x"), "the folder holds x.py"),
    "a link": (lambda path, nb: (path / EXACT).symlink_to("/dev/zero"), "it is a link, which is not followed"),
    "a pipe": (lambda path, nb: os.mkfifo(path / EXACT), "it is a pipe, which is not followed"),
    "two that differ": (
        lambda path, nb: [(path / "a.ipynb").write_bytes(nb), (path / "b.ipynb").write_bytes(nb.replace(b"gr", b"fr"))],
        "2 notebooks are 03a-training-recipe .a.ipynb, b.ipynb.: which one counts",
    ),
    "a folder of the name": (lambda path, nb: (path / EXACT).mkdir(), "no notebook"),
    "a zip that leads out": (
        lambda path, nb: zipped(path / "x.zip", {"../../evil.ipynb": nb}),
        "x.zip: ../../evil.ipynb: its path leads out of the archive",
    ),
}


@pytest.mark.parametrize("name", NO_PLACES)
def test_what_is_no_notebook_has_a_reason_and_is_not_followed(folder, good: Notebook, name: str) -> None:
    course, path = folder
    make, reason = NO_PLACES[name]
    make(path, text(good).encode())
    with pytest.raises(Unreadable, match=reason):
        receive(course, FIRST, STUDENT)
    assert isinstance(submission_digest(course, FIRST, STUDENT), str)


def test_another_assignments_notebook_is_said_to_be_one(folder, released: Course) -> None:
    course, path = folder
    (path / EXACT).write_bytes(released.notebook("release", SECOND).read_bytes())
    with pytest.raises(Unreadable, match=f"none of its cells is of {FIRST}"):
        receive(course, FIRST, STUDENT)


def test_a_folder_that_is_a_link_is_not_followed(folder, good: Notebook) -> None:
    """Otherwise one student could hand in another's work, or be given it."""
    course, path = folder
    (path / EXACT).write_bytes(text(good).encode())
    (course.root / "submitted" / "eve").symlink_to(path.parent)
    (course.root / "submitted" / "mallory").mkdir()
    (course.root / "submitted" / "mallory" / FIRST).symlink_to(path)
    assert submitted_students(course, FIRST) == [STUDENT, "eve", "mallory"]
    for student in ("eve", "mallory"):
        with pytest.raises(Unreadable, match="the submission's folder is a link"):
            receive(course, FIRST, student)


def test_the_digest_changes_with_whatever_the_score_depends_on(folder, good: Notebook) -> None:
    course, path = folder
    found = []
    for change in (
        lambda: None,
        lambda: (path / "renamed.ipynb").write_bytes(b"{}"),
        lambda: (path / "renamed.ipynb").write_bytes(text(good).encode()),
        lambda: (path / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC"),
        lambda: (path / "timestamp.txt").write_text("2026-01-02 00:00:00 UTC"),
    ):
        change()
        found.append(submission_digest(course, FIRST, STUDENT))
    assert len(set(found)) == 5
    assert submission_digest(course, FIRST, "nobody") is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-03-01 12:00:00.5 UTC", "2026-03-01T12:00:00.500000"),
        ("2026-03-01 12:00:00", "2026-03-01T12:00:00"),
        ("2026-03-01T12:00Z", "2026-03-01T12:00:00"),
        ("2026-03-01 12:00 +0130", "2026-03-01T10:30:00"),
        ("2026-07-01 12:00:00 Europe/Berlin", "2026-07-01T10:00:00"),
        ("2026-03-01 12:00:00 XYZ", "2026-03-01T12:00:00"),
        *((garbage, None) for garbage in ("", "now", "10", "May", "a", "2026-13-01 00:00", "1970-01-01 00:00:00 UTC")),
        *(
            (garbage, None)
            for garbage in ("9999-12-31 23:59 -2300", "2026-03-01", "NaN", "\x00", "2026-03-01 12:00 +9999")
        ),
    ],
)
def test_a_time_is_one_or_it_is_not(given: str, expected: str | None) -> None:
    found = parse_time(given)
    assert (None if found is None else found.isoformat()) == expected


RECEIVED = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "time", "note"),
    [
        (b"2026-03-01 12:00:00 UTC\n", "2026-03-01 12:00", ""),
        (b"\xef\xbb\xbf2026-03-01 12:00:00 UTC\r\n", "2026-03-01 12:00", ""),
        (b"2099-03-01 12:00:00 UTC", "2026-03-02 08:00", "later than it was written"),
        (b"garbage", "2026-03-02 08:00", "holds no time"),
        (b"", "2026-03-02 08:00", "holds no time"),
        (b"\xff\xfe\x00" * 99, "2026-03-02 08:00", "holds no time"),
    ],
    ids=["right", "BOM", "future", "garbage", "empty", "binary"],
)
def test_a_time_that_cannot_be_right_is_replaced_by_when_it_was_received(
    tmp_path: Path, content: bytes, time: str, note: str
) -> None:
    path = tmp_path / "timestamp.txt"
    path.write_bytes(content)
    os.utime(path, (RECEIVED.timestamp(), RECEIVED.timestamp()))
    found = time_of(tmp_path)
    assert f"{found.time:%Y-%m-%d %H:%M}" == time
    assert note in found.note
    assert bool(found.note) == bool(note)


def test_a_timestamp_that_is_a_pipe_or_a_link_is_not_opened(tmp_path: Path) -> None:
    assert time_of(tmp_path).time is None
    os.mkfifo(tmp_path / "timestamp.txt")
    assert "is a pipe" in time_of(tmp_path).note
    (tmp_path / "timestamp.txt").unlink()
    (tmp_path / "timestamp.txt").symlink_to("/dev/zero")
    assert "is a link" in time_of(tmp_path).note


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("assignment,due\n03a,tomorrow", "line 2: 'tomorrow' is not a due date"),
        ("assignment,due\n03a,2026-03-01 12:00", "with the zone"),
        ("assignment,due,late_penalty\n03a,2026-03-01 12:00 UTC,half", "nbgrader has none and zero"),
        ("name,date\n", "no column 'assignment'"),
    ],
)
def test_a_due_date_that_cannot_be_read_is_refused_with_the_remedy(tmp_path: Path, lines: str, message: str) -> None:
    course = Course(tmp_path)
    (tmp_path / "assignments.csv").write_text(lines)
    with pytest.raises(CourseError, match=message):
        due_dates(course)
    (tmp_path / "assignments.csv").write_text("assignment,due,late_penalty\n03a,2026-03-01 12:00 +0100,zero\n03b,,\n")
    assert due_dates(course)["03a"].date == datetime(2026, 3, 1, 11)
    assert due_dates(course)["03b"].date is None


def test_forged_metadata_reach_nothing(released: Course, good: Notebook) -> None:
    """What the grader writes into a notebook's metadata cannot be put there by a student."""
    forged = {"version": "x", "verdicts": {CLIP: {"points": 8}}, "observations": {}, "incident": "none", "late": {}}
    nb = edited(good, set_path("metadata", "lecture", to=forged))
    assert set(rebuilt(released, nb).metadata["lecture"]) == {"notes", "submitted_version", "submitted_release"}


def test_a_blank_original_beside_a_complete_copy_does_not_count(folder, released: Course, good: Notebook) -> None:
    """Of several copies the one with all answers counts; two that contradict each other are asked about."""
    course, path = folder
    blank = released.notebook("release", FIRST).read_bytes()
    half = edited(good, lambda nb: cell_of(nb, CLIP).update(source=cell_of(json.loads(blank), CLIP)["source"]))
    (path / EXACT).write_bytes(blank)
    (path / "mine.ipynb").write_text(json.dumps(good), "utf-8")
    received = receive(course, FIRST, STUDENT)
    assert {cell.source for cell in received.notebook.cells} >= {cell_of(good, CLIP)["source"]}
    assert "the notebook is called mine.ipynb" in "; ".join(received.notes)
    (path / EXACT).write_text(json.dumps(half), "utf-8")
    assert "mine.ipynb" in receive(course, FIRST, STUDENT).notes[0]
    (path / EXACT).write_bytes(blank)
    (path / "other.ipynb").write_text(json.dumps(edited(good, another_text)), "utf-8")
    with pytest.raises(Unreadable, match="which one counts"):
        receive(course, FIRST, STUDENT)


def another_text(nb: Notebook) -> None:
    cell_of(nb, CLIP)["source"] = "def clip_by_global_norm(*arguments):\n    return 1"
