"""Takes one student's files for one assignment: the notebook that counts, the earlier ones, what a person decides."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nbformat import NotebookNode

from .. import notebooks
from ..course import Course
from ..files import write_bytes_atomically, write_text_atomically
from ..plain_text import plain
from .copies import answers_given, most_complete
from .notes import HeldNotebook, Note, UngradedFile, digest_of, held_path, read_note, write_note
from .placement import PlacedNotebook, base_name
from .reading.decoding import Unreadable
from .reading.limited_reading import read_notebook
from .times import TIMESTAMP, handed_in
from .uploads import Upload

TIME = "%Y-%m-%d %H:%M:%S UTC"
_EARLIER = "an earlier notebook was collected; the one that was handed in later still counts"
_MOST_UNGRADED = 50
"""How many files that are not graded a note remembers: anybody can hand in thousands."""


@dataclass(frozen=True)
class DeskResult:
    """What happened to one student's files: which notebook counts now, which wait for a person, and notes."""

    chosen: PlacedNotebook | None
    held: tuple[PlacedNotebook, ...]
    rejected: tuple[PlacedNotebook, ...]
    """Those that a person did not choose the last time."""
    notes: tuple[str, ...]
    why_held: str
    has_notebook: bool


class Desk:
    """Takes the files of one student for one assignment."""

    def __init__(self, course: Course, assignment: str, student: str) -> None:
        self._course, self._assignment, self._student = course, assignment, student
        self._target = course.notebook("submitted", assignment, student)
        self._note = read_note(course, assignment, student) or Note()
        self.refusal = self._note.why_held if self._note.is_damaged else ""
        """Why nothing can be taken for this student now; nothing is written then."""
        self._digest_in_place: str | None = None
        try:
            if self._target.is_file() and not self._target.is_symlink():
                self._digest_in_place = digest_of(self._target.read_bytes())
        except OSError as error:
            self.refusal = f"{self._target} cannot be read ({error.strerror}): correct that, and collect the file again"

    @functools.cached_property
    def _release(self) -> NotebookNode:
        """The released notebook, which few need: most hand in one file."""
        return notebooks.read(self._course.notebook("release", self._assignment))

    def take(
        self,
        items: Sequence[PlacedNotebook],
        ungraded: Sequence[Upload],
        remarks: Sequence[str],
        doubts: Mapping[PlacedNotebook, str],
    ) -> DeskResult:
        """Write the notebook that counts, keep the rest, note everything.

        Args: the notebooks, the files that cannot be graded, remarks about the student, and why some of the notebooks
            wait for a person.
        """
        rejected = [item for item in items if self._is_rejected(item)]
        items = [item for item in items if item not in rejected]
        # What a person has not decided stays undecided, also where this run alone would have seen no doubt.
        waiting = {notebook.digest for notebook in self._note.held}
        undecided = [item for item in items if not item.claim.sure and item.upload.digest in waiting]
        held = [item for item in items if item in doubts or item in undecided]
        why = next(iter(doubts.values()), self._note.why_held if undecided else "")
        settled = [item for item in items if item not in held]
        chosen, notes, ask = self._choose(settled) if settled else (None, [], "")
        if ask:
            held, why, settled = [*held, *settled], ask, []
        if chosen is not None:
            notes = [*chosen.notes, *notes]
            self._write(chosen)
        self._keep([item.upload.content for item in [*settled, *rejected] if item is not chosen])
        notes = [*notes, *remarks]
        self._enter(chosen, held, why, notes, ungraded)
        has_notebook = chosen is not None or self._digest_in_place is not None or bool(held)
        if not has_notebook:
            self._keep_ungraded(ungraded)
        return DeskResult(chosen, tuple(held), tuple(rejected), tuple(notes), why, has_notebook)

    def _is_rejected(self, item: PlacedNotebook) -> bool:
        """Whether a person did not choose this notebook, and has not put it in its place since."""
        return item.upload.digest in self._note.rejected and item.upload.digest != self._digest_in_place

    def rejection(self, item: PlacedNotebook) -> str:
        """Why a notebook does not count that a person did not choose, and how to change that."""
        paths = self._attempt(item.upload.digest), self._target
        kept, target = (path.relative_to(self._course.root) for path in paths)
        return (
            "a person rejected it with `autograde confirm`. To let it count after all, copy "
            f"{kept} to {target} in the course's folder"
        )

    def disputed(self, items: Sequence[PlacedNotebook]) -> tuple[list[PlacedNotebook], str]:
        """The notebooks whose only evidence is their own id, where other evidence contradicts it; and the reason."""
        items = [item for item in items if not self._is_rejected(item)]
        current = self._digest_in_place
        # The notebook in place may be collected again: it is a copy, not a dispute.
        claimed = [item for item in items if not item.claim.sure and item.upload.digest != current]
        # Only the one who handed in the notebook in place may replace it without a question. Where there is none, the
        # word of an LMS or a person is worth more than what a file says of itself, and two files can disagree.
        if current is not None:
            expected_origins = {self._note.origin if self._note.digest == current else "a file put there by hand"}
            disputed = [item for item in claimed if item.claim.origin not in expected_origins]
        else:
            expected_origins = {item.claim.origin for item in items if item.claim.sure}
            disputed = claimed if expected_origins or len({item.claim.origin for item in claimed}) > 1 else []
        if not disputed:
            return [], ""
        hands = ", ".join(sorted(expected_origins | {item.claim.origin for item in disputed}))
        return disputed, f"files under the id {self._student} come from different hands ({hands}): whose is which?"

    def _choose(self, items: Sequence[PlacedNotebook]) -> tuple[PlacedNotebook | None, list[str], str]:
        """The last notebook that has answers, notes, and what to ask where two of one time contradict each other."""
        notes = []
        if len({item.upload.digest for item in items}) > 1:
            notes.append(f"{len(items)} files were handed in for {self._assignment}; one of them counts")
        if len(items) == 1 and self._digest_in_place in (None, items[0].upload.digest):
            return items[0], [], ""  # with answers or without
        last: PlacedNotebook | None = None
        # A file without a time comes after all that have one: it counts only where they have no answers.
        for time in sorted({item.time or datetime.min for item in items}, reverse=True):
            group = [item for item in items if (item.time or datetime.min) == time]
            if self._is_later_in_place(group) and self._has_answers(self._target.read_bytes()):
                return None, [*notes, _EARLIER], ""
            best = self._best(group)
            if best is None:
                names = ", ".join(sorted({base_name(item.upload.label) for item in group}))[:200]
                return (
                    None,
                    [],
                    f"{len(group)} notebooks were handed in together and differ ({names}): which one counts?",
                )
            last = last or best
            if self._has_answers(best.upload.content):
                remarks = (
                    [] if best is last else ["the one handed in last has no answers; the last one that has counts"]
                )
                return best, [*notes, *remarks], ""
        assert last is not None
        if self._is_later_in_place([last]):
            return None, [*notes, _EARLIER], ""
        if self._digest_in_place not in (None, last.upload.digest) and self._has_answers(self._target.read_bytes()):
            remark = "what was handed in last has no answers, or cannot be read; the notebook from before still counts"
            return None, [remark], ""
        return last, notes, ""

    def _is_later_in_place(self, group: Sequence[PlacedNotebook]) -> bool:
        """Whether the notebook in place was handed in after those of one time, as far as both times are known."""
        if group[0].time is None or self._digest_in_place in (None, *(item.upload.digest for item in group)):
            return False
        in_place = handed_in(self._target.parent).time
        return in_place is not None and in_place > group[0].time

    def _best(self, group: Sequence[PlacedNotebook]) -> PlacedNotebook | None:
        """The notebook that counts among those of one time, or None."""
        if len({item.upload.digest for item in group}) == 1:
            return group[-1]
        readable = {item.upload.label: nb for item in group if (nb := _read(item.upload.content)) is not None}
        if not readable:
            return group[-1]
        exact = [label for label in readable if base_name(label) == f"{self._assignment}.ipynb"]
        chosen = most_complete(readable, self._release, exact[0] if len(exact) == 1 else "")
        return next((item for item in group if item.upload.label == chosen), None)

    def _has_answers(self, content: bytes) -> bool:
        nb = _read(content)
        return nb is not None and bool(answers_given(nb, self._release))

    def _write(self, chosen: PlacedNotebook) -> None:
        """Put the notebook in its place; what was there is kept."""
        folder = self._target.parent
        if self._digest_in_place not in (None, chosen.upload.digest):
            self._keep([self._target.read_bytes()])
        # Files that lie here without a notebook (see `_keep_ungraded`) must not compete with the one that comes now.
        if self._digest_in_place is None and folder.is_dir() and not folder.is_symlink():
            for path in folder.iterdir():
                if path.is_file() and path.name != TIMESTAMP and not path.is_symlink():
                    self._attempts.mkdir(parents=True, exist_ok=True)
                    path.rename(_free_place(self._attempts, path.name, _digest_at(path)))
        write_bytes_atomically(self._target, chosen.upload.content)
        if chosen.time is not None:
            write_text_atomically(folder / TIMESTAMP, f"{chosen.time:{TIME}}\n")
        else:
            # The time of the notebook that was here before is not this one's.
            (folder / TIMESTAMP).unlink(missing_ok=True)

    @property
    def _attempts(self) -> Path:
        return self._course.root / "attempts" / self._student / self._assignment

    def _attempt(self, digest: str) -> Path:
        """Where a notebook is kept that does not count."""
        # Named by its content: collecting the same files again adds no copy.
        return self._attempts / f"{digest[:12]}.ipynb"

    def _keep(self, contents: Sequence[bytes]) -> None:
        """Keep notebooks that do not count."""
        for content in contents:
            write_bytes_atomically(self._attempt(digest_of(content)), content)

    def _keep_ungraded(self, ungraded: Sequence[Upload]) -> None:
        """Put files that are no notebook where one is missing, so that the student has a state and a reason."""
        self._target.parent.mkdir(parents=True, exist_ok=True)
        for upload in ungraded:
            name = _ending(plain(base_name(upload.label)).replace("/", "_"))
            if upload.has_content and name not in (self._target.name, TIMESTAMP):
                path = _free_place(self._target.parent, f"handed-in {name}", upload.digest)
                write_bytes_atomically(path, upload.content)

    def _enter(
        self,
        chosen: PlacedNotebook | None,
        held: Sequence[PlacedNotebook],
        why: str,
        notes: list[str],
        ungraded: Sequence[Upload],
    ) -> None:
        note = self._note
        if chosen is not None:
            note.file, note.digest = chosen.upload.label, chosen.upload.digest
            note.origin, note.late = chosen.claim.origin, chosen.claim.late
            note.rejected = [digest for digest in note.rejected if digest != note.digest]
        # Without a new notebook, what was noted about the one in place stays true.
        note.notes = notes if chosen is not None else list(dict.fromkeys([*note.notes, *notes]))
        new = {upload.label: UngradedFile(upload.label, upload.problem or "") for upload in ungraded}
        note.others = [*(file for file in note.others if file.file not in new), *new.values()][-_MOST_UNGRADED:]
        for item in held:
            time = f"{item.time:{TIME}}" if item.time else ""
            digest = item.upload.digest
            entry = HeldNotebook(item.upload.label, digest, item.claim.origin, time, item.claim.late)
            note.held = [*(before for before in note.held if before.digest != digest), entry]
            write_bytes_atomically(held_path(self._course, self._assignment, self._student, entry), item.upload.content)
        note.why_held = why or note.why_held
        write_note(self._course, self._assignment, self._student, note)


def _digest_at(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _free_place(folder: Path, name: str, digest: str) -> Path:
    """Where a file goes so that no other content is replaced: under its name, or with the digest before it."""
    path = folder / name
    return folder / f"{digest[:12]} {_ending(name)}" if path.exists() and _digest_at(path) != digest else path


def _ending(name: str) -> str:
    """The end of a name that is too long, since it has the suffix. A file system counts bytes, and allows 255."""
    return os.fsencode(name)[-200:].decode("utf-8", "ignore")


def _read(content: bytes) -> NotebookNode | None:
    try:
        return read_notebook(content).notebook
    except Unreadable:
        return None
