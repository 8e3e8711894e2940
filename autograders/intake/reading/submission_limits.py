"""How much a student may hand in, in one place, and what reading it may cost the grader.

What a student's code may use while it runs is in `sandbox.limits`.
"""

from __future__ import annotations

MAX_BYTES = 50_000_000
"""One file, its outputs included; they are dropped when it is read."""
MAX_NOTEBOOKS = 20
"""Notebooks in one student's folder or archive that are looked at; more are told."""
MAX_LISTS = 5_000_000
"""Opening brackets in one file: a list takes twenty times the three bytes that it is written with."""
MAX_CELLS = 5_000
MAX_CODE = 200_000
"""Characters of one code cell. A longer one is left out with a note, and costs its own question at most."""
MAX_TEXT = 5_000_000
"""Characters of one text cell: some editors write pictures into the text."""
MAX_ALL_CODE, MAX_ALL = 2_000_000, 20_000_000
"""Characters of all code cells together, and of all cells."""
MAX_NOTES = 30
"""How many repairs of one submission are told one by one."""

READING_SECONDS = 10.0
"""Computing time of one step of reading; an ordinary notebook takes 0.05 s."""
READING_MEGABYTES = 1_500
"""Memory of one step of reading."""

PAGE_SECONDS = 30.0
"""Computing time of one feedback page; an ordinary one takes 1 s."""
PAGE_MEGABYTES = 2_000
"""Memory of one feedback page."""

MAX_OBSERVATION = 1_000_000
"""Characters of what one question's probe publishes; the bank's answers need 83,000 at most."""
MAX_VALUES = 5_000
"""Numbers, texts, arrays and what they are in; the bank's answers need 1,100 at most."""
MAX_NESTING = 40
"""Levels of lists and mappings in a message from a kernel; an observation has 15."""
MAX_MESSAGE = 1_000
"""Characters of one explanation: it may quote what a student's code returned."""
