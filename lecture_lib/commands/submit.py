"""Packs a student's notebooks into one file to hand in, and says what is still unanswered."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lecture_lib import __version__

STUBS = ("...  # write your answer here", "*Write your answer here.*")


class SubmitError(ValueError):
    """The notebooks cannot be packed; the message says what to do."""


@dataclass(frozen=True)
class Packed:
    """The file to hand in, the notebooks in it, and the questions of each that still hold the stub."""

    file: Path
    notebooks: tuple[str, ...]
    unanswered: dict[str, list[str]]

    def __str__(self) -> str:
        rows = [f"packed {len(self.notebooks)} notebooks into {self.file}"]
        for name in self.notebooks:
            missing = ", ".join(self.unanswered[name])
            rows.append(f"  {name}: " + (f"not answered yet: {missing}" if missing else "every question has an answer"))
        rows.append("Hand in this file. You can pack and hand in again: the last one counts.")
        return "\n".join(rows)


def submit(student_id: str, name: str, *, folder: str | Path = ".", to: str | Path = ".") -> Packed:
    """Pack every notebook of the course in `folder` into `submission-<id>.zip` in the folder `to`.

    Save the notebooks first: what is packed is what is on disk.

    Args:
        student_id: the id under which the instructor knows you; letters, digits and `.@+'-_ `.
        name: your name, for people.
        folder: where the notebooks are; its subfolder `notebooks` is looked at as well.
        to: where the file goes.

    Raises:
        SubmitError: no id, no notebook of the course, or one that is not readable; nothing is written then.

    """
    if not re.fullmatch(r"[\w][\w.@+' -]{0,99}", student_id):
        raise SubmitError(f"{student_id!r} is no student id: use letters, digits, spaces and . @ + ' - _")
    notebooks = _course_notebooks(Path(folder))
    manifest = {
        "format": 1,
        "id": student_id,
        "name": name,
        "lecture_lib": __version__,
        "submitted": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "notebooks": {stamp["assignment"]: stamp["version"] for _, stamp in notebooks.values()},
    }
    target = Path(to) / f"submission-{student_id.replace(' ', '-')}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False))
        for path, (_, stamp) in notebooks.items():
            archive.write(path, f"{stamp['assignment']}.ipynb")
    return Packed(
        target,
        tuple(stamp["assignment"] for _, stamp in notebooks.values()),
        {stamp["assignment"]: unanswered(nb) for nb, stamp in notebooks.values()},
    )


def unanswered(nb: dict[str, Any]) -> list[str]:
    """The ids of the questions whose answer cell still holds the stub."""
    # nbformat stores a source as one text or as a list of lines.
    cells = ((cell.get("metadata", {}).get("nbgrader", {}), "".join(cell["source"])) for cell in nb["cells"])
    return [
        meta["grade_id"] for meta, source in cells if meta.get("solution") and any(stub in source for stub in STUBS)
    ]


def _course_notebooks(folder: Path) -> dict[Path, tuple[dict[str, Any], dict[str, str]]]:
    """The notebooks with the course's stamp, in `folder` or its subfolder `notebooks`."""
    notebooks: dict[Path, tuple[dict[str, Any], dict[str, str]]] = {}
    for path in sorted([*folder.glob("*.ipynb"), *(folder / "notebooks").glob("*.ipynb")]):
        try:
            nb = json.loads(path.read_text("utf-8"))
            stamp = nb["metadata"].get("lecture", {})
            cells = nb["cells"]
        except (ValueError, KeyError, AttributeError):
            raise SubmitError(f"{path} is not a readable notebook: open it in Jupyter, save it, try again") from None
        # The student's own notebooks may lie in the folder too; only the course's have a stamp.
        if isinstance(cells, list) and {"assignment", "version"} <= set(stamp):
            if any(stamp["assignment"] == earlier["assignment"] for _, earlier in notebooks.values()):
                raise SubmitError(f"two notebooks are {stamp['assignment']} ({path} is one): move one elsewhere")
            notebooks[path] = (nb, stamp)
    if not notebooks:
        raise SubmitError(
            f"no notebook of the course in {folder.resolve()}: run this where your notebooks are, or name their folder"
        )
    return notebooks
