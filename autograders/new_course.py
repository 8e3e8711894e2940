"""A course of another author: a folder with the library, the grading code and one example question, ready to build."""

from __future__ import annotations

import json
import keyword
import re
import shutil
from pathlib import Path
from string import Template

from .files import write_text_atomically
from .new_question import SKELETONS
from .notebooks import NotebookError
from .questions.published_tables import TABLES, without_rows
from .setting import ANSWERS, DESCRIPTIONS, NOTEBOOKS, PUBLIC_HALVES, ROOT

_COPIED = ("lecture_lib", "autograders", "assets", "binder")
_FILES = ("LICENSE", "LICENSE-prose", "hatch_build.py", "nbgrader_config.py", "pyproject.toml", ".gitignore")
# Pages of the guide that are about this course's questions and measurements.
_OF_THIS_COURSE = ("what-is-learned.md", "rubrics.md", "how-well-it-works.md", "learning-alone.md")
_OF_ORIGINAL = re.compile(
    r"^<!-- original course: begin -->\n.*?^<!-- original course: end -->\n+", re.MULTILINE | re.DOTALL
)
"""What a page of the guide says about this course's questions, checkout and measurements."""
_TESTS_STAY = (
    "Files in `tests/` are those of the course from which this library was copied. They are not in this folder."
)
_TAKEN = {*_COPIED, "tests", "lessons", "hidden", "torch", "numpy"}


def write_course(folder: Path, package: str, title: str) -> list[Path]:
    """Write a course with one example question, which builds, passes its checks and can be released.

    Args:
        folder: is made; may exist if it is empty.
        package: of the questions' public halves; it ships to students beside lecture_lib.
        title: as students read it.

    Returns the files that an author edits first. Raises NotebookError when the folder has something in it, the package
    cannot have this name, or the title is empty or has more than one line.

    """
    if not package.isidentifier() or keyword.iskeyword(package) or package in _TAKEN:
        raise NotebookError(f"{package!r} cannot be the package's name. Take one word in Python's sense: my_course.")
    if not title.strip() or not title.isprintable():
        raise NotebookError(f"{title!r} cannot be the course's title. Give a few words in one line.")
    folder = folder.resolve()
    if folder.is_relative_to(ROOT):
        raise NotebookError(f"{folder} lies in this checkout. Give a folder outside, which becomes a repository.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NotebookError(f"{folder} is there already, with something in it. Give a new folder.")
    _copy_what_is_general(folder, package, title)
    places = {
        "lecture_lib/course.toml": _setting(package, title),
        "lecture_lib/notebook/points.json": "{}\n",
        f"{package}/__init__.py": f'"""{title}: what students get beside lecture_lib."""\n',
        f"{package}/questions/__init__.py": '"""The public half of every graded question, one file each."""\n',
        "hidden/__init__.py": "",
        "hidden/descriptions/__init__.py": '"""The questions, one file each; never in what students get."""\n',
        "CHANGELOG.md": "# Changelog\n\n## 0.1.0 (unreleased)\n\n- The first notebook.\n",
    }
    for name, text in places.items():
        _write(folder / name, text)
    written = {
        "README.md": "readme",
        "Makefile": "makefile",
        "lessons/01a-first-steps.py": "notebook",
        f"{package}/questions/centre.py": "public",
        "hidden/descriptions/centre.py": "description",
        "hidden/answers/01a-centre.md": "answers",
    }
    for name, skeleton in written.items():
        text = (SKELETONS / "course" / f"{skeleton}.txt").read_text("utf-8")
        named = skeleton in ("readme", "makefile")
        _write(folder / name, Template(text).substitute(title=title, package=package) if named else text)
    return [folder / name for name in written]


def _copy_what_is_general(folder: Path, package: str, title: str) -> None:
    """The library and the grading code without a question of this course."""
    guide = ROOT / "autograders" / "guide"
    of_this_course = {PUBLIC_HALVES, DESCRIPTIONS, ANSWERS, NOTEBOOKS, *(guide / page for page in _OF_THIS_COURSE)}
    of_this_course |= {ROOT / "assets" / "readme", ROOT / "assets" / "make_screenshot.py"}

    def left_out(where: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__pycache__" or Path(where, name) in of_this_course]

    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in _FILES:
        shutil.copyfile(ROOT / name, folder / name)
    library = folder / "lecture_lib" / "README.md"
    heading, rest = library.read_text("utf-8").split("\n", 1)
    library.write_text(f"{heading}\n\n{_TESTS_STAY}\n{rest}", "utf-8")
    conda = folder / "binder" / "environment.yml"
    named = re.sub(r"^name: .*", f"name: {package.replace('_', '-')}", conda.read_text("utf-8"), flags=re.MULTILINE)
    conda.write_text(named, "utf-8")
    readme, tables = folder / "autograders" / "README.md", folder / TABLES.relative_to(ROOT)
    for page in (folder / "autograders" / "guide").glob("*.md"):
        page.write_text(_OF_ORIGINAL.sub("", page.read_text("utf-8")).rstrip() + "\n", "utf-8")
    lines = readme.read_text("utf-8").splitlines(keepends=True)
    unlinked = (line for line in lines if not any(f"](guide/{page})" in line for page in _OF_THIS_COURSE))
    readme.write_text("".join(unlinked), "utf-8")
    tables.write_text(without_rows(TABLES.read_text("utf-8")), "utf-8")
    settings = folder / "pyproject.toml"
    lines = settings.read_text("utf-8").splitlines()
    changed = {
        "description = ": f"description = {json.dumps(title, ensure_ascii=False)}",
        "packages = [": f'packages = ["lecture_lib", "{package}"]',
        "include = [": f'include = ["/lecture_lib", "/{package}", "/assets", "/hatch_build.py", "/README.md", '
        '"/LICENSE"]',
    }
    for start, line in changed.items():
        number = next(number for number, old in enumerate(lines) if old.startswith(start))
        lines[number] = line
    settings.write_text("\n".join(lines) + "\n", "utf-8")


def _setting(package: str, title: str) -> str:
    entries = {
        "title": title,
        "questions": f"{package}.questions",
        "notebooks": "lessons",
        "descriptions": "hidden.descriptions",
        "answers": "hidden/answers",
    }
    # A string of JSON is one of TOML too.
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entries.items())
    return "# What this course is made of.\n" + "".join(lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, text)
