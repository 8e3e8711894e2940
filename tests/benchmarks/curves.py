"""Diagnosis of training curves: real runs whose pattern is known from how they were set up.

Each of the lecture's nine patterns is made in two or three ways (contenders/curve_runs.py), each way from ten seeds
that differ in task, sizes, model, optimizer, rate and epochs; the limits of lecture_lib.analysis.curves were chosen on
other seeds. Printed: the confusion table, the runs named wrongly, and rows with the share that is named right.
"""

from __future__ import annotations

from collections import Counter

import harness
import torch
from contenders.curve_runs import WAYS, run_of
from harness import Row, progress

from lecture_lib.analysis import diagnose

FIRST = 7000  # seeds below were used to choose the limits


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    confusions: Counter[tuple[str, str]] = Counter()
    for pattern, ways in WAYS.items():
        progress(f"{pattern} ...")
        for way in ways:
            for seed in range(FIRST, FIRST + (1 if quick else 10)):
                found = diagnose(run_of(way, seed))
                confusions[pattern, found.pattern] += 1
                if found.pattern != pattern:
                    progress(f"  {way.__name__}, seed {seed}, was taken for: {found}")
    print(confusion_table(confusions))
    return rows_of(confusions)


def confusion_table(confusions: Counter[tuple[str, str]]) -> str:
    """A line for each true pattern, a column for each named one."""
    names = list(WAYS)
    width = max(map(len, names))
    head = " ".join(f"{number:>4}" for number in range(1, len(names) + 1))
    lines = [f"{'true pattern, and how often it was named':{width + 4}}", f"{'':{width + 4}}{head}"]
    for number, true in enumerate(names, 1):
        counts = " ".join(f"{confusions[true, named] or '.':>4}" for named in names)
        lines.append(f"{number:>2}  {true:{width}}{counts}")
    return "\n".join(lines) + "\n"


def rows_of(confusions: Counter[tuple[str, str]]) -> list[Row]:
    """The share of right names for each pattern, and the confusions in all."""
    rows = []
    for pattern in WAYS:
        runs = sum(count for (true, _), count in confusions.items() if true == pattern)
        share = 100 * confusions[pattern, pattern] / runs
        rows.append(Row(f"{pattern}: named right in {runs} runs", share, "%", "100 %", share == 100))
    runs = confusions.total()
    wrong = sum(count for (true, named), count in confusions.items() if true != named)
    limit = runs / 200
    return [*rows, Row(f"confusions in {runs} runs", wrong, "runs", "at most 1 in 200 runs", wrong <= limit)]


if __name__ == "__main__":
    harness.run(measure)
