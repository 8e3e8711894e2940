"""Writes the questions' points into a notebook's text: headings, nbgrader's metadata, the table at its start."""

from __future__ import annotations

import re
from collections import defaultdict

from .question import QUESTIONS

_SECTION = re.compile(r"^# ## (?:Rung )?(\d+)?")
_HEADING = re.compile(r"^(# ### Question (\S+) · )([\d.]+)( points?)")
_GRADED = re.compile(r'^(# %%.*"grade": true, "grade_id": "([^"]+)".*"points": )([\d.]+)')
_ROW = re.compile(r"^(# \| (\d+)(?: to (\d+)|((?:, \d+)*)) .*\| )([\d.]+)( \|)$")


def with_points(text: str) -> str:
    """A notebook's text with the points that its questions have; one that a person grades keeps what its cell says.

    A row of the first table that begins with the numbers of sections ("2", "6, 7", "12 to 16") gets their sum.
    """
    lines = text.split("\n")
    of_sections: dict[int, float] = defaultdict(float)
    section = None
    for number, line in enumerate(lines):
        if heading := _SECTION.match(line):
            section = heading[1]
        if question_heading := _HEADING.match(line):
            lines[number] = _replaced(question_heading, line, _points(question_heading[2], float(question_heading[3])))
        if graded := _GRADED.match(line):
            points = _points(graded[2].removesuffix("-test"), float(graded[3]))
            lines[number] = _replaced(graded, line, points)
            of_sections[int(section or 0)] += points
    # A second pass: the table is before the sections whose sums it holds.
    for number, line in enumerate(lines):
        if _SECTION.match(line):
            break
        if row := _ROW.match(line):
            first, last = int(row[2]), int(row[3] or row[2])
            named = [*range(first, last + 1), *map(int, (row[4] or "").split(",")[1:])]
            lines[number] = f"{row[1]}{sum(of_sections[each] for each in named):g}{row[6]}"
    return "\n".join(lines)


def _points(question: str, stated: float) -> float:
    return QUESTIONS[question].points if question in QUESTIONS else stated


def _replaced(match: re.Match[str], line: str, points: float) -> str:
    return f"{line[: match.start(3)]}{points:g}{line[match.end(3) :]}"
