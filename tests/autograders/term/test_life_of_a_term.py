"""Extensions, a student who is forgotten, a backup and what is restored from it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MIXED, MixedClass, copy_course
from helpers.large_class import multiply

from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.files import write_text_atomically
from autograders.grading.journal import read_record, write_record
from autograders.grading.pending import find_pending
from autograders.intake.intake import submission_digest
from autograders.intake.notes import Note, write_note
from autograders.nbgrader.database import open_gradebook
from autograders.results.row import ScoreRow
from autograders.results.rows import rows
from autograders.tables import read_table
from autograders.term.backup import back_up, restore
from autograders.term.encryption import MAGIC, PIECE, EncryptedReader, EncryptedWriter
from autograders.term.extend import extend

pytestmark = pytest.mark.slow

WHO, ON_TIME, OTHERS = "student-00001", "student-00002", 6


@pytest.fixture(scope="module")
def played(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class of six with ids that occur in no text, its tables written, and files of every kind."""
    course = multiply(mixed_graded.course, tmp_path_factory.mktemp("played") / "course", OTHERS, [MIXED])
    write_note(course, MIXED, WHO, Note(f"{WHO}.ipynb", "d"))
    for folder in ("attempts", "set-aside", "feedback"):
        write_text_atomically(course.step(folder, WHO, MIXED) / "page.html", "by Student Number00001")
    write_text_atomically(course.root / "collected" / MIXED / WHO / "held.ipynb", "{}")
    assert main(["gradebook", "--wide", *of(course)]) in (0, 3)
    assert main(["report", "--names", *of(course)]) == 0
    return course


@pytest.fixture
def course(played: Course, tmp_path: Path) -> Course:
    return copy_course(played, tmp_path / "course")


def of(course: Course) -> list[str]:
    return ["--course", str(course.root), "--assignment", MIXED]


def row_of(course: Course, student: str) -> ScoreRow:
    (row,) = [row for row in rows(course, [MIXED]) if row.student == student]
    return row


def test_an_extension_counts_at_once_and_is_told(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    (course.root / "assignments.csv").write_text(
        f"assignment,due,late_penalty\n{MIXED},2026-03-01 12:00 UTC,zero\n", "utf-8"
    )
    full = row_of(course, ON_TIME)
    assert full.score
    (course.step("submitted", ON_TIME, MIXED) / "timestamp.txt").write_text("2026-03-03 12:00:00 UTC\n", "utf-8")
    record = read_record(course, MIXED, ON_TIME)
    assert record is not None
    # As if it had been graded with this time.
    write_record(course, replace(record, digest=submission_digest(course, MIXED, ON_TIME)))
    extend(course, ON_TIME, MIXED, "none")
    assert (row_of(course, ON_TIME).state, row_of(course, ON_TIME).score) == ("late", 0)
    assert main(["extend", ON_TIME, MIXED, "--until", "2026-03-02 13:00 +0100", "--course", str(course.root)]) == 0
    assert "an extended due date, 2026-03-02 12:00 UTC" in capsys.readouterr().out
    late = row_of(course, ON_TIME)
    assert (late.state, late.score) == ("late", 0)
    assert "handed in 1 d after the due date" in late.reason
    extend(course, ON_TIME, MIXED, "2026-03-03 12:00 UTC")
    in_time = row_of(course, ON_TIME)
    assert (in_time.state, in_time.score) == (full.state, full.score)
    assert "the due date was extended to 2026-03-03 12:00 UTC" in in_time.reason
    with open_gradebook(course) as gradebook:
        submission = gradebook.find_submission(MIXED, ON_TIME)
        assert submission.total_seconds_late == 0
        assert submission.extension.total_seconds() == 2 * 86_400
    # Whoever has not handed in yet can have more time too.
    course.roster.write_text(course.roster.read_text("utf-8") + "newcomer,New Comer\n", "utf-8")
    extend(course, "newcomer", MIXED, "2026-04-01 00:00 UTC")
    missing = row_of(course, "newcomer")
    assert (missing.state, missing.score) == ("missing", None)
    assert "extended to 2026-04-01 00:00 UTC" in missing.reason


@pytest.mark.parametrize(
    ("due", "student", "until", "said"),
    [
        ("2026-03-01 12:00 UTC", WHO, "2026-03-02 12:00", "with the zone"),
        ("2026-03-01 12:00 UTC", WHO, "next week", "'next week' is not a time"),
        ("2026-03-01 12:00 UTC", WHO, "2026-03-01 13:00 +0100", "is not after the due date, 2026-03-01 12:00 UTC"),
        ("2026-03-01 12:00 UTC", "nobody", "2026-03-02 12:00 UTC", "nobody has the id 'nobody'"),
        ("2026-03-01 12:00 UTC", "", "2026-03-02 12:00 UTC", "nobody has the id ''"),
        ("2026-03-01 12:00 UTC", ".", "2026-03-02 12:00 UTC", "nobody has the id '.'"),
        ("", WHO, "2026-03-02 12:00 UTC", "has no due date, so nothing is late"),
    ],
)
def test_an_extension_that_cannot_be_is_refused(course: Course, due: str, student: str, until: str, said: str) -> None:
    (course.root / "assignments.csv").write_text(f"assignment,due\n{MIXED},{due}\n", "utf-8")
    before = rows(course, [MIXED])
    with pytest.raises(CourseError, match=said):
        extend(course, student, MIXED, until)
    assert rows(course, [MIXED]) == before


def mentions(course: Course, words: list[bytes]) -> list[str]:
    """Every file of the course's folder whose path or content has one of the words."""
    found = []
    for path in sorted(course.root.rglob("*")):
        name = str(path.relative_to(course.root)).encode()
        content = path.read_bytes() if path.is_file() else b""
        found += [str(path) for word in words if word in name or word in content][:1]
    return found


def test_a_forgotten_student_is_in_no_file_and_everybody_else_stays(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [WHO.encode(), b"Student Number00001"]
    before = mentions(course, words)
    tables = {name: read_table(course.root / name) for name in ("grades.csv", "questions.csv", "roster.csv")}
    kept = [row for row in rows(course, [MIXED]) if row.student != WHO]
    forgotten = row_of(course, WHO)
    assert main(["forget", WHO, *of(course)]) == 0
    listed = capsys.readouterr().out
    assert "nothing deleted: add --yes" in listed
    assert mentions(course, words) == before
    for place in (
        f"submitted/{WHO}",
        f"journal/{MIXED}/{WHO}.json",
        "gradebook.db",
        "roster.csv (1 lines)",
        "report.html",
    ):
        assert place in listed
    assert main(["forget", WHO, "--yes", "--keep-statistics", *of(course)]) == 0
    assert mentions(course, words) == []
    assert rows(course, [MIXED]) == kept
    for name, table in tables.items():
        assert read_table(course.root / name) == [row for row in table if WHO not in row.values()]
    (line,) = read_table(course.root / "anonymous.csv")
    assert (line["assignment"], line["state"], float(line["score"])) == (MIXED, forgotten.state, forgotten.score)
    assert main(["forget", WHO, "--yes", *of(course)]) == 1
    assert f"nothing of '{WHO}' is in" in capsys.readouterr().err


@pytest.mark.parametrize("student", ["", ".", "..", "../course", ".writer"])
def test_what_is_no_id_is_not_forgotten(course: Course, student: str) -> None:
    before = {path for path in course.root.rglob("*") if path.name != ".writer"}
    assert main(["forget", student, "--yes", *of(course)]) == 1
    assert {path for path in course.root.rglob("*") if path.name != ".writer"} == before


@pytest.mark.parametrize("passphrase", [None, "a long walk"])
def test_a_restored_course_gives_the_same_tables_by_the_byte(
    course: Course, tmp_path: Path, passphrase: str | None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{passphrase}\n" * 2))
    option = ["--passphrase"] if passphrase else []
    file, other = tmp_path / "term.backup", Course(tmp_path / "elsewhere" / "course")
    assert main(["backup", str(file), *option, "--course", str(course.root)]) == 0
    assert ("can read the secret" in capsys.readouterr().err) == (passphrase is None)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (course.secret.read_bytes().strip() in file.read_bytes()) is False
    assert main(["restore", str(file), *option, "--course", str(other.root)]) == 0
    for name in ("gradebook --wide", "report"):
        for each in (course, other):
            assert main([*name.split(), *of(each)]) in (0, 3)
    for name in ("grades.csv", "questions.csv", "grades-wide.csv", "report.html", "secret", "roster.csv"):
        assert (other.root / name).read_bytes() == (course.root / name).read_bytes(), name
    times = {path.relative_to(course.root): path.stat().st_mtime for path in course.step("submitted").rglob("*")}
    assert {path.relative_to(other.root): path.stat().st_mtime for path in other.step("submitted").rglob("*")} == times
    assert str(find_pending(other, [MIXED], None)[0]) == str(find_pending(course, [MIXED], None)[0])
    assert find_pending(other, [MIXED], None)[1] == []


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda content: content[:-1], "damaged"),
    "a byte": (lambda content: content[:300] + bytes([content[300] ^ 1]) + content[301:], "damaged"),
    "the salt": (lambda content: content[:20] + bytes([content[20] ^ 1]) + content[21:], "damaged"),
    "something else": (lambda content: b"%PDF-1.7", "is no backup, or damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("passphrase", [None, "a long walk"])
def test_a_damaged_backup_restores_nothing(tmp_path: Path, damage: str, passphrase: str | None) -> None:
    course = Course(tmp_path / "course")
    course.root.mkdir()
    (course.root / "secret").write_bytes(bytes(range(256)) * 20)
    file, other = tmp_path / "file", Course(tmp_path / "other")
    back_up(course, file, passphrase)
    with pytest.raises(CourseError, match="exists already"):
        back_up(course, file)
    change, said = DAMAGES[damage]
    if damage == "the salt" and passphrase is None:
        pytest.skip("no salt without a passphrase")
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(CourseError, match=said):
        restore(file, other, passphrase)
    assert not other.root.exists()
    assert not list(tmp_path.glob(".restored-*"))


def test_a_passphrase_is_needed_and_has_to_be_the_right_one(tmp_path: Path) -> None:
    course = Course(tmp_path / "course")
    course.root.mkdir()
    (course.root / "secret").write_text("s", "utf-8")
    back_up(course, tmp_path / "file", "right")
    for passphrase, said in ((None, "add --passphrase"), ("wrong", "the passphrase is wrong")):
        with pytest.raises(CourseError, match=said):
            restore(tmp_path / "file", Course(tmp_path / "other"), passphrase)
    assert restore(tmp_path / "file", Course(tmp_path / "other"), "right") == 1
    with pytest.raises(CourseError, match="is there already"):
        restore(tmp_path / "file", Course(tmp_path / "other"), "right")
    with pytest.raises(CourseError, match="lies in the course's own folder"):
        back_up(course, course.root / "file")


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_the_file_is_what_its_description_says(size: int) -> None:
    """Decrypted here with the standard library's scrypt, piece by piece, as the module's docstring describes it."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    content = hashlib.shake_128(b"x").digest(size)
    file = io.BytesIO()
    with EncryptedWriter(file, "pass") as writer:
        for start in range(0, size, 100_000):
            writer.write(content[start : start + 100_000])
    written = file.getvalue()
    header, body = written[: len(MAGIC) + 23], written[len(MAGIC) + 23 :]
    key = hashlib.scrypt(b"pass", salt=header[len(MAGIC) :][:16], n=2**15, r=8, p=1, maxmem=2**26, dklen=32)
    pieces = [body[start : start + PIECE + 16] for start in range(0, len(body), PIECE + 16)]
    plain = b""
    for number, piece in enumerate(pieces):
        nonce = header[-7:] + number.to_bytes(4, "big") + bytes([number == len(pieces) - 1])
        plain += AESGCM(key).decrypt(nonce, piece, header)
    assert plain == content
    assert io.BufferedReader(EncryptedReader(io.BytesIO(written), "pass")).read() == content
    if len(pieces) > 2:
        exchanged = header + pieces[1] + pieces[0] + b"".join(pieces[2:])
        with pytest.raises(CourseError, match="damaged"):
            EncryptedReader(io.BytesIO(exchanged), "pass").read()
