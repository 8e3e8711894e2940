"""What git knows of the instructor's checkout: the commit that a release is made from, and the files in it."""

from __future__ import annotations

import subprocess
from pathlib import Path


class CheckoutError(RuntimeError):
    """The checkout is in no state that a release could name; the message has the remedy."""


def clean_commit(root: Path) -> str:
    """The commit of a checkout without changes, as 40 hexadecimal digits.

    Raises CheckoutError when it is no git checkout, has no commit, or holds changes or files that are not committed.
    """
    commit = _git(root, "rev-parse", "HEAD").strip()
    changed = _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    if changed:
        listed = "\n".join(f"  {line}" for line in [*changed[:10], *(["..."] if len(changed) > 10 else [])])
        raise CheckoutError(
            f"the checkout has changes that no commit holds, so nobody could tell later what was published. "
            f"Commit or stash them:\n{listed}"
        )
    return commit


def committed_files(root: Path) -> set[str]:
    """The files that git tracks, by their paths below `root` with forward slashes."""
    # -z: without it git quotes names that are not ASCII.
    return set(filter(None, _git(root, "ls-files", "-z").split("\0")))


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CheckoutError("git is not installed: publishing needs it.") from None
    if done.returncode:
        raise CheckoutError(
            f"{root} is no git checkout with a commit ({done.stderr.strip().splitlines()[0]}). Publish from a clone."
        )
    return done.stdout
