"""The ladder on faults that it was not written for: silent ones by authors who had seen no rule.

A fault counts as localised when the first finding lies in a part that its author names, and the repaired twin is not
told the same part. Computing time is what `climb` takes by default. `--quick` takes every fourth program.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import harness
import torch
from harness import Row, at_most, interval, progress

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from outsiders.fresh import Pair, all_pairs

from lecture_lib.debugging import climb


@dataclass(frozen=True)
class Outcome:
    """What was said of a faulty program and of its twin.

    Attributes:
        name, accepted: of the pair.
        parts: of the findings, in order.
        twins_parts: the same for the twin.
        certain_of_twin: what was said of the twin as certain.
        seconds: of computing time for both.

    """

    name: str
    accepted: tuple[str, ...]
    parts: list[str]
    twins_parts: list[str]
    certain_of_twin: list[str]
    seconds: float

    @property
    def localised(self) -> bool:
        """Whether the first finding lies in the right part, and not in the twin too."""
        return bool(self.parts) and self.parts[0] in self.accepted and self.parts[0] not in self.twins_parts

    @property
    def wrong(self) -> bool:
        """Whether the first finding lies elsewhere; a symptom without a part does not."""
        return bool(self.parts) and bool(self.parts[0]) and self.parts[0] not in self.accepted


def measure(quick: bool) -> list[Row]:
    """All rows."""
    found = list(outcomes(quick))
    count = len(found)
    localised, wrong = sum(one.localised for one in found), sum(one.wrong for one in found)
    alarms = sum(bool(one.twins_parts) for one in found)
    least = round(100 * localised / count)
    return [
        Row(f"localised {interval(localised, count)}", least, "%", "at least 70 %", least >= 70),
        at_most(f"a wrong part first {interval(wrong, count)}", 100 * wrong / count, "%", 5, "at most 5 %"),
        at_most(f"alarms on twins {interval(alarms, count)}", 100 * alarms / count, "%", 5, "at most 5 %"),
        at_most("certain and false on twins", sum(len(one.certain_of_twin) for one in found), "findings", 0, "none"),
        Row("longest climb of a program and its twin", max(one.seconds for one in found), "s"),
    ]


def outcomes(quick: bool) -> Iterator[Outcome]:
    """Every pair, told as it comes."""
    numbers = range(0, len(all_pairs()), 4 if quick else 1)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context) as pool:
        for found in pool.map(outcome, numbers):
            how = "localised" if found.localised else "wrong" if found.wrong else "noticed" if found.parts else "missed"
            progress(f"{found.name} ({', '.join(found.accepted)}): {how}, {found.parts}; twin {found.twins_parts}")
            yield found


def outcome(number: int) -> Outcome:
    """One program and its twin."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    pair: Pair = all_pairs()[number]
    start = time.process_time()
    faulty = climb(*pair.make(0), make=pair.make).findings
    sound = climb(*pair.twin(0), make=pair.twin).findings
    certain = [f"{one.fault or one.part}: {one.evidence}" for one in sound if one.certain]
    seconds = time.process_time() - start
    return Outcome(pair.name, pair.parts, [one.part for one in faulty], [one.part for one in sound], certain, seconds)


if __name__ == "__main__":
    harness.run(measure)
