"""The course's setting, `lecture_lib/course.toml`: where its questions, notebooks, descriptions and answers are."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

FILE = Path(__file__).parents[1] / "course.toml"


class CourseSettingError(RuntimeError):
    """The setting cannot be used; the message has the value and the remedy."""


@dataclass(frozen=True)
class CourseSetting:
    """The course's title; packages by their dotted names, folders by their paths in the checkout."""

    title: str
    questions: str
    """The package of the questions' public halves."""
    notebooks: str
    descriptions: str
    """The package of the questions' hidden halves; students do not have it."""
    answers: str


def read_course_setting(path: Path = FILE) -> CourseSetting:
    """The setting in a file. Raises CourseSettingError when an entry is missing, unknown, or no name or path."""
    try:
        entries = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseSettingError(
            f"{path.name} cannot be read: {error}. guide/another-course.md says what it holds."
        ) from None
    names = [field.name for field in fields(CourseSetting)]
    for name in sorted({*names} ^ {*entries}):
        wrong = "is missing" if name in names else "is not known"
        raise CourseSettingError(f"{path.name}: {name} {wrong}. It holds {', '.join(names)}, each once.")
    title = entries["title"]
    if not isinstance(title, str) or not title.strip() or not title.isprintable():
        raise CourseSettingError(f"{path.name}: title = {title!r} is not a title. Give a few words in one line.")
    for name in names[1:]:
        value = entries[name]
        package = name in ("questions", "descriptions")
        words = str(value).split("." if package else "/")
        if not isinstance(value, str) or not all(map(str.isidentifier, words) if package else words) or ".." in words:
            wanted = "the dotted name of a package" if package else "a folder's path from the checkout, with /"
            raise CourseSettingError(f"{path.name}: {name} = {value!r} is not {wanted}.")
    return CourseSetting(**entries)
