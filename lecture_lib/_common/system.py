"""What commands ask of the operating system."""

from __future__ import annotations

import io
import os
import sys


def print_any_letter() -> None:
    """Let `print` write a letter that the encoding of the terminal or file lacks as its number, and stop for none."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def is_running(process: int) -> bool:
    """Whether a process of this machine has this number. Windows cannot be asked, and then it counts as running."""
    if os.name != "posix":  # there signal 0 would interrupt the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True
