"""bubblewrap's arguments: what of this machine is seen inside, what is not, and what is private there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..notebooks import ROOT
from .installation import PACKAGES, SYSTEM, python_folders
from .limits import MEGABYTE, PRIVATE_FOLDERS, Limits

_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts", "localtime", "alternatives", "mime.types")


def packages() -> list[str]:
    """bubblewrap's arguments for what of the checkout is seen inside."""
    shared = [*parents(Path("/lecture/python/autograders/_"))]
    for name in ("inside.py", "namespaces.py", "syscall_filter.py", "zygote.py"):
        shared += ["--ro-bind", str(Path(__file__).with_name("inside") / name), f"/lecture/{name}"]
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
    # A checkout below /usr or /nix would be seen with the system's folders.
    below = [path for path in hidden if any(path.is_relative_to(system) for system in SYSTEM)]
    for path in below:
        arguments += ["--tmpfs", path]
    size = str(int(limits.disk_mb * MEGABYTE))
    # /dev/shm is where data loaders' workers hand over tensors.
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    # Both read as zeros, but /dev/zero mapped as shared memory is memory without a file, which no limit counts
    # (`syscall_filter.py`).
    arguments += ["--dev-bind", "/dev/full", "/dev/zero"]
    for folder in PRIVATE_FOLDERS:
        arguments += ["--perms", "1777", "--size", size, "--tmpfs", folder]
    # After the private /tmp: the checkout and its environment may be in the machine's own.
    for path in python_folders():
        arguments += [*parents(path), "--ro-bind", path, path]
    return [*map(str, arguments), "--remount-ro", "/dev", "--chdir", "/tmp"]


def parents(path: Path) -> Iterator[str]:
    """Folders above a mounted one, open for every user: bubblewrap's own would be root's alone."""
    for parent in reversed(path.parents[:-1]):
        if parent != Path("/tmp"):
            yield from ("--perms", "0755", "--dir", str(parent))
