"""Where this checkout has what a course is made of, by its setting `lecture_lib/course.toml`."""

from __future__ import annotations

from pathlib import Path

from lecture_lib._common.course_setting import CourseSettingError, read_course_setting

ROOT = Path(__file__).resolve().parents[1]
SETTING = read_course_setting()


def _folder(name: str) -> Path:
    """The folder that an entry of the setting names. Raises CourseSettingError when the checkout has none."""
    value: str = getattr(SETTING, name)
    path = ROOT / (value.replace(".", "/") if name in ("questions", "descriptions") else value)
    if not path.is_dir():
        raise CourseSettingError(
            f"lecture_lib/course.toml: {name} = {value!r}, and the checkout has no folder "
            f"{path.relative_to(ROOT)}. Make it, or name the one that holds the course's {name}."
        )
    return path


SHIPPED_PACKAGES = tuple(dict.fromkeys(("lecture_lib", SETTING.questions.split(".")[0])))
"""The packages that students get and that a kernel sees: the library, and the one with the course's questions."""


def _hidden(name: str) -> Path:
    """A folder that no student may get. Raises CourseSettingError when it lies in a package that ships."""
    path = _folder(name)
    for package in SHIPPED_PACKAGES:
        if path.is_relative_to(ROOT / package):
            raise CourseSettingError(
                f"lecture_lib/course.toml: {name} = {getattr(SETTING, name)!r} lies in {package}, and students get the "
                f"whole of {package}. Move it to a folder outside."
            )
    return path


if "autograders" in SHIPPED_PACKAGES:
    raise CourseSettingError(
        f"lecture_lib/course.toml: questions = {SETTING.questions!r}, and students get the whole of autograders with "
        "it. Move the questions to a package of the course's own."
    )
PUBLIC_HALVES = _folder("questions")
DESCRIPTIONS = _hidden("descriptions")
ANSWERS = _hidden("answers")
NOTEBOOKS = _hidden("notebooks")
"""The texts with their solutions; students get what is released of them."""
