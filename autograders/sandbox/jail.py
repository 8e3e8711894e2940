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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..course import CourseError
from ..notebooks import ROOT
from ..private_sockets import CONNECTION
from ..probes import INPUTS_VARIABLE
from ..writer import RUN_VARIABLE
from .bubblewrap import packages, parents, variables, walls
from .control_groups import MEMORY, TIME, counted
from .installation import copy_font_lists, link_packages, other_packages, python_folders
from .limits import ADDRESSES, FILES, MEGABYTE, PRIVATE_FOLDERS, Limits

# One thread a kernel: under load two threads make the same training ten times slower, and scores must not depend on it.
_ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    "PYTHONHASHSEED": "0",  # the order of sets must not change a score from run to run
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
# Imported before the first cell. PyTorch imports its compiler when the first optimizer is made: seconds of computing
# time, many on a loaded machine, which would be laid on whichever answer makes it.
PRELOADED = ("torch", "torch._dynamo", "lecture_lib.notebook", "autograders.probes")
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
        """The kernel's sockets and connection file, read inside. No folder of the host is written inside."""
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
        "walls": place.walls,
        "uncounted": sorted({MEMORY, TIME} - counted()),
        "connection": f"/lecture/{place.sockets.name}/{CONNECTION}" if place.walls else str(place.sockets / CONNECTION),
        "private_folders": PRIVATE_FOLDERS,
        # Python's packages may be below /tmp, which is the kernel's own inside.
        "below_tmp": [str(path) for path in python_folders() if path.is_relative_to("/tmp")],
        "files_written": FILES,
        "addresses": ADDRESSES,
        "work": str(place.home / "work"),
        "files": "/lecture/files" if place.walls else str(place.files),
        "fonts": "/lecture/fonts" if place.walls else str(place.fonts),
        "file_bytes": int(limits.disk_mb * MEGABYTE),
        "memory_bytes": int(limits.memory_mb * MEGABYTE),
        "cpu_seconds": int(limits.notebook_seconds + limits.released_seconds) + 1,
        # Without walls all processes of the grader's account count, and some of them are not ours.
        "processes": limits.processes if place.walls else 0,
        "preload": PRELOADED,
        "prepare_shell": ["autograders.probes", "reset_between_cells"],
        "output_characters": int(limits.output_mb * MEGABYTE),
    }


def command(place: Place, limits: Limits, sockets: Mapping[str, int] | None = None) -> list[str]:
    """The kernel's command line, without ipykernel's own arguments.

    `sockets` are the descriptors that it inherits, by port.
    """
    inside = Path(__file__).with_name("inside") / "inside.py"
    copy_font_lists(place.fonts)
    settings = json.dumps({**kernel_settings(place, limits), "sockets": dict(sockets or {})})
    start = [sys.executable, "/lecture/inside.py" if place.walls else str(inside), settings]
    if not place.walls:
        link_packages(place.folder / "python")
        return start
    shared: list[str | Path] = [*packages()]
    for path in (place.inputs, place.files, place.fonts, place.sockets):
        shared += ["--ro-bind", path, f"/lecture/{path.name}"]
    hidden = (place.course_root, ROOT)
    return [
        *walls(limits, hidden, ("CAP_SYS_ADMIN",)),
        *map(str, shared),
        *variables(environment(place)),
        "--remount-ro",
        "/",
        "--",
        *start,
    ]


@functools.cache
def why_no_walls() -> str | None:
    """Why bubblewrap does not work on this machine, in a line; None when it does."""
    if sys.platform != "linux":
        return f"{sys.platform} has no bubblewrap; grade on Linux"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (`apt install bubblewrap`, `dnf install bubblewrap`)"
    library = [*parents(Path("/lecture/_")), "--ro-bind", str(ROOT / "lecture_lib"), "/lecture/lecture_lib"]
    user = FIRST_USER if os.geteuid() == 0 else 0
    trial = [*walls(Limits()), *library, "--remount-ro", "/", "--", sys.executable, "-c", _TRIAL, str(user)]
    result = subprocess.run(trial, capture_output=True, text=True, check=False, timeout=60)
    if result.returncode == 0 and result.stdout.strip() == "inside":
        return None
    if "Permission" in result.stderr and user:
        return f"the checkout or its environment is not readable for every user (`chmod -R a+rX {ROOT} {sys.prefix}`)"
    return f"bubblewrap does not start: {(result.stderr.strip() or 'no message').splitlines()[-1][:200]}"


def require_walls(without_sandbox: bool) -> bool:
    """Whether there are walls. Raises SandboxError when there are none and nobody has acknowledged that."""
    if sys.platform != "linux":
        # Without /proc the limits would hold nothing either.
        raise SandboxError(
            f"grading needs Linux, which keeps the limits on computing time and memory; this is {sys.platform}. A "
            "container or a virtual machine will do. `autograde doctor` says what it needs."
        )
    missing = why_no_walls()
    if missing and not without_sandbox:
        raise SandboxError(
            f"no sandbox: {missing}. Students' code could read and change whatever your account can. `autograde "
            "doctor` says what is missing. To grade with limits alone, on a machine that holds nothing but the course: "
            "`autograde grade --without-sandbox` (or `nbgrader autograde --ProbedExecute.without_sandbox=True`)."
        )
    return missing is None
