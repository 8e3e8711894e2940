"""Each file that is collected is taken, kept or named with its reason, whatever lies beside it."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import kept_assignments
from helpers.submissions import FIRST, SECOND
from test_collect import good, light, packed, run, second, submitted, write_tree
from test_collected import blank, other

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.grading.pending import find_pending
from autograders.intake import confirm as confirming
from autograders.intake.collect import Collected
from autograders.intake.confirm import confirm, waiting
from autograders.intake.intake import receive, submission_digest, submitted_students
from autograders.intake.notes import HeldNotebook, Note, digest_of, held_path, read_not_placed, write_note
from autograders.intake.reading.archives import MAX_DEPTH, Archive, entries
from autograders.intake.reading.decoding import Unreadable
from autograders.results.rows import rows

pytestmark = pytest.mark.slow

__all__ = ["blank", "good", "light", "second"]  # fixtures

EXACT = f"{FIRST}.ipynb"
NOON = "{day} 12:00:00 UTC"


def enrol(course: Course, *students: str) -> None:
    course.roster.write_text("".join(f"{student}\n" for student in ("id", *students)), "utf-8")


def contents(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def problems(found: dict[str, Collected]) -> dict[str, str]:
    return {label: item.problem for label, item in found.items() if item.problem}


# --- whose is it? ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_roster", [True, False], ids=["roster", "no roster"])
@pytest.mark.parametrize("collected", ["in/mail/" + FIRST, "in/mail", "in"])
def test_a_folder_named_after_the_assignment_makes_nobody_a_student(
    light: Course, good: bytes, tmp_path: Path, collected: str, has_roster: bool
) -> None:
    files = {"ada": good, "ben": other(good)}
    for student, content in files.items():
        write_tree(tmp_path, {f"in/mail/{FIRST}/submission-{student}.zip": packed(student, content)})
    if has_roster:
        enrol(light, *files)
    found = run(light, tmp_path / collected)
    if has_roster or collected != "in":
        assert submitted(light) == {(student, FIRST): content for student, content in files.items()}
    else:  # then `mail` may be a student
        assert submitted(light) == {}
        assert all("in the folder of mail, and says that" in text for text in problems(found).values())
        assert len(problems(found)) == 2


def test_a_relative_path_is_read_like_an_absolute_one(
    light: Course, good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tree(tmp_path / "mail" / FIRST, {"ada.ipynb": good, "ben.ipynb": other(good)})
    monkeypatch.chdir(folder)
    run(light, Path())
    run(light, folder)
    assert submitted(light) == {("ada", FIRST): good, ("ben", FIRST): other(good)}


@pytest.mark.parametrize(
    ("collected", "has_roster"),
    [("submitted", False), ("submitted", True), ("submitted/ada", True), (f"submitted/ada/{FIRST}", True)],
)
def test_nbgraders_folders_are_known_wherever_the_roster_has_their_student(
    light: Course, good: bytes, tmp_path: Path, collected: str, has_roster: bool
) -> None:
    files = {EXACT: good, "timestamp.txt": b"2026-03-01 12:00:00 UTC"}
    write_tree(tmp_path / "submitted" / "ada" / FIRST, files)
    if has_roster:
        enrol(light, "ada")
    assert problems(run(light, tmp_path / collected)) == {}
    assert submitted(light) == {("ada", FIRST): good}
    assert (light.step("submitted", "ada", FIRST) / "timestamp.txt").read_text() == "2026-03-01 12:00:00 UTC\n"


def test_the_name_of_an_assignment_is_no_students_id(light: Course, good: bytes, tmp_path: Path) -> None:
    found = run(light, write_tree(tmp_path / "in", {"a.zip": packed(FIRST, good)}))
    assert "the name of an assignment" in problems(found)["a.zip"]
    assert submitted(light) == {}


def test_what_is_known_of_a_file_that_is_not_placed_is_noted(light: Course, second: bytes, tmp_path: Path) -> None:
    enrol(light, "ada")
    folder = write_tree(tmp_path / "in", {"ada.ipynb": second, "who.ipynb": second})
    arguments = ["collect", str(folder), "--course", str(light.root), "--assignment", FIRST]
    assert main(arguments) == 3
    known = {entry.file: (entry.student, entry.assignment) for entry in read_not_placed(light)}
    assert known == {"ada.ipynb": ("ada", SECOND), "who.ipynb": (None, FIRST)}
    # As an older version wrote it, and as a newer one may.
    (light.root / "collected" / "not-placed.json").write_text(
        '[{"file": "x", "digest": "", "reason": "r"}, {"file": "y", "digest": "", "reason": "r", "new": 1}]', "utf-8"
    )
    assert [(entry.file, entry.student) for entry in read_not_placed(light)] == [("x", None), ("y", None)]


# --- what cannot be read costs nobody else ---------------------------------------------------------------------------


def deep(name: str, depth: int) -> str:
    return "/".join([*map(str, range(depth)), name])


def test_a_folder_that_is_nested_too_deep_costs_only_what_is_in_it(light: Course, good: bytes, tmp_path: Path) -> None:
    enrol(light, "ada", "ben", "zoe")
    files = {f"ada/{deep('x.txt', 9)}": b"x", f"ada/{EXACT}": good, "ben.ipynb": good, f"zoe/{EXACT}": good}
    found = run(light, write_tree(tmp_path / "in", files))
    assert set(submitted(light)) == {("ada", FIRST), ("ben", FIRST), ("zoe", FIRST)}
    (note,) = [item for label, item in found.items() if label.startswith("ada/0/")]
    assert f"nested deeper than {MAX_DEPTH} folders" in str(note)


def test_a_deep_folder_in_a_submission_does_not_cost_the_notebook(light: Course, good: bytes) -> None:
    folder = light.step("submitted", "ada", FIRST)
    write_tree(folder, {EXACT: good, f".git/{deep('x', 9)}": b"", "zz/data.csv": b"1"})
    assert receive(light, FIRST, "ada").notebook.cells
    names = [entry.name for entry in entries(folder) if entry.problem is None]
    assert names == [EXACT, "zz/data.csv"]


def test_too_many_files_are_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograders.intake.reading.archives.MAX_FILES", 3)
    write_tree(tmp_path, {f"{number}.txt": b"" for number in range(9)})
    *listed, last = entries(tmp_path)
    assert [entry.problem for entry in listed] == [None] * 3
    assert last.problem == "more than 3 files: this one and those after it were not looked at"


def test_a_member_without_a_name_costs_nobody_else(light: Course, good: bytes, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(""), "x")
        archive.writestr("x.ipynb", good)
    assert [entry.problem for entry in Archive(file.getvalue()).entries()] == ["it has no name", None]
    enrol(light, "ada", "ben")
    run(light, write_tree(tmp_path / "in", {"ada.zip": file.getvalue(), "ben.ipynb": good}))
    assert submitted(light) == {("ada", FIRST): good, ("ben", FIRST): good}


@pytest.mark.parametrize("sign", ["a", "ä", "深", "🎓"])
def test_a_name_that_is_too_long_stops_nothing(light: Course, good: bytes, tmp_path: Path, sign: str) -> None:
    name = sign * (250 // len(sign.encode())) + ".pdf"
    enrol(light, "ada", "ben")
    for _ in range(2):
        run(light, write_tree(tmp_path / "in", {f"ada/{name}": b"%PDF", "ben.ipynb": good}))
    assert submitted(light) == {("ben", FIRST): good}
    (kept,) = light.step("submitted", "ada", FIRST).iterdir()
    assert kept.read_bytes() == b"%PDF"
    assert kept.name.endswith(f"{sign}.pdf")


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a path unreadable, for a privileged user too."""

    def apply(path: Path) -> None:
        def refusing(function: Callable[..., object]) -> Callable[..., object]:
            def call(file: object, *arguments: object, **named: object) -> object:
                if isinstance(file, str | os.PathLike) and Path(file) == path:
                    raise PermissionError(13, "Permission denied", str(file))
                return function(file, *arguments, **named)

            return call

        for module, name in ((os, "open"), (os, "listdir"), (io, "open")):
            monkeypatch.setattr(module, name, refusing(getattr(module, name)))

    return apply


def test_what_may_not_be_read_is_set_aside_with_its_reason(
    light: Course, good: bytes, tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    enrol(light, "ada", "ben", "eve")
    folder = write_tree(tmp_path / "in", {"ada/x.ipynb": good, "ben.ipynb": good, "eve.ipynb": good})
    forbid(folder / "ada")
    forbid(folder / "eve.ipynb")
    found = run(light, folder)
    assert submitted(light) == {("ben", FIRST): good}
    assert problems(found)["ada"] == "the folder cannot be read (Permission denied)"
    assert "Permission denied" in problems(found)["eve.ipynb"]


def test_a_submission_that_may_not_be_read_does_not_stop_the_class(
    course: Course, good: bytes, tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    enrol(course, "ada", "zoe")
    run(course, write_tree(tmp_path / "1", {"ada.ipynb": good, "zoe.ipynb": good}))
    before = submission_digest(course, FIRST, "zoe")
    forbid(course.notebook("submitted", FIRST, "zoe"))
    assert find_pending(course, [FIRST], None)[1] == [(FIRST, "ada"), (FIRST, "zoe")]
    assert submission_digest(course, FIRST, "zoe") != before
    with pytest.raises(Unreadable, match="Permission denied"):
        receive(course, FIRST, "zoe")
    found = run(course, write_tree(tmp_path / "2", {"ada.ipynb": other(good), "zoe.ipynb": other(good)}))
    assert "cannot be read (Permission denied)" in problems(found)["zoe.ipynb"]
    assert found["ada.ipynb"].problem is None
    assert course.notebook("submitted", FIRST, "ada").read_bytes() == other(good)


def test_a_students_folder_that_may_not_be_looked_into_is_not_missing(
    light: Course, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = light.step("submitted", "ada", FIRST)
    write_tree(folder, {EXACT: good})
    real = Path.stat

    def stat(path: Path, **named: bool) -> os.stat_result:
        if path.is_relative_to(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **named)

    monkeypatch.setattr(Path, "stat", stat)
    assert submitted_students(light, FIRST) == ["ada"]
    assert submission_digest(light, FIRST, "ada") is None


def test_a_damaged_note_costs_its_own_student_only(
    course: Course, good: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    enrol(course, "ada", "ben")
    run(course, write_tree(tmp_path / "1", {"ada.ipynb": good, "ben.ipynb": good}))
    note = course.root / "collected" / FIRST / "ada.json"
    note.write_text(cut_off := note.read_text("utf-8")[:30], "utf-8")
    assert find_pending(course, [FIRST], None)[1] == [(FIRST, "ada"), (FIRST, "ben")]
    ada, ben = rows(course, [FIRST])
    assert (ada.state, ben.state) == ("to confirm", "not graded")
    assert f"collected/{FIRST}/ada.json is damaged" in ada.reason
    found = run(course, write_tree(tmp_path / "2", {"ada.ipynb": other(good), "ben.ipynb": other(good)}))
    assert "ada.json is damaged" in problems(found)["ada.ipynb"]
    assert submitted(course) == {("ada", FIRST): good, ("ben", FIRST): other(good)}
    assert note.read_text("utf-8") == cut_off
    assert [(entry.file, entry.student, entry.assignment) for entry in read_not_placed(course)] == [
        ("ada.ipynb", "ada", FIRST)
    ]
    arguments = ["confirm", "--course", str(course.root)]
    assert main(arguments) == 3
    assert main([*arguments, "--student", "ada", "--file", "1"]) == 1
    assert "ada.json is damaged" in capsys.readouterr().err
    note.unlink()
    for folder in ("1", "2"):
        assert problems(run(course, tmp_path / folder)) == {}
    assert read_not_placed(course) == []
    assert course.notebook("submitted", FIRST, "ada").read_bytes() == other(good)


# --- which one counts, and where the others are ----------------------------------------------------------------------


def by_mapping(course: Course, folder: Path, times: dict[str, str]) -> dict[str, Collected]:
    """Collect a folder whose files are all ada's, with the day of each."""
    mapping = folder.with_suffix(".csv")
    with mapping.open("w", encoding="utf-8", newline="") as table:
        lines = [(name, "ada", NOON.format(day=day)) for name, day in times.items()]
        csv.writer(table).writerows([("file", "id", "submitted"), *lines])
    return run(course, folder, mapping=mapping)


def test_an_earlier_notebook_collected_later_does_not_replace_the_later_one(
    light: Course, good: bytes, blank: bytes, tmp_path: Path
) -> None:
    newer, target = other(good, "newer"), light.step("submitted", "ada", FIRST)
    by_mapping(light, write_tree(tmp_path / "2", {"n.ipynb": newer}), {"n.ipynb": "2026-03-05"})
    found = by_mapping(light, write_tree(tmp_path / "1", {"n.ipynb": good}), {"n.ipynb": "2026-03-01"})
    assert "an earlier notebook was collected; the one that was handed in later" in found["n.ipynb"].notes[0]
    # Two of an earlier time that differ are no question either, and a blank one that is later counts as before.
    files = {"a.ipynb": other(good, "a"), "b.ipynb": other(good, "b"), "c.ipynb": blank}
    days = {"a.ipynb": "2026-03-02", "b.ipynb": "2026-03-02", "c.ipynb": "2026-03-06"}
    by_mapping(light, write_tree(tmp_path / "3", files), days)
    assert submitted(light) == {("ada", FIRST): newer}
    assert (target / "timestamp.txt").read_text() == NOON.format(day="2026-03-05") + "\n"
    assert waiting(light, [FIRST]) == []
    assert contents(light.root / "attempts") == sorted([good, *files.values()])
    # What comes later still replaces it, and a corrected time of the notebook in place is taken.
    by_mapping(light, tmp_path / "2", {"n.ipynb": "2026-02-01"})
    by_mapping(light, tmp_path / "1", {"n.ipynb": "2026-03-01"})
    assert submitted(light) == {("ada", FIRST): good}
    assert newer in contents(light.root / "attempts")


def test_an_earlier_notebook_counts_where_the_later_one_has_no_answers(
    light: Course, good: bytes, blank: bytes, tmp_path: Path
) -> None:
    by_mapping(light, write_tree(tmp_path / "2", {"n.ipynb": blank}), {"n.ipynb": "2026-03-05"})
    by_mapping(light, write_tree(tmp_path / "1", {"n.ipynb": good}), {"n.ipynb": "2026-03-01"})
    assert submitted(light) == {("ada", FIRST): good}
    assert contents(light.root / "attempts") == [blank]


def test_files_of_one_name_that_are_no_notebooks_are_all_kept(light: Course, good: bytes, tmp_path: Path) -> None:
    enrol(light, "ada")
    folder = light.step("submitted", "ada", FIRST)
    for content in (b"%PDF first", b"%PDF second", b"%PDF first"):
        run(light, write_tree(tmp_path / "in", {"ada/report.pdf": content, "ada/a/x.py": b"A", "ada/b/x.py": b"B"}))
    files = sorted([b"%PDF first", b"%PDF second", b"A", b"B"])
    assert contents(folder) == files
    # They make way for a notebook, and do not replace what made way before.
    run(light, write_tree(tmp_path / "2", {"ada/x.ipynb": good}))
    assert contents(light.root / "attempts") == files
    light.notebook("submitted", FIRST, "ada").unlink()
    write_tree(folder, {"handed-in report.pdf": b"%PDF third"})
    run(light, tmp_path / "2")
    assert contents(light.root / "attempts") == sorted([*files, b"%PDF third"])


def hold(course: Course, assignment: str, *contents_held: bytes) -> None:
    held = [HeldNotebook(f"{number}.zip", digest_of(content), "mail") for number, content in enumerate(contents_held)]
    for notebook, content in zip(held, contents_held, strict=True):
        path = held_path(course, assignment, "ada", notebook)
        write_tree(path.parent, {path.name: content})
    write_note(course, assignment, "ada", Note(held=held, why_held="different hands"))


def test_a_full_disk_costs_a_person_who_confirms_no_notebook(
    light: Course, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(light.step("submitted", "ada", FIRST), {EXACT: good})
    hold(light, FIRST, other(good))
    real = confirming.write_bytes_atomically

    def full(path: Path, content: bytes) -> None:
        if "attempts" in path.parts:
            raise OSError(28, "No space left on device", str(path))
        real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(confirming, "write_bytes_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            confirm(light, FIRST, "ada", 1)
    assert submitted(light) == {("ada", FIRST): good}
    confirm(light, FIRST, "ada", 1)
    assert submitted(light) == {("ada", FIRST): other(good)}
    assert contents(light.root / "attempts") == [good]


def test_one_number_settles_one_assignment(
    light: Course, good: bytes, second: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(light, FIRST, good, other(good))
    hold(light, SECOND, second, second + b"\n")
    arguments = ["confirm", "--course", str(light.root), "--student", "ada", "--file", "2"]
    assert main(arguments) == 1
    assert f"2 submissions of ada wait for a person ({FIRST}, {SECOND}): add --assignment" in capsys.readouterr().err
    assert len(waiting(light, kept_assignments())) == 2
    assert main([*arguments, "--assignment", SECOND]) == 0
    assert submitted(light) == {("ada", SECOND): second + b"\n"}
    assert main(arguments) == 0
    assert main(arguments) == 1
    assert "0 submissions of ada wait" in capsys.readouterr().err


def test_a_rejected_notebook_that_comes_again_is_not_called_taken(light: Course, good: bytes, tmp_path: Path) -> None:
    enrol(light, "ada")
    hold(light, FIRST, good, other(good))
    confirm(light, FIRST, "ada", 2)
    found = run(light, write_tree(tmp_path / "in", {"ada.ipynb": good}))
    assert found["ada.ipynb"].notebooks == ()
    text = problems(found)["ada.ipynb"]
    assert "a person rejected it" in text
    # It says what to do, and that works.
    kept = light.root / text.split("copy ")[1].split(" to ")[0]
    target = light.root / text.split(" to ")[-1].split(" in ")[0]
    assert (kept.read_bytes(), target.read_bytes()) == (good, other(good))
    target.write_bytes(kept.read_bytes())
    assert problems(run(light, tmp_path / "in")) == {}
    assert target.read_bytes() == good


def test_only_one_command_changes_the_submissions_at_a_time(light: Course, good: bytes, tmp_path: Path) -> None:
    from autograders.writer import only_writer

    folder = write_tree(tmp_path / "in", {"ada.ipynb": good})
    with only_writer(light, "grade"), pytest.raises(CourseError, match="one writer at a time"):
        run(light, folder)
    run(light, folder)
    assert submitted(light) == {("ada", FIRST): good}
