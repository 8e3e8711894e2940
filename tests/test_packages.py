"""What PyPI would get: the source builds the wheel by itself, and the wheel works where there is no checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from helpers.student_computer import Computer, packages_of_students

from lecture_lib import __version__

pytestmark = pytest.mark.slow

LOOK = """
import sys, lecture_lib
from lecture_lib.data import load_digits
print(lecture_lib.__file__, sys.prefix, tuple(load_digits().images.shape), sep="\\n")
"""


def build(kind: str, source: Path, to: Path) -> Path:
    """Build the source distribution or the wheel of a folder, with this environment's hatchling and no network."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(to)]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (built,) = to.iterdir()
    return built


def test_the_source_builds_the_wheel_and_a_fresh_environment_runs_it(tmp_path: Path) -> None:
    source = build("sdist", ROOT, tmp_path / "sdist")
    assert source.name == f"lecture_lib-{__version__}.tar.gz"
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (unpacked,) = (tmp_path / "source").iterdir()
    wheel = build("wheel", unpacked, tmp_path / "wheel")
    from_checkout = build("wheel", ROOT, tmp_path / "from-checkout")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(from_checkout) as other:
        assert {item.filename: item.CRC for item in one.infolist()} == {
            item.filename: item.CRC for item in other.infolist()
        }

    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        shown = archive.read(metadata).decode()
    assert "# Training in practice" in shown
    assert re.findall(r"\]\((?!https?:)[^)]*\)", shown) == []  # a package index has no files beside it

    home = tmp_path / "home"
    home.mkdir()
    computer = Computer(home, tmp_path / "no-repository")
    computer.make_environment(home, packages_of_students(tmp_path / "packages"))
    # Without the checkout's packages in it, so that the installation of the tests is not taken for an earlier one.
    computer.run(f"source .venv/bin/activate; pip install --no-deps '{wheel}'", home)
    (home / "look.py").write_text(LOOK, "utf-8")
    version, file, prefix, shape = computer.run(
        "source .venv/bin/activate; lecture --version; python look.py", home
    ).splitlines()
    assert version == f"lecture-lib {__version__}"
    assert prefix == str(home / ".venv")
    assert Path(file).is_relative_to(home / ".venv")
    assert shape == "(1797, 1, 8, 8)"
