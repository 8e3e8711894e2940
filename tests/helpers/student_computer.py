"""A student's computer for tests: a folder of its own, a Python without the course, and packages already there.

The heavy packages are those of the environment that runs the tests; what only instructors have is left out. The
public repository's address leads to a bare repository on this disk, by git's own `insteadOf`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

URL = "https://github.com/ada/training"
NOT_THE_STUDENTS = ("lecture_lib", "_lecture_lib", "nbgrader", "jupytext", "nbval", "pytest", "hypothesis")


def bare_repository(folder: Path) -> Path:
    """An empty repository in the place of the public one."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", str(folder)], check=True)
    return folder


def packages_of_students(folder: Path) -> Path:
    """A folder with links to the installed packages that students have, too."""
    folder.mkdir(parents=True)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(NOT_THE_STUDENTS) and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


def fenced(markdown: str) -> list[str]:
    """The blocks of commands of a README, in order."""
    return re.findall(r"^```\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Computer:
    """A computer with git and Python, its own home, and a way to the repository `remote`."""

    home: Path
    remote: Path

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the tests' own environment but the way to Python and git."""
        programs = [f"{sys.base_prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"]
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(programs),
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{self.remote.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": URL,
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            # No network: what would be downloaded is there, the build's own requirement included.
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one's value the wrong way round
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def run(self, script: str, folder: Path, **more: str) -> str:
        """Run commands as typed into a shell in `folder`; what they print. Fails when one of them fails."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def make_environment(self, folder: Path, packages: Path, command: str = "python3 -m venv .venv") -> None:
        """Make `.venv` in a folder, with the packages of students in it."""
        self.run(command, folder)
        (site,) = (folder / ".venv").glob("lib/python3*/site-packages")
        (site / "packages.pth").write_text(f"{packages}\n", "utf-8")
