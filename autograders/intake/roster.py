"""Who is in the class, and whose a file is: by roster, mapping file, or the names in an export of an LMS."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ..course import Course, CourseError
from ..tables import read_csv
from .times import has_zone, parse_time

_MOODLE = re.compile(r"^(?P<name>.+?)_\d+_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)$")
CANVAS_FILE = re.compile(r"^(?P<name>[^_]*)(?P<late>_late)?_(?P<number>\d+)_\d+_(?P<rest>.+)$", re.IGNORECASE)
_PARTICIPANT = re.compile(r"_(\d+)_assignsubmission_")
_WORKSHEET = {"Identifier", "Full name", "Status"}
"""The columns by which Moodle's grading worksheet is known, downloaded in English."""
_YES = ("yes", "true", "1", "x", "late")
_OWN_ID = re.compile(r"[\w][\w.@+' -]{0,99}")
_NAME_COLUMNS = ("name", "first_name", "last_name")


@dataclass(frozen=True)
class Owner:
    """Whose a file is, who says so, and a time of handing in where a mapping file gives one."""

    student: str | None
    said_by: str
    submitted: str | None = None
    late: str = ""
    """Who marks it as late."""
    sure: bool = False
    """Whether a person or an LMS says it, which a student cannot write into a file."""


class Roster:
    """The class as `roster.csv` has it: ids, and names where it has columns for them."""

    def __init__(self, course: Course) -> None:
        """Read the roster. Raises CourseError with the remedy when it cannot be used."""
        self.exists = course.roster.exists()
        self.names: dict[str, str] = {}
        self.emails: dict[str, str] = {}
        self.lms_ids: dict[str, str] = {}
        """The numbers that Canvas has for the students; empty for those without one."""
        self._by_lms_id: dict[str, set[str]] = defaultdict(set)
        self._by_name: dict[str, set[str]] = defaultdict(set)
        self._by_case: dict[str, str] = {}
        if self.exists:
            for row in _rows(course.roster, ["id"]):
                student = normal_id(row["id"])
                # Spreadsheets leave empty rows at the end.
                if not student:
                    continue
                if not is_path_safe(student):
                    raise CourseError(f"{course.roster}: {student!r} cannot be an id: it cannot name a folder")
                name = " ".join(filter(None, (row.get(column, "") for column in _NAME_COLUMNS)))
                if "\n" in name:
                    raise CourseError(
                        f"{course.roster}: the name {name!r:.200} has several lines. Is a quotation mark "
                        "opened there and not closed?"
                    )
                if self.names.setdefault(student, name) != name:
                    raise CourseError(
                        f"{course.roster}: the id {student} is that of {self.names[student]!r} and of {name!r}; "
                        "give each student an id of their own"
                    )
                self.emails[student], self.lms_ids[student] = row.get("email", ""), row.get("lms_id", "")
                self._by_lms_id[self.lms_ids[student].strip()].add(student)
                self._by_case.setdefault(student.casefold(), student)
                for key in _name_keys(_words(name)):
                    self._by_name[key].add(student)

    def __contains__(self, student: str) -> bool:
        return student in self.names

    def by_lms_id(self, number: str) -> str | None:
        """The one student for whom Canvas has this number; None when there is none or several."""
        students = self._by_lms_id.get(number, set()) if number else set()
        return next(iter(students)) if len(students) == 1 else None

    def by_name(self, name: str) -> str | None:
        """The one student whose name is made of the same words, in any order; None when there is none or several."""
        students = self.named(name)
        return students[0] if len(students) == 1 else None

    def named(self, name: str) -> list[str]:
        """Every student whose name is made of the same words, in any order."""
        return sorted(set().union(*(self._by_name.get(key, ()) for key in _sought_keys(_words(name)))))

    def unknown(self, student: str) -> str:
        """What to say of a student who is not on the roster; empty when there is no roster, or they are."""
        if not self.exists or student in self:
            return ""
        similar = self._by_case.get(student.casefold())
        return f"{student} is not on the roster" + (f" ({similar} is)" if similar else "")


class Owners:
    """Finds whose a collected file is."""

    def __init__(self, roster: Roster, mapping: Path | None = None) -> None:
        """Read the mapping. Raises CourseError with the remedy when it cannot be used.

        Args: the class; optionally a CSV with the columns `file` or `name`, `id`, and optionally `submitted` and
        `late`, or Moodle's grading worksheet.
        """
        self.roster = roster
        self._rows: list[dict[str, str]] = []
        self._participants: dict[str, dict[str, str]] = {}
        rows = [] if mapping is None else _rows(mapping)
        if rows and set(rows[0]) >= _WORKSHEET:
            self._participants = {"".join(re.findall(r"\d+", row["Identifier"])): row for row in rows}
            return
        for row in rows:
            if "id" not in row:
                raise CourseError(f"{mapping}: no column 'id'; it has {list(row)}")
            if not (row.get("file") or row.get("name")) or not is_path_safe(normal_id(row["id"])):
                raise CourseError(f"{mapping}: a row needs an id and a file or a name; {row} has not")
            submitted = row.get("submitted", "")
            if submitted and (parse_time(submitted) is None or not has_zone(submitted)):
                raise CourseError(
                    f"{mapping}: {submitted!r} is not a time; write 2026-03-01 23:59 +0100, with the zone"
                )
            self._rows.append(row)

    def of(self, label: str) -> Owner:
        """The owner of a file, from its path inside what was collected; without a student when the path does not say.

        The outermost name that identifies somebody counts: a student may have chosen any name further in.
        """
        parts = PurePosixPath(label).parts
        for row in self._rows:
            pattern = row.get("file", "")
            if pattern and any(pattern == text or fnmatchcase(text, pattern) for text in (label, *parts)):
                return _mapped(row)
        for part in parts:
            for lms in (_MOODLE.match(part), CANVAS_FILE.match(part)):
                if lms is not None:
                    fields = lms.groupdict()
                    late = "Canvas" if fields.get("late") else ""
                    return self._named(lms["name"], part, late, fields.get("number", ""))
            for text in (normal_id(part), normal_id(PurePosixPath(part).stem)):
                if text in self.roster:
                    return Owner(text, "the file's name")
        return Owner(None, f"no id in {label!r}: name it in a mapping file")

    def _named(self, name: str, part: str, late: str, canvas_number: str) -> Owner:
        """The owner by the name that an LMS wrote into a part of the path, or by Canvas's number of the student."""
        for row in self._rows:
            pattern = row.get("name", "")
            if pattern and (fnmatchcase(name, pattern) or _same_name(_words(pattern), _words(name))):
                return _mapped(row, late)
        if (known := self.roster.by_lms_id(canvas_number)) is not None:
            return Owner(known, "the LMS", late=late, sure=True)
        number = _PARTICIPANT.search(part)
        row = self._participants.get(number[1], {}) if number else {}
        if re.search(r"\blate\b", row.get("Status", ""), re.IGNORECASE):
            late = "Moodle"
        own = normal_id(row.get("ID number", ""))
        student = own if own in self.roster or (own and not self.roster.exists and is_path_safe(own)) else None
        student = student or self.roster.by_name(row.get("Full name") or name)
        if student is not None:
            return Owner(student, "the LMS", late=late, sure=True)
        return Owner(None, self._why_nobody(row.get("Full name") or name), late=late)

    def _why_nobody(self, name: str) -> str:
        """Why a name that an LMS wrote leads to no student, and what to do."""
        remedy = f"say whose it is in a mapping: a line with the name {name!r} and the id"
        if not self.roster.exists:
            return f"the LMS names {name!r}, and there is no roster that has an id for the name. Make one, or {remedy}"
        if same_name := self.roster.named(name):
            return f"{len(same_name)} students on the roster are called {name!r} ({', '.join(same_name)}): {remedy}"
        return f"no student on the roster is called {name!r}. Correct the name in roster.csv, or {remedy}"


def _mapped(row: dict[str, str], late: str = "") -> Owner:
    marked_by = "the mapping" if row.get("late", "").casefold() in _YES else late
    return Owner(normal_id(row["id"]), "the mapping", row.get("submitted") or None, marked_by, sure=True)


def lms_person(label: str) -> str:
    """The part of a path in which an LMS names the person, or ""."""
    return next((part for part in PurePosixPath(label).parts if _MOODLE.match(part) or CANVAS_FILE.match(part)), "")


def plain_owner(label: str) -> str | None:
    """The id in a name like `ID.ipynb`, for a course without a roster; None when it is none."""
    stem = normal_id(PurePosixPath(label).stem)
    return stem if _OWN_ID.fullmatch(stem) else None


def is_own_id(student: object) -> bool:
    """Whether a student may call themselves that in `lecture submit`."""
    return isinstance(student, str) and _OWN_ID.fullmatch(student) is not None and is_path_safe(student)


def is_path_safe(student: str) -> bool:
    """Whether an id can name a folder, and nothing but that folder."""
    return (
        0 < len(student.encode("utf-8", "replace")) <= 200
        and not student.startswith(".")
        and not set("/\\\0") & set(student)
        and student.isprintable()
    )


def normal_id(text: str) -> str:
    """An id without surrounding space, its accents in the composed form: macOS writes them apart."""
    return unicodedata.normalize("NFC", text.strip())


def name_key(name: str) -> str:
    """A name for comparing: its words without accents and capitals, in order."""
    return " ".join(sorted(_words(name)))


def _words(name: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", plain.replace("'", "").replace("’", ""))


def _same_name(left: list[str], right: list[str]) -> bool:
    return not _name_keys(left).isdisjoint(_sought_keys(right))


def _name_keys(words: list[str]) -> set[str]:
    """What a name can be found by: its words in any order, and joined, which is marked."""
    return {" ".join(sorted(words)), *(f"+{joined}" for joined in _joined(words))} if words else set()


def _sought_keys(words: list[str]) -> set[str]:
    """Which keys of another name make it the same one: a joined name is only compared with one that is not."""
    joined = _joined(words) if len(words) > 1 else {f"+{word}" for word in words}
    return {" ".join(sorted(words)), *joined} if words else set()


def _joined(words: list[str]) -> set[str]:
    return {"".join(words[turn:] + words[:turn]) for turn in range(len(words))}


def _rows(path: Path, required: Sequence[str] = ()) -> list[dict[str, str]]:
    hint = " An export of an LMS becomes the roster with `autograde roster FILE`."
    rows = read_csv(path, required, hint=hint).rows()
    return [{name: cell.strip() for name, cell in row.items()} for row in rows]
