"""Where this machine keeps what a kernel needs: the system, Python, its packages, and ours."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

from ..setting import ROOT, SHIPPED_PACKAGES

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_PREFIX = ("bin", "lib", "lib32", "lib64", "share", "etc", "pyvenv.cfg")
PACKAGES = (*SHIPPED_PACKAGES, "assets", "autograders/__init__.py", "autograders/probes")
"""What of the checkout a kernel sees: library, questions, data and probes; no judge, no answer, no secret."""


def python_folders() -> Iterator[Path]:
    """Where this Python and its packages are, outside the system's own folders."""
    homes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_prefix).resolve()}
    homes.add(Path(sys.executable).resolve().parents[1])
    candidates = [home / name for home in sorted(homes) for name in _PREFIX] + [
        Path(entry) for entry in other_packages()
    ]
    for path in candidates:
        if path.exists() and not any(path.is_relative_to(system) for system in SYSTEM if not Path(system).is_symlink()):
            yield path


def other_packages() -> list[str]:
    """Folders of installed packages that this Python finds elsewhere than in its own place."""
    own = (sys.prefix, sys.base_prefix)
    return [
        entry
        for entry in sys.path
        if Path(entry).name in ("site-packages", "dist-packages")
        and not any(Path(entry).is_relative_to(prefix) for prefix in own)
    ]


@functools.cache
def _font_lists() -> dict[str, bytes]:
    """matplotlib's list of this machine's fonts, made once: a kernel without it needs seconds to make its own."""
    import matplotlib
    import matplotlib.font_manager  # writes the list

    return {path.name: path.read_bytes() for path in Path(matplotlib.get_cachedir()).glob("fontlist-*.json")}


def copy_font_lists(folder: Path) -> None:
    """Put that list into `folder`."""
    folder.mkdir(exist_ok=True)
    for name, content in _font_lists().items():
        (folder / name).write_bytes(content)


def link_packages(folder: Path) -> None:
    """Without walls: the same packages by links, so that what is imported does not depend on the walls."""
    for name in PACKAGES:
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists() and not link.exists():
            link.symlink_to(ROOT / name)
