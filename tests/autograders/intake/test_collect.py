"""From an LMS's export to grades: whose a file is, what is refused, when it was handed in, what it costs to be late."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import stat
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import ROOT, autograde, copy_course, kept_assignments
from helpers.command_line import Finished
from helpers.submissions import (
    ACCUMULATE,
    CLIP,
    FIRST,
    SECOND,
    WORDS,
    Notebook,
    cell_of,
    handed_in,
    position_of,
    source_of,
)

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.grading.journal import read_record
from autograders.intake.collect import Collected, collect
from autograders.intake.confirm import waiting
from autograders.intake.reading.archives import Archive, RefusedArchive
from autograders.intake.roster import Roster
from autograders.intake.uploads import uploads_in
from autograders.nbgrader.database import open_gradebook
from autograders.results.class_tables import write_csv
from autograders.results.known_scores import question_points

pytestmark = pytest.mark.slow

EXACT = f"{FIRST}.ipynb"


@pytest.fixture
def light(released: Course, tmp_path: Path) -> Course:
    """A course with the released notebooks and nothing else: enough to collect into."""
    course = Course(tmp_path / "course")
    for step in ("source", "release"):
        (course.root / step).mkdir(parents=True)
        for name in kept_assignments():
            (course.root / step / name).symlink_to(released.step(step, assignment=name))
    return course


@pytest.fixture(scope="module")
def good(released: Course) -> bytes:
    return json.dumps(handed_in(released)).encode()


@pytest.fixture(scope="module")
def second(released: Course) -> bytes:
    return released.notebook("release", SECOND).read_bytes()


def zipped(path: Path | io.BytesIO, members: dict[str, bytes], date: tuple[int, ...] = (2026, 3, 1, 12, 0, 0)) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, date), content)  # type: ignore[arg-type]


def packed(student: str, content: bytes, **fields: object) -> bytes:
    """A file as `lecture submit` makes it, with other fields in its manifest."""
    manifest = {"format": 1, "id": student, "name": student, "notebooks": {FIRST: "v"}, **fields}
    file = io.BytesIO()
    zipped(file, {"manifest.json": json.dumps(manifest).encode(), EXACT: content})
    return file.getvalue()


def run(course: Course, *paths: Path, **options: object) -> dict[str, Collected]:
    return {item.label: item for item in collect(course, paths, kept_assignments(), **options)}  # type: ignore[arg-type]


def submitted(course: Course) -> dict[tuple[str, str], bytes]:
    return {
        (path.parts[-3], path.parts[-2]): path.read_bytes() for path in course.step("submitted", "").glob("*/*/*.ipynb")
    }


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


ROSTER = "id,name\nada,Ada Lovelace\nzoe,Zoë O'Brien\nben,Ben Ng\nben2,Ben  Ng\n[m]*,Mo Li\n"
EXPORT = {
    "Ada Lovelace_101_assignsubmission_file_/My notebook.ipynb": "first",
    "Zoë O'Brien_102_assignsubmission_file_/deep/er/x.IPYNB": "first",
    "Ben Ng_103_assignsubmission_file_/x.ipynb": "first",
    "lovelaceada_101_555_debug-1.ipynb": "second",
    "obrienzoe_LATE_102_556_debug.ipynb": "second",
    "Nobody Known_104_assignsubmission_file_/x.ipynb": "first",
    "[m]*.ipynb": "first",
    "03a-training-recipe.ipynb": "first",
}


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_an_export_of_an_lms_is_placed_by_the_roster_and_the_rest_is_said(
    light: Course, good: bytes, second: bytes, tmp_path: Path, form: str
) -> None:
    light.roster.write_text(ROSTER, "utf-8")
    files = {name: good if kind == "first" else second for name, kind in EXPORT.items()}
    files["index.html"] = b"<html>"
    if form == "zip":
        zipped(tmp_path / "export.zip", files)
        found = run(light, tmp_path / "export.zip")
        found = {label.removeprefix("export.zip/"): item for label, item in found.items()}
    else:
        found = run(light, write_tree(tmp_path / "export", files))
    assert set(submitted(light)) == {("ada", FIRST), ("ada", SECOND), ("zoe", FIRST), ("zoe", SECOND), ("[m]*", FIRST)}
    assert submitted(light)["zoe", SECOND] == second
    unplaced = {label: item.problem for label, item in found.items() if item.problem}
    assert "2 students on the roster are called 'Ben Ng' (" in unplaced["Ben Ng_103_assignsubmission_file_/x.ipynb"]
    assert (
        "no student on the roster is called 'Nobody Known'. Correct the name"
        in unplaced["Nobody Known_104_assignsubmission_file_/x.ipynb"]
    )
    assert "no id in" in unplaced["03a-training-recipe.ipynb"]
    assert "it is an HTML page" in unplaced["index.html"]
    assert len(unplaced) == 4


def test_canvass_own_number_places_what_its_name_does_not(light: Course, good: bytes, tmp_path: Path) -> None:
    """Canvas leaves out letters that it does not know, and two students may have one name."""
    light.roster.write_text(
        "id,name,lms_id\nzoe,Zoë O'Brien,102\nben,Ben Ng,103\nben2,Ben Ng,104\nli,李 小龍,105\nx,X Y,\n", "utf-8"
    )
    names = ["obrienzo_102_7_x.ipynb", "ngben_LATE_104_8_x.ipynb", "_105_9_x.ipynb", "ngben_999_10_x.ipynb"]
    found = run(light, write_tree(tmp_path / "export", dict.fromkeys(names, good)))
    assert {label: item.student for label, item in found.items() if not item.problem} == {
        "obrienzo_102_7_x.ipynb": "zoe",
        "ngben_LATE_104_8_x.ipynb": "ben2",
        "_105_9_x.ipynb": "li",
    }
    assert "2 students on the roster are called 'ngben'" in str(found["ngben_999_10_x.ipynb"].problem)


def test_a_mapping_places_what_names_do_not(light: Course, good: bytes, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.csv"
    mapping.write_text(
        "file;name;id;submitted\nx 1.ipynb;;ada;2026-03-01 10:00 +0100\nweird_*;;ben;\n;Ng Ben;zoe;\n", "utf-8-sig"
    )
    export = write_tree(
        tmp_path / "export",
        {"x 1.ipynb": good, "weird_2.ipynb": good, "Ben Ng_1_assignsubmission_file_/x.ipynb": good, "y y.ipynb": good},
    )
    light.roster.write_text("id\nada\nben\nzoe\n", "utf-8")
    found = run(light, export, mapping=mapping)
    assert {student for student, _ in submitted(light)} == {"ada", "ben", "zoe"}
    assert "name it in a mapping file" in str(found["y y.ipynb"].problem)
    times = {path.parts[-3]: path.read_text() for path in light.root.glob("submitted/*/*/timestamp.txt")}
    assert times == {"ada": "2026-03-01 09:00:00 UTC\n"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"file,who\nx,y\n", "no column 'id'"),
        (b"file,id\nx,../evil\n", "has not"),
        (b"file,id\n,ada\n", "needs an id and a file or a name"),
        ("file,id\nZoë,z\n".encode("latin-1"), "Save it as CSV in UTF-8"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_refused_and_nothing_taken(
    light: Course, good: bytes, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "mapping.csv").write_bytes(content)
    with pytest.raises(CourseError, match=message):
        run(light, write_tree(tmp_path / "in", {"ada.ipynb": good}), mapping=tmp_path / "mapping.csv")
    assert submitted(light) == {}


def test_plain_names_are_ids_when_there_is_no_roster(light: Course, good: bytes, second: bytes, tmp_path: Path) -> None:
    files = {"O'Brien Zoë +1.ipynb": good, "ada.IPYNB": second, f"{FIRST} (1).ipynb": good, "..evil.ipynb": good}
    found = run(light, write_tree(tmp_path / "in", files))
    assert set(submitted(light)) == {("O'Brien Zoë +1", FIRST), ("ada", SECOND)}
    assert {label for label, item in found.items() if item.problem} == {f"{FIRST} (1).ipynb", "..evil.ipynb"}


def test_accents_written_apart_are_the_same_id(light: Course, good: bytes, tmp_path: Path) -> None:
    light.roster.write_text("id\nZo\u00eb\n", "utf-8")
    run(light, write_tree(tmp_path / "in", {"Zoe\u0308.ipynb": good}))
    assert set(submitted(light)) == {("Zo\u00eb", FIRST)}


def test_nbgraders_folders_are_taken_with_their_times(light: Course, good: bytes, tmp_path: Path) -> None:
    files = {f"ada/{FIRST}/x.ipynb": good, f"ada/{FIRST}/timestamp.txt": b"2026-03-01 12:00:00 UTC", "ada/readme": b""}
    found = run(light, write_tree(tmp_path / "in", files))
    target = light.step("submitted", "ada", FIRST)
    assert {path.name for path in target.iterdir()} == {EXACT, "timestamp.txt"}
    assert (target / "timestamp.txt").read_text() == "2026-03-01 12:00:00 UTC\n"
    assert "the file is empty" in str(found["ada/readme"].problem)


def test_an_unreadable_file_is_taken_so_that_its_student_has_a_reason(
    light: Course, good: bytes, tmp_path: Path
) -> None:
    found = run(light, write_tree(tmp_path / "in", {f"ada/{FIRST}.ipynb": good[:99], "ben.ipynb": good[:99]}))
    light.roster.write_text("id\nada\nben\n", "utf-8")
    found = run(light, tmp_path / "in")
    assert set(submitted(light)) == {("ada", FIRST)}
    assert "its name does not say which assignment" in str(found["ben.ipynb"].problem)


def test_the_lms_says_whose_a_packed_file_is_not_the_student(light: Course, good: bytes, tmp_path: Path) -> None:
    """Otherwise a student could replace another's submission."""
    light.roster.write_text(ROSTER, "utf-8")
    theirs = good.replace(b"math.sqrt", b"math .sqrt")
    export = write_tree(
        tmp_path / "export",
        {
            "Ada Lovelace_1_assignsubmission_file_/submission-ada.zip": packed("ada", good),
            "Zoë O'Brien_2_assignsubmission_file_/submission-ada.zip": packed("ada", theirs),
        },
    )
    found = run(light, export)
    assert submitted(light) == {("ada", FIRST): good, ("zoe", FIRST): theirs}
    told = found["Zoë O'Brien_2_assignsubmission_file_/submission-ada.zip"].notes
    assert told[0] == "the file says that it is of ada; by the LMS it is of zoe"


def test_of_several_files_the_last_counts_whatever_their_order_and_the_others_are_kept(
    light: Course, good: bytes, tmp_path: Path
) -> None:
    older = good.replace(b"math.sqrt", b"math .sqrt")
    files = {
        "a.zip": packed("ada", good, submitted="2026-03-01 12:00:00 UTC", name="Ada Ö."),
        "b.zip": packed("ada", older, submitted="2026-02-01 12:00:00 UTC", name="ADA O"),
    }
    found = run(light, write_tree(tmp_path / "in", files))
    assert submitted(light) == {("ada", FIRST): good}
    assert [path.read_bytes() for path in light.root.glob(f"attempts/ada/{FIRST}/*")] == [older]
    assert "2 files were handed in" in " ".join(found["a.zip"].notes)


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"submitted": "2026-03-01 12:00:00 UTC"}, None),
        ({"submitted": "2099-03-01 12:00:00 UTC"}, "in the future"),
        ({"submitted": "yesterday"}, "says no time of handing in ('yesterday')"),
        ({"submitted": ["x"] * 9999}, "says no time"),
        ({}, "says no time of handing in"),
    ],
    ids=["right", "future", "garbage", "no text", "missing"],
)
def test_a_packed_files_time_is_believed_only_if_it_can_be(
    light: Course, good: bytes, tmp_path: Path, fields: dict[str, object], note: str | None
) -> None:
    found = run(light, write_tree(tmp_path / "in", {"a.zip": packed("ada", good, **fields)}))
    time = (light.step("submitted", "ada", FIRST) / "timestamp.txt").read_text()
    taken = datetime.strptime(time.strip(), "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    if note is None:
        assert time == "2026-03-01 12:00:00 UTC\n"
        assert found["a.zip"].notes == ()
    else:
        assert abs((datetime.now(UTC) - taken).total_seconds()) < 600
        assert note in found["a.zip"].notes[0]


def test_an_archives_times_count_only_when_asked_for(light: Course, good: bytes, tmp_path: Path, monkeypatch) -> None:
    zipped(tmp_path / "export.zip", {"ada.ipynb": good}, (2026, 1, 2, 12, 0, 0))
    stamp = light.step("submitted", "ada", FIRST) / "timestamp.txt"
    run(light, tmp_path / "export.zip", archive_times=True)
    local = datetime(2026, 1, 2, 12).astimezone(UTC)
    assert stamp.read_text() == f"{local:%Y-%m-%d %H:%M:%S} UTC\n"
    run(light, tmp_path / "export.zip")
    assert not stamp.exists()


def member(name: str, mode: int = 0, **fields: object) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for field, value in fields.items():
        setattr(info, field, value)
    return info


HOSTILE = {
    "../../evil.ipynb": "leads out of the archive",
    "/etc/evil.ipynb": "leads out of the archive",
    "a/../../evil.ipynb": "leads out of the archive",
    "C:\\evil.ipynb": "leads out of the archive",
    "..\\evil.ipynb": "leads out of the archive",
    "evil\n.ipynb": "control characters",
}


def test_hostile_members_are_refused_and_the_rest_is_taken(light: Course, good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in HOSTILE:
            archive.writestr(member(name), good)
        archive.writestr(member("link.ipynb", stat.S_IFLNK | 0o777), "/etc/passwd")
        archive.writestr(member("pipe.ipynb", stat.S_IFIFO | 0o777), "")
        archive.writestr(member("locked.ipynb"), good)
        archive.writestr(member("ada.ipynb"), good)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"locked.ipynb") - 46 + 8] |= 1  # the flag "encrypted" in the archive's directory
    path.write_bytes(content)
    before = set(tmp_path.rglob("*"))
    found = run(light, path)
    problems = {label.removeprefix("export.zip/"): item.problem for label, item in found.items() if item.problem}
    for name, reason in HOSTILE.items():
        assert reason in str(problems[name])
    assert "it is a link" in str(problems["link.ipynb"])
    assert "it is a pipe" in str(problems["pipe.ipynb"])
    assert problems["locked.ipynb"] == "it is encrypted"
    assert set(submitted(light)) == {("ada", FIRST)}
    new = set(tmp_path.rglob("*")) - before
    assert all(item.is_relative_to(light.root) for item in new)


def test_an_export_may_be_larger_than_a_file(light: Course, good: bytes, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("autograders.intake.reading.archives.MAX_BYTES", len(good) + 99)
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for student in ("ada", "ben", "zoe"):
            archive.writestr(f"{student}.ipynb", good)
    assert (tmp_path / "export.zip").stat().st_size > 2 * len(good)
    run(light, tmp_path / "export.zip")
    assert set(submitted(light)) == {("ada", FIRST), ("ben", FIRST), ("zoe", FIRST)}


def test_a_file_that_was_let_go_is_read_again_where_it_lies(light: Course, good: bytes, tmp_path: Path) -> None:
    """In a folder, in an export, in an archive of a student's in an export, and in what `lecture submit` packed."""
    inner = io.BytesIO()
    zipped(inner, {f"{FIRST}.ipynb": good + b" "})
    folder = write_tree(tmp_path / "in", {"ada/plain.ipynb": good})
    zipped(folder / "export.zip", {"x.ipynb": good + b"\n", "y.zip": inner.getvalue(), "z.zip": packed("zoe", good)})
    uploads = list(uploads_in([folder], [FIRST], [FIRST], Roster(light), archive_times=False))
    assert len(uploads) == 4
    light_uploads = [upload.let_go() for upload in uploads]
    assert all(upload.held == b"" for upload in light_uploads)
    assert [upload.content for upload in light_uploads] == [upload.held for upload in uploads]
    assert {upload.content for upload in light_uploads} == {good, good + b" ", good + b"\n"}
    (folder / "ada" / "plain.ipynb").write_bytes(b"{}")
    (changed,) = [upload for upload in light_uploads if upload.source.name == "plain.ipynb"]
    with pytest.raises(CourseError, match="was changed while it was collected"):
        _ = changed.content


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(12):
            with archive.open(f"{number}.ipynb", "w", force_zip64=True) as file:
                for _ in range(90):
                    file.write(b"\0" * 1_000_000)
    with pytest.raises(RefusedArchive, match="a zip bomb"):
        Archive(inner.getvalue())


def test_a_member_that_is_larger_than_it_says_is_cut_off_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograders.intake.reading.archives.MAX_BYTES", 1000)
    file = io.BytesIO()
    zipped(file, {"a.ipynb": b"\0" * 5000})
    with pytest.raises(RefusedArchive, match="5,000 bytes, 1,000 are allowed"):
        Archive(file.getvalue()).read("a.ipynb")
    lying = file.getvalue().replace((5000).to_bytes(4, "little"), (500).to_bytes(4, "little"))
    with pytest.raises(RefusedArchive, match="damaged"):
        Archive(lying).read("a.ipynb")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"PK\x03\x04" + b"\0" * 40, b"Rar!\x1a\x07\x00"],
    ids=["empty", "two bytes", "zeros", "rar"],
)
def test_what_is_no_archive_is_said(light: Course, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    (item,) = run(light, tmp_path / "x.zip", tmp_path / "x.zip").values()
    assert "not a zip archive" in str(item.problem)


def test_links_and_pipes_in_a_folder_are_not_followed(light: Course, good: bytes, tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "in", {"ada.ipynb": good})
    (folder / "ben.ipynb").symlink_to(folder / "ada.ipynb")
    os.mkfifo(folder / "eve.ipynb")
    (folder / "all").symlink_to("/")
    found = run(light, folder, tmp_path / "missing")
    assert set(submitted(light)) == {("ada", FIRST)}
    assert {label: item.problem for label, item in found.items() if item.problem} == {
        "ben.ipynb": "it is a link, which is not followed",
        "eve.ipynb": "it is a pipe, which is not followed",
        "all": "it is a link, which is not followed",
        "missing": "it does not exist",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name\nAda\n", "no column 'id'"),
        ("id\nZoë\n".encode("latin-1"), "Save it as CSV in UTF-8"),
        (b"id\na/b\n", "cannot name a folder"),
        (b"id,name\ns01,Ada\ns01,Ben\n", "the id s01 is that of 'Ada' and of 'Ben'"),
    ],
)
def test_a_roster_that_cannot_be_used_is_refused(light: Course, content: bytes, message: str) -> None:
    light.roster.write_bytes(content)
    with pytest.raises(CourseError, match=message):
        Roster(light)


@pytest.mark.parametrize("folder", ["", "source", "release"])
def test_the_courses_own_folder_is_no_class(light: Course, folder: str) -> None:
    """With its solutions it would be taken for two students."""
    with pytest.raises(CourseError, match="the course's own folder"):
        run(light, light.root / folder)
    assert submitted(light) == {}


def test_a_packed_file_that_waits_for_a_person_waits_as_a_whole(
    light: Course, good: bytes, second: bytes, tmp_path: Path
) -> None:
    """Else what somebody packed under another's id would count where that one has handed in nothing yet."""
    run(light, write_tree(tmp_path / "1", {"ada.ipynb": good}))
    file, packed_second = io.BytesIO(), f"{SECOND}.ipynb"
    manifest = {"format": 1, "id": "ada", "name": "Mallory", "notebooks": {FIRST: "v", SECOND: "v"}}
    members = {"manifest.json": json.dumps(manifest).encode(), EXACT: good + b"\n", packed_second: second}
    zipped(file, members)
    found = run(light, write_tree(tmp_path / "2", {"b.zip": file.getvalue()}))
    assert submitted(light) == {("ada", FIRST): good}
    assert found["b.zip"].notebooks == ()
    assert "different hands" in str(found["b.zip"].problem)
    arguments = ["confirm", "--course", str(light.root), "--student", "ada", "--file", "0"]
    # The same number is another file in each assignment.
    assert main(arguments) == 1
    assert len(waiting(light, kept_assignments())) == 2
    for assignment in (FIRST, SECOND):
        assert main([*arguments, "--assignment", assignment]) == 0
    assert submitted(light) == {("ada", FIRST): good}, "the person took Ada's, and nothing of the other"
    run(light, tmp_path / "2")
    assert submitted(light) == {("ada", FIRST): good}


def test_an_id_that_is_not_on_the_roster_is_taken_and_said(light: Course, good: bytes, tmp_path: Path) -> None:
    light.roster.write_text("id\nada\n\nada\n", "utf-8")
    found = run(light, write_tree(tmp_path / "in", {"a.zip": packed("Ada", good, submitted="2026-03-01 12:00 UTC")}))
    assert found["a.zip"].notes == ("Ada is not on the roster (ada is)",)
    assert set(submitted(light)) == {("Ada", FIRST)}


# --- one class, collected, graded by `autograde grade` and by plain nbgrader -----------------------------------------

ODD, PATTERN = "O'Brien, Zoë +1", "[m]*"
DUE = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(folder: Path, text: str, received: datetime) -> None:
    (folder / "timestamp.txt").write_text(text)
    os.utime(folder / "timestamp.txt", (received.timestamp(), received.timestamp()))


def class_of(released: Course, course: Course) -> None:
    """Submissions with full points in both questions (16), and what befell them."""
    nb = handed_in(released, text="")

    def submit(student: str, content: bytes, name: str = EXACT) -> Path:
        folder = course.step("submitted", student, FIRST)
        folder.mkdir(parents=True)
        (folder / name).write_bytes(content)
        return folder

    whole = json.dumps(nb).encode()
    submit("encoded", whole.decode().encode("utf-16"))
    submit("renamed", whole, "final.IPYNB")
    submit("cut-off", whole[:-9])
    submit(PATTERN, damaged(nb))
    folder = submit(ODD, whole)
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "passwords").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    at(folder, "garbage", DUE.replace(hour=9))
    at(submit("late", whole), "2026-03-01 14:30:00 UTC", DUE.replace(hour=15))
    at(submit("future", whole), "2099-01-01 00:00:00 UTC", DUE.replace(hour=11))
    (course.root / "submitted" / "eve").symlink_to(course.root / "submitted" / "late")
    course.roster.write_text(f'id,name\nencoded,E\nlate,L\nabsent,A\n"{ODD}",Z\nrenamed,R\ncut-off,C\n{PATTERN},M\n')
    (course.root / "assignments.csv").write_text(
        f"assignment,due,late_penalty\n{FIRST},{DUE:%Y-%m-%d %H:%M} UTC,zero\n"
    )


def damaged(nb: Notebook) -> bytes:
    """Copied answer with an older version, forged metadata, no test cells, 99 formats."""
    nb = copy.deepcopy(nb)
    older = copy.deepcopy(cell_of(nb, CLIP))
    older["source"] = source_of(CLIP, "wrong_value")
    nb["cells"].insert(position_of(nb, CLIP), older)
    nb["cells"] = [c for c in nb["cells"] if not c["metadata"].get("nbgrader", {}).get("grade")]
    for cell in nb["cells"]:
        cell["metadata"].setdefault("nbgrader", {}).update(schema_version=99, points=1e9)
    return json.dumps({**nb, "nbformat": 99, "metadata": {"kernelspec": {"name": "evil"}}}).encode()


@dataclass(frozen=True)
class Class:
    course: Course
    grading: Finished


@pytest.fixture(scope="module")
def hostile(released: Course, tmp_path_factory: pytest.TempPathFactory) -> Class:
    course = copy_course(released, tmp_path_factory.mktemp("hostile") / "course")
    class_of(released, course)
    return Class(course, autograde("grade", "--quiet", "--assignment", FIRST, course=course))


STATES = {
    "encoded": ("graded", 16.0, "saved as UTF-16-LE"),
    "renamed": ("graded", 16.0, "the notebook is called final.IPYNB"),
    "cut-off": ("unreadable", None, "not JSON"),
    PATTERN: ("graded", 16.0, "the last one above its test counts"),
    ODD: ("graded", 16.0, "the timestamp.txt holds no time ('garbage')"),
    "late": ("late", 0.0, "handed in 2 h 30 min after the due date, 16 points taken off"),
    "future": ("graded", 16.0, "later than it was written"),
    "eve": ("unreadable", None, "the submission's folder is a link"),
    "absent": ("missing", None, "nothing was handed in"),
}


def test_every_submission_of_the_class_has_its_state_score_and_reason(hostile: Class) -> None:
    assert hostile.grading.code == 3, hostile.grading.err
    rows = {row.student: row for row in write_csv(hostile.course, [FIRST])}
    assert {student: (row.state, row.score) for student, row in rows.items()} == {
        student: (state, score) for student, (state, score, _) in STATES.items()
    }
    for student, (_, _, reason) in STATES.items():
        assert reason in rows[student].reason, student
    assert "future is not on the roster" in rows["future"].reason
    assert "on the roster" not in rows["late"].reason
    with hostile.course.grades.open(encoding="utf-8", newline="") as file:
        assert [line["student"] for line in csv.DictReader(file)] == sorted(STATES)


def test_links_and_pipes_never_reach_the_graded_folder(hostile: Class) -> None:
    for step in ("received", "autograded"):
        found = [path for path in hostile.course.step(step, "").rglob("*") if not path.is_dir()]
        assert {path.name for path in found} == {EXACT}
        assert not any(path.is_symlink() for path in found)
    sent = hostile.course.step("submitted", ODD, FIRST)
    assert sorted(path.name for path in sent.iterdir()) == [EXACT, "passwords", "pipe", "timestamp.txt", "zero"]


def test_the_feedback_says_what_was_repaired_and_what_being_late_cost(hostile: Class, tmp_path: Path) -> None:
    course = copy_without_odd_files(hostile.course, tmp_path / "course")
    students = [option for student in ("late", PATTERN, "cut-off") for option in ("--student", student)]
    done = autograde("feedback", "--quiet", "--assignment", FIRST, *students, course=course)
    assert done.code == 0, done.err
    pages = {path.parts[-3]: path.read_text("utf-8") for path in course.root.glob(f"feedback/*/{FIRST}/*.html")}
    assert "handed in 2 h 30 min after the due date, 16 points taken off" in pages["late"]
    assert "the last one above its test counts" in pages[PATTERN]
    assert "not JSON" in pages["cut-off"]


def test_a_corrected_time_is_another_attempt(hostile: Class, tmp_path: Path) -> None:
    course = copy_without_odd_files(hostile.course, tmp_path / "course")
    at(course.step("submitted", "late", FIRST), "2026-03-01 11:00:00 UTC", DUE)
    done = autograde("grade", "--quiet", "--assignment", FIRST, "--student", "late", course=course)
    assert done.code == 0, done.out + done.err
    rows = {row.student: row for row in write_csv(course, [FIRST])}
    assert (rows["late"].state, rows["late"].score) == ("graded", 16.0)
    assert rows["future"].score == 16.0


def copy_without_odd_files(course: Course, to: Path) -> Course:
    import shutil

    shutil.copytree(course.root, to, ignore=lambda _, names: {"pipe", "zero", "eve"} & set(names))
    return Course(to)


def test_plain_nbgrader_reads_the_same_class_and_gives_the_same_scores(
    hostile: Class, released: Course, tmp_path: Path, nbgrader_environment: dict[str, str]
) -> None:
    course = copy_course(released, tmp_path / "course")
    class_of(released, course)
    environment = {**nbgrader_environment, "LECTURE_COURSE": str(course.root)}
    done = subprocess.run(
        ["nbgrader", "autograde", FIRST], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    graded = {path.parts[-3] for path in course.root.glob(f"autograded/*/{FIRST}/*.ipynb")}
    assert graded == {"encoded", ODD, "late", "future"}, done.stderr[-3000:]
    for student in graded:
        assert question_points(course, FIRST, student) == question_points(hostile.course, FIRST, student)
        assert penalty(course, student) == penalty(hostile.course, student)
        assert set(question_points(course, FIRST, student).values()) == {8.0}
    assert not [path for path in course.step("autograded", "").rglob("*") if path.is_symlink()]
    set_aside = {path.name for path in (course.root / "set-aside" / ODD / FIRST).iterdir()}
    assert set_aside == {"zero", "passwords", "pipe", "timestamp.txt"}
    assert (course.root / "set-aside" / ODD / FIRST / "timestamp.txt").read_text() == "garbage"


def penalty(course: Course, student: str) -> float:
    with open_gradebook(course) as gradebook:
        return float(gradebook.find_submission(FIRST, student).late_submission_penalty)


# --- courses that are not in order -----------------------------------------------------------------------------------


def change(path: Path, edit: Callable[[Notebook], object]) -> None:
    nb = json.loads(path.read_text("utf-8"))
    edit(nb)
    path.write_text(json.dumps(nb), "utf-8")


def other_database(course: Course) -> None:
    from nbgrader.api import Gradebook

    (course.root / "gradebook.db").unlink()
    with Gradebook(course.gradebook) as gradebook:
        gradebook.add_assignment("homework-1")


def stale(course: Course) -> None:
    change(
        course.notebook("source", FIRST), lambda nb: nb["cells"].append({**nb["cells"][0], "id": "new", "source": "x"})
    )


def no_points(course: Course) -> None:
    for step in ("source", "release"):
        change(course.notebook(step, FIRST), lambda nb: [c["metadata"].pop("nbgrader", None) for c in nb["cells"]])


def probe_without_judge(course: Course) -> None:
    change(
        course.notebook("source", FIRST), lambda nb: cell_of(nb, f"{CLIP}-test").update(source='probe("03a-new", f)')
    )


BAD = {
    other_database: "is of another course: it holds homework-1. Put this course's database back",
    lambda course: (course.root / "gradebook.db").write_bytes(b"x" * 5000): "cannot be read: file is not a database",
    stale: "what was released is version .*, its source is version .*autograde release` again",
    no_points: "no cell has points",
    probe_without_judge: "it probes 03a-new, which has no judge",
    lambda course: course.secret.unlink(): "no secret",
}


@pytest.mark.parametrize("spoil", BAD, ids=["database", "broken db", "stale", "no points", "no judge", "no secret"])
def test_a_course_that_is_not_in_order_is_refused_before_anything_is_written(
    course: Course, good: bytes, spoil: Callable[[Course], object]
) -> None:
    import re

    folder = course.step("submitted", "ada", FIRST)
    folder.mkdir(parents=True)
    (folder / EXACT).write_bytes(good)
    spoil(course)
    before = {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
    done = autograde("grade", "--quiet", "--assignment", FIRST, course=course)
    assert done.code == 1
    assert re.search(BAD[spoil], done.err), done.err
    assert {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (other_database, "is of another course: it holds homework-1"),
        (lambda course: course.database.write_bytes(b"x" * 5000), "cannot be read as nbgrader's database"),
    ],
    ids=["another course's", "damaged"],
)
def test_a_database_of_another_course_stops_a_release(
    course: Course, spoil: Callable[[Course], object], said: str
) -> None:
    spoil(course)
    before = {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
    done = autograde("release", course=course)
    assert done.code == 1
    assert said in done.err
    assert {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()} == before


def test_settings_that_lose_scores_are_refused(course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from autograders.grading.grade import grade

    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\nc.ClearMetadataPreprocessor.enabled = True\n")
    monkeypatch.setattr("autograders.nbgrader.configuration.ROOT", tmp_path)
    with pytest.raises(CourseError, match=r"ClearMetadataPreprocessor is enabled: .*Remove"):
        grade(course, [FIRST], progress=False)
    assert not (course.root / "journal").exists()


def test_plain_nbgrader_refuses_settings_that_lose_scores(
    course: Course, good: bytes, nbgrader_environment: dict[str, str]
) -> None:
    folder = course.step("submitted", "ada", FIRST)
    folder.mkdir(parents=True)
    (folder / EXACT).write_bytes(good)
    done = subprocess.run(
        ["nbgrader", "autograde", FIRST, "--ClearMetadataPreprocessor.enabled=True"],
        cwd=ROOT,
        env={**nbgrader_environment, "LECTURE_COURSE": str(course.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ClearMetadataPreprocessor is enabled" in done.stderr
    assert not list(course.root.glob("autograded/*/*/*.ipynb"))


def test_the_class_kept_its_journal(hostile: Class) -> None:
    record = read_record(hostile.course, FIRST, "late")
    assert record is not None
    assert record.questions[ACCUMULATE]["points"] == 8
    assert WORDS not in record.questions
