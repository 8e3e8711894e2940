"""From a student's folder to the instructor's: pack, collect, and what is refused on the way with which words."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from conftest import autograde, kept_assignments

from autograders.course import STUB, TEXT_STUB, Course
from lecture_lib.__main__ import main as lecture
from lecture_lib.commands.submit import STUBS, SubmitError, submit, unanswered

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"


@pytest.fixture
def student(released: Course, tmp_path: Path) -> Path:
    """A student's folder with the released notebooks, the first question answered."""
    folder = tmp_path / "student"
    (folder / "notebooks").mkdir(parents=True)
    for name in kept_assignments():
        text = (released.bundle / "notebooks" / f"{name}.ipynb").read_text("utf-8")
        (folder / "notebooks" / f"{name}.ipynb").write_text(text, "utf-8")
    path = folder / "notebooks" / f"{FIRST}.ipynb"
    nb = json.loads(path.read_text("utf-8"))
    cell = next(c for c in nb["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "03a-accumulate")
    cell["source"] = "def accumulate_epoch(*arguments):\n    pass"
    path.write_text(json.dumps(nb), "utf-8")
    return folder


def test_packing_says_what_is_unanswered(student: Path) -> None:
    packed = submit("ada", "Ada L.", folder=student, to=student)
    assert packed.unanswered == {
        FIRST: ["03a-clip", "03a-p5"],
        "03b-debug-ladder": ["03b-inspect", "03b-baseline", "03b-p4"],
    }
    assert "03a-clip, 03a-p5" in str(packed)
    assert STUBS == (STUB, TEXT_STUB)


def test_the_released_stubs_are_what_packing_looks_for(released: Course) -> None:
    for name in kept_assignments():
        nb = json.loads((released.bundle / "notebooks" / f"{name}.ipynb").read_text("utf-8"))
        answers = [
            c["metadata"]["nbgrader"]["grade_id"]
            for c in nb["cells"]
            if c["metadata"].get("nbgrader", {}).get("solution")
        ]
        assert unanswered(nb) == answers


def test_a_packed_file_is_collected_with_its_stamp_and_the_earlier_one_kept(student: Path, course: Course) -> None:
    packed = submit("O'Brien, Zoë +1".replace(",", ""), "Zoë", folder=student, to=student)
    with zipfile.ZipFile(packed.file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    release = json.loads((course.bundle / "release.json").read_text("utf-8"))
    assert manifest["notebooks"] == release["assignments"]
    assert autograde("collect", packed.file, course=course).code == 0
    target = course.notebook("submitted", FIRST, "O'Brien Zoë +1")
    first = target.read_bytes()
    assert first == (student / "notebooks" / f"{FIRST}.ipynb").read_bytes()
    path = student / "notebooks" / f"{FIRST}.ipynb"
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    again = submit("O'Brien Zoë +1", "Zoë", folder=student, to=student)
    assert autograde("collect", again.file, course=course).code == 0
    assert target.read_bytes() == first + b"\n"
    (kept,) = (course.root / "attempts").rglob("*.ipynb")
    assert kept.read_bytes() == first


def make_zip(path: Path, manifest: object, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_what_is_no_packed_file_is_set_aside_with_a_reason_and_the_others_taken(
    student: Path, course: Course, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    submit("ada", "Ada", folder=student, to=inbox)
    (inbox / "a.zip").write_bytes(b"not a zip")
    make_zip(inbox / "b.zip", {"id": "../../etc", "notebooks": {FIRST: "v"}}, {f"{FIRST}.ipynb": b"{}"})
    make_zip(inbox / "c.zip", {"id": "eve", "notebooks": {FIRST: "v"}}, {})
    make_zip(inbox / "d.zip", {"id": "eve", "notebooks": {"other": "v"}}, {"other.ipynb": b"{}"})
    make_zip(inbox / "e.zip", ["eve"], {})
    make_zip(inbox / "f.zip", {"id": "eve", "notebooks": {FIRST: "v"}}, {f"{FIRST}.ipynb": b" " * 60_000_000})
    done = autograde("collect", inbox, course=course)
    assert done.code == 3
    assert "1 taken, 6 set aside" in done.out
    for reason in (
        "BadZipFile",
        "is no student id",
        "there is no 03a-training-recipe.ipynb in it",
        "no notebook of this course",
        "60,000,000 bytes",
    ):
        assert reason in done.out
    assert [path.name for path in course.step("submitted", "").iterdir()] == ["ada"]
    assert not (course.root.parent / "etc").exists()


@pytest.mark.parametrize("student_id", ["", "a/b", "..", "-x", "x" * 101, "a\nb"])
def test_an_odd_student_id_is_refused_before_anything_is_written(student: Path, student_id: str) -> None:
    with pytest.raises(SubmitError, match="is no student id"):
        submit(student_id, "X", folder=student, to=student)
    assert not list(student.glob("*.zip"))


def test_packing_without_a_notebook_or_with_a_broken_one_says_what_to_do(student: Path, tmp_path: Path) -> None:
    with pytest.raises(SubmitError, match="run this where your notebooks are"):
        submit("ada", "Ada", folder=tmp_path / "elsewhere", to=tmp_path)
    (student / "notebooks" / "broken.ipynb").write_text("{", "utf-8")
    with pytest.raises(SubmitError, match="open it in Jupyter"):
        submit("ada", "Ada", folder=student, to=student)
    (student / "notebooks" / "broken.ipynb").unlink()
    copy = student / "notebooks" / f"{FIRST}-Copy1.ipynb"
    copy.write_text((student / "notebooks" / f"{FIRST}.ipynb").read_text("utf-8"), "utf-8")
    with pytest.raises(SubmitError, match="two notebooks are"):
        submit("ada", "Ada", folder=student, to=student)
    assert not list(student.glob("*.zip"))


def test_the_students_command_packs_and_fails_with_a_line(
    student: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lecture(["submit", "--id", "ada", "--name", "Ada", "--folder", str(student), "--to", str(student)]) == 0
    assert "packed 2 notebooks" in capsys.readouterr().out
    assert lecture(["submit", "--id", "ada", "--name", "Ada", "--folder", str(tmp_path)]) == 1
    assert "no notebook of the course" in capsys.readouterr().err
