"""What commands ask of the operating system."""

from __future__ import annotations

import io
import sys


def print_any_letter() -> None:
    """Let `print` write a letter that the encoding of the terminal or file lacks as its number, and stop for none."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
