"""The command that starts a kernel where it can read what Python needs, write into a private /tmp, and nothing else.

bubblewrap (https://github.com/containers/bubblewrap) does the work. User namespaces stay allowed inside, so that one
parent process can fork kernels that are kept apart from each other; to a kernel itself they are refused.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..course import CourseError
from ..notebooks import ROOT
from ..probes import INPUTS_VARIABLE
from ..writer import RUN_VARIABLE
from .installed import PACKAGES, SYSTEM, copy_font_lists, link_packages, other_packages, python_folders
from .limits import MEGABYTE, Limits

# One thread a kernel: under load two threads make the same training ten times slower, and scores must not depend on it.
_ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "USER": "student",
    "LOGNAME": "student",
}
# Taken over from the grader's environment where they are set; nothing else is.
# The run's id is how the next writer finds what a killed grader left behind.
_ALLOWED = (RUN_VARIABLE, "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts", "localtime", "alternatives", "mime.types")
# Imported before the first cell. PyTorch imports its compiler when the first optimizer is made: seconds of computing
# time, many on a loaded machine, which would be laid on whichever answer makes it.
PRELOADED = ("torch", "torch._dynamo", "lecture_lib.notebook")
FIRST_USER = 2_000_000_000
"""Where root grades, each sandbox gets a user number of its own above this one, which no account has."""

# As root, files that only root can read are of no use inside: there, a kernel is nobody.
_TRIAL = """
import os, sys
if user := int(sys.argv[1]):
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
import importlib.util
open(importlib.util.find_spec("torch").origin).close()
open("/lecture/lecture_lib/__init__.py").close()
print("inside")
"""


class SandboxError(CourseError):
    """This machine cannot run a notebook safely; the message has the remedy."""


@dataclass(frozen=True)
class Place:
    """Where one submission's kernel runs: the folder that grader and kernel share, and whether there are walls."""

    folder: Path
    walls: bool
    course_root: Path

    @property
    def sockets(self) -> Path:
        """The kernel's sockets and connection file: the only host folder that is writable from inside."""
        return self.folder / "kernel"

    @property
    def inputs(self) -> Path:
        """The hidden inputs of this submission, as plain data."""
        return self.folder / "inputs"

    @property
    def files(self) -> Path:
        """What the submission brought besides its notebook: regular files only."""
        return self.folder / "files"

    @property
    def fonts(self) -> Path:
        """matplotlib's list of fonts."""
        return self.folder / "fonts"

    @property
    def user(self) -> int:
        """The user number to change to inside; 0 where the grader is an ordinary user already."""
        if not self.walls or os.geteuid() != 0:
            return 0
        # Two sandboxes must not share one: processes are counted by user.
        return FIRST_USER + int.from_bytes(self.folder.name.encode()[-4:], "big") % 100_000_000

    @property
    def home(self) -> Path:
        """What is private to the kernel."""
        return Path("/tmp") if self.walls else self.folder / "private"


def environment(place: Place) -> dict[str, str]:
    """The kernel's whole environment."""
    packages = Path("/lecture/python") if place.walls else place.folder / "python"
    return {
        **{name: os.environ[name] for name in _ALLOWED if name in os.environ},
        **_ENVIRONMENT,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": os.pathsep.join([str(packages), *other_packages()]),
        "HOME": str(place.home / "home"),
        "TMPDIR": str(place.home),
        "IPYTHONDIR": str(place.home / "ipython"),
        "MPLCONFIGDIR": str(place.home / "matplotlib"),
        INPUTS_VARIABLE: "/lecture/inputs" if place.walls else str(place.inputs),
    }


def kernel_settings(place: Place, limits: Limits) -> dict[str, Any]:
    """What a kernel in `place` is told about itself (see `inside.py`)."""
    return {
        "user": place.user,
        "refuse": place.walls,
        "work": str(place.home / "work"),
        "files": "/lecture/files" if place.walls else str(place.files),
        "fonts": "/lecture/fonts" if place.walls else str(place.fonts),
        "file_bytes": int(limits.disk_mb * MEGABYTE),
        "memory_bytes": int(limits.memory_mb * MEGABYTE),
        "cpu_seconds": int(limits.notebook_seconds + limits.released_seconds) + 1,
        # Without walls all processes of the grader's account count, and some of them are not ours.
        "processes": limits.processes if place.walls else 0,
        "preload": PRELOADED,
        "output_characters": int(limits.output_mb * MEGABYTE),
    }


def command(place: Place, limits: Limits) -> list[str]:
    """The kernel's command line, without ipykernel's own arguments."""
    inside = Path(__file__).with_name("inside.py")
    copy_font_lists(place.fonts)
    settings = json.dumps(kernel_settings(place, limits))
    start = [sys.executable, "/lecture/inside.py" if place.walls else str(inside), settings]
    if not place.walls:
        link_packages(place.folder / "python")
        return start
    shared: list[str | Path] = [*packages()]
    for path in (place.inputs, place.files, place.fonts):
        shared += ["--ro-bind", path, f"/lecture/{path.name}"]
    shared += [*_parents(place.sockets), "--bind", place.sockets, place.sockets]
    hidden = (place.course_root, ROOT)
    return [
        *walls(limits, hidden),
        *map(str, shared),
        *variables(environment(place)),
        "--remount-ro",
        "/",
        "--",
        *start,
    ]


def packages() -> list[str]:
    """bubblewrap's arguments for what of the checkout is seen inside."""
    shared = [*_parents(Path("/lecture/python/autograders/_"))]
    for name in ("inside.py", "nested.py", "refused.py", "zygote.py"):
        shared += ["--ro-bind", str(Path(__file__).with_name(name)), f"/lecture/{name}"]
    for name in PACKAGES:
        shared += ["--ro-bind-try", str(ROOT / name), f"/lecture/python/{name}"]
    return shared


def variables(environment: dict[str, str]) -> list[str]:
    """bubblewrap's arguments for the environment."""
    return [word for name, value in environment.items() for word in ("--setenv", name, value)]


def walls(limits: Limits, hidden: Sequence[Path] = (), rights: Sequence[str] = ()) -> list[str]:
    """bubblewrap's arguments that do not depend on a submission. `hidden` folders are never seen inside.

    `rights` are capabilities that root keeps inside, besides those to become another user.
    """
    arguments: list[str | Path] = [
        *("bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv", "--cap-drop", "ALL"),
    ]
    if os.geteuid() == 0:
        for right in ("CAP_SETUID", "CAP_SETGID", *rights):
            arguments += ["--cap-add", right]
    else:
        arguments += ["--unshare-user"]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", path.readlink(), path]
        else:
            arguments += ["--ro-bind-try", path, path]
    for name in _ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    below = [path for path in hidden if any(path.is_relative_to(system) for system in SYSTEM)]
    for path in below:
        arguments += ["--tmpfs", path]
    size = str(int(limits.disk_mb * MEGABYTE))
    # /dev/shm is where data loaders' workers hand over tensors.
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/tmp", "/dev/shm"):
        arguments += ["--perms", "1777", "--size", size, "--tmpfs", folder]
    # After the private /tmp: the checkout and its environment may stand in the machine's own.
    for path in python_folders():
        arguments += [*_parents(path), "--ro-bind", path, path]
    return [*map(str, arguments), "--remount-ro", "/dev", "--chdir", "/tmp"]


def _parents(path: Path) -> Iterator[str]:
    """Folders above a mounted one, open for every user: bubblewrap's own would be root's alone."""
    for parent in reversed(path.parents[:-1]):
        if parent != Path("/tmp"):
            yield from ("--perms", "0755", "--dir", str(parent))


@functools.cache
def why_no_walls() -> str | None:
    """Why bubblewrap does not work on this machine, in a line; None when it does."""
    if sys.platform != "linux":
        return f"{sys.platform} has no bubblewrap; grade on Linux"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (`apt install bubblewrap`, `dnf install bubblewrap`)"
    packages = [
        *_parents(Path("/lecture/_")),
        "--ro-bind",
        str(ROOT / "lecture_lib"),
        "/lecture/lecture_lib",
        "--remount-ro",
        "/",
    ]
    user = FIRST_USER if os.geteuid() == 0 else 0
    tried = [*walls(Limits()), *packages, "--", sys.executable, "-c", _TRIAL, str(user)]
    done = subprocess.run(tried, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0 and done.stdout.strip() == "inside":
        return None
    if "Permission" in done.stderr and user:
        return f"the checkout or its environment is not readable for every user (`chmod -R a+rX {ROOT} {sys.prefix}`)"
    return f"bubblewrap does not start: {(done.stderr.strip() or 'no message').splitlines()[-1][:200]}"


def require_walls(without_sandbox: bool) -> bool:
    """Whether there are walls. Raises SandboxError when there are none and nobody has acknowledged that."""
    missing = why_no_walls()
    if missing and not without_sandbox:
        raise SandboxError(
            f"no sandbox: {missing}. Students' code could read and change whatever your account can. `autograde "
            "doctor` says what is missing. To grade with limits alone, on a machine that holds nothing but the course: "
            "`autograde grade --without-sandbox` (or `nbgrader autograde --ProbedExecute.without_sandbox=True`)."
        )
    return missing is None
