"""Puts the student's folder together: notebooks without answers, the library and its data, what pip and Binder read."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from copy import deepcopy
from pathlib import Path
from string import Template

import nbformat
from nbformat import NotebookNode

from ..setting import ROOT, SETTING, SHIPPED_PACKAGES
from .install_cell import with_install_cell

STUDENT = Path(__file__).parent / "student"
FOLDERS = (*SHIPPED_PACKAGES, "assets", "binder")
FILES = ("LICENSE", "LICENSE-prose", "CHANGELOG.md")
_NOT_SHIPPED = ("__pycache__", "*.pyc", "readme", "make_screenshot.py")
_FIELDS = ("name", "version", "description", "license", "license-files", "requires-python")
FOLDER = re.sub(r"[^a-z0-9]+", "-", SETTING.title.lower()).strip("-") or "course"
"""The folder in the archive that students get."""
_UNPACKED = f"Unpack the file that you got from your instructor, and open a terminal in its folder `{FOLDER}`. There:"


def assemble(folder: Path, released: dict[str, NotebookNode], versions: dict[str, str]) -> None:
    """Write the student's folder.

    Args: where to (it is made), the released notebooks by assignment, the version of each.
    """
    (folder / "notebooks").mkdir(parents=True)
    for name, nb in released.items():
        # A copy: the leak check reads the notebooks as nbgrader released them.
        nbformat.write(with_install_cell(deepcopy(nb)), folder / "notebooks" / f"{name}.ipynb")
    for part in FOLDERS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(*_NOT_SHIPPED))
    for file in FILES:
        shutil.copyfile(ROOT / file, folder / file)
    shutil.copyfile(STUDENT / "gitignore", folder / ".gitignore")
    (folder / "pyproject.toml").write_text(student_pyproject(), "utf-8")
    write_readme(folder, _UNPACKED, "\n" + (STUDENT / "upload.md").read_text("utf-8"))
    write_stamp(folder, {"lecture_lib": library_version(), "assignments": versions})


def write_readme(folder: Path, get: str, online: str) -> None:
    """Write the student's README.

    Args: the folder; how one comes to have the folder; the sections on Binder and Colab, empty when it is not online.
    """
    template = Template((STUDENT / "README.md").read_text("utf-8"))
    listed = ", ".join(f"`{path.name}`" for path in sorted((folder / "notebooks").glob("*.ipynb")))
    words = {"title": SETTING.title, "description": _description()}
    (folder / "README.md").write_text(template.substitute(words, get=get, online=online, notebooks=listed), "utf-8")


def write_stamp(folder: Path, stamp: dict[str, object]) -> None:
    """Write `release.json`, which says what the folder was made from."""
    (folder / "release.json").write_text(json.dumps(stamp, indent=2) + "\n", "utf-8")


def library_version() -> str:
    """The version in the checkout's pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def _description() -> str:
    """What the course is about, from the checkout's pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["description"]).rstrip(".")


def student_pyproject() -> str:
    """The student's pyproject.toml: the checkout's without the instructor's extras and command."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, wheel = settings["project"], settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = sorted({*wheel["packages"], *SHIPPED_PACKAGES})
    # Written by hand: the standard library reads TOML and does not write it.
    dependencies = "".join(f"    {json.dumps(dependency)},\n" for dependency in project["dependencies"])
    files = "".join(f"{json.dumps(src)} = {json.dumps(to)}\n" for src, to in wheel["force-include"].items())
    scripts = "".join(f"{name} = {json.dumps(target)}\n" for name, target in project["scripts"].items())
    fields = "".join(f"{field} = {json.dumps(project[field])}\n" for field in _FIELDS)
    return (
        f"[build-system]\nrequires = {json.dumps(settings['build-system']['requires'])}\n"
        f'build-backend = "hatchling.build"\n\n[project]\n{fields}readme = "README.md"\n'
        f"dependencies = [\n{dependencies}]\n\n"
        f'[project.scripts]\n{scripts}\n[tool.hatch.build]\ndev-mode-dirs = ["."]\n\n'
        f"[tool.hatch.build.targets.wheel]\npackages = {json.dumps(packages)}\n\n"
        f"[tool.hatch.build.targets.wheel.force-include]\n{files}"
    )
