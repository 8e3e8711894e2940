"""The ladder on each silent fault of the bank as if nobody had thought of it.

For a fault X every rule, and every comparison, that can say X is taken away, and a program with X is climbed. X counts
as localised when the first finding lies in a part that the table of faults names for it, and the healthy program that X
was put into is not told the same part. What a rule can say is read from its code: the names of faults in it, and in the
functions of the ladder that it calls. `python tests/benchmarks/ladder.py --leave-one-out`; the budget of a climb is 60
seconds. `--quick` takes 8 seconds, and 25 faults drawn from each part in turn, in the bank's smallest program for each;
`--quick --from 26 --first 45` the next 20, which nobody had looked at when they were first run, and with `--budget 60`
the time that a user has.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from harness import Row, at_most, interval, progress, report

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bank import Case, all_cases
from bank.programs import BASES, make

from lecture_lib.debugging import FAULTS, Climb, climb, ladder
from lecture_lib.debugging._engine import differences

LOUD = {"D12", "L05", "L10", "G21", "G23", "P14", "A14"}
SAMPLE = 25
BUDGETS = {True: 8.0, False: 60.0}  # seconds of computing time for replacements, by `quick`
SMALLEST = ("regression", "digits", "sequence", "shapes")  # base programs by the time that a run takes
NAME = re.compile(r"[A-Z]\d\d")
PACKAGE = "lecture_lib.debugging"


@dataclass(frozen=True)
class Outcome:
    """What was said of a program whose fault no rule knows.

    Attributes:
        row, name: the fault, and the program.
        said: kind, part and name of each finding, in order.
        parts_of_twin: of the findings for the healthy program.
        seconds: of computing time.

    """

    row: str
    name: str
    said: list[tuple[str, str, str | None]]
    parts_of_twin: list[str]
    certain_and_false: list[str]
    seconds: float

    @property
    def localised(self) -> bool:
        """Whether the first finding lies in a right part, and the twin is not told the same."""
        part = self.said[0][1] if self.said else ""
        return part in FAULTS[self.row].parts and part not in self.parts_of_twin

    @property
    def wrong(self) -> bool:
        """Whether the first finding lies in another part; a symptom without a part does not."""
        return bool(self.said) and bool(self.said[0][1]) and self.said[0][1] not in FAULTS[self.row].parts

    @property
    def how(self) -> str:
        """In a word."""
        if self.localised:
            return "localised"
        return "wrong" if self.wrong else "noticed" if self.said else "missed"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-one-out", action="store_true", help="this measurement")
    parser.add_argument("--quick", action="store_true", help=f"{SAMPLE} faults of all parts, with a small budget")
    parser.add_argument("--from", type=int, default=1, dest="start", metavar="N", help="leave out those before the Nth")
    parser.add_argument("--first", type=int, metavar="N", help="leave out those after the Nth")
    parser.add_argument("--budget", type=float, metavar="S", help="seconds of a climb, in place of 60 or --quick's 8")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only part I of N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args()
    part, parts = map(int, options.shard.split("/"))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    last = options.first or (max(SAMPLE, options.start) if options.quick else None)
    cases = (sample() if options.quick else silent())[options.start - 1 : last][part - 1 :: parts]
    budget = options.budget or BUDGETS[options.quick]
    found = list(outcomes(cases, budget))
    report("ladder, one left out", rows_of(found, list(healthy.results(budget))), options.json)


def outcomes(cases: Sequence[Case], budget: float) -> Iterator[Outcome]:
    """What is said of each, told as it comes."""
    for number, case in enumerate(cases, 1):
        start = time.process_time()
        with without(case.row):
            found = climb(*case.make(1), make=case.make, budget=budget)
        said = [(one.kind, one.part, one.fault) for one in found.findings]
        # Several parts may be at fault in a finding that is right; a certain one must be in one of them.
        false = [f"{part}, {name}" for kind, part, name in said if kind == "violation" and not _fits(case.row, part)]
        twin = [one.part for one in healthy(case.base, budget).findings]
        one = Outcome(case.row, str(case), said, twin, false, time.process_time() - start)
        parts = ", ".join(FAULTS[one.row].parts)
        told = f"{number} of {len(cases)}: {one.name} ({parts}): {one.how}, {said or 'nothing'}"
        progress(f"{told}, {one.seconds:.0f} s")
        yield one


def _fits(row: str, part: str) -> bool:
    return part in FAULTS[row].parts


def rows_of(found: Sequence[Outcome], twins: Sequence[Climb]) -> list[Row]:
    """Shares in percent, each with Wilson's interval."""
    count = len(found)
    how = Counter(one.how for one in found)
    alarms = sum(bool(one.findings) for one in twins)
    localised, wrong = (100 * how[one] / count for one in ("localised", "wrong"))
    return [
        Row(f"localised {interval(how['localised'], count)}", localised, "%", "at least 60 %", localised >= 60),
        Row("of these by a symptom", sum(one.localised and one.said[0][0] == "symptom" for one in found), "faults"),
        at_most(f"a wrong part first {interval(how['wrong'], count)}", wrong, "%", 5, "at most 5 %"),
        Row(f"noticed, no part told {interval(how['noticed'], count)}", 100 * how["noticed"] / count, "%"),
        Row(f"missed {interval(how['missed'], count)}", 100 * how["missed"] / count, "%"),
        at_most(f"alarms on {len(twins)} healthy programs", alarms, "programs", 0, "none"),
        Row("certain, in another part than the fault's", sum(bool(one.certain_and_false) for one in found), "faults"),
        Row("computing time", sum(one.seconds for one in found), "s"),
    ]


def silent() -> list[Case]:
    """Each variant of each silent fault, in one of the base programs."""
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in all_cases():
        if not case.healthy and case.row not in LOUD:
            groups[case.row, case.variant].append(case)
    return [cases[zlib.crc32(str(key).encode()) % len(cases)] for key, cases in groups.items()]


def sample() -> list[Case]:
    """Faults of every part in turn, in an order that a checksum of their names gives, in their smallest programs.

    The first SAMPLE are what `--quick` takes. Changes were made knowing some of these.
    """
    cheapest: dict[str, Case] = {}
    for case in all_cases():
        if case.healthy or case.row in LOUD or case.base not in BASES:
            continue
        key = (SMALLEST.index(case.base), zlib.crc32(str(case).encode()))
        kept = cheapest.get(case.row)
        if kept is None or key < (SMALLEST.index(kept.base), zlib.crc32(str(kept).encode())):
            cheapest[case.row] = case
    by_part: dict[str, list[str]] = defaultdict(list)
    for row in sorted(cheapest, key=lambda row: zlib.crc32(row.encode())):
        by_part[FAULTS[row].parts[0]].append(row)
    drawn: list[str] = []
    while len(drawn) < len(cheapest):
        drawn += [rows.pop(0) for rows in by_part.values() if rows]
    return [cheapest[row] for row in drawn]


class _Healthy:
    """The healthy base programs, each climbed once, with all rules."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float], Climb] = {}

    def __call__(self, base: str, budget: float) -> Climb:
        """What is said of a base program; of one that the bank has only with faults nothing is known."""
        if base not in BASES:
            return Climb(())
        if (base, budget) not in self._found:
            self._found[base, budget] = climb(*make(base, 1), make=lambda seed: make(base, seed), budget=budget)
        return self._found[base, budget]

    def results(self, budget: float) -> Iterator[Climb]:
        """Those that were climbed."""
        return (found for (_, also), found in self._found.items() if also == budget)


healthy = _Healthy()


@contextmanager
def without(row: str) -> Iterator[None]:
    """The ladder without rules and comparisons that can say that it is this fault, and without the rungs' numbers."""
    rungs, measures, comparisons = ladder.RUNGS, ladder.MEASURES, differences.COMPARISONS

    def kept(rules: Sequence[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
        return tuple(rule for rule in rules if row not in names_of(rule))

    ladder.RUNGS = tuple(replace(one, rules=kept(one.rules), hypotheses=kept(one.hypotheses)) for one in rungs)
    ladder.MEASURES = {}
    differences.COMPARISONS = kept(comparisons)
    try:
        yield
    finally:
        ladder.RUNGS, ladder.MEASURES, differences.COMPARISONS = rungs, measures, comparisons


@cache
def names_of(rule: Callable[..., Any]) -> frozenset[str]:
    """The faults whose names stand in a rule, in what it calls of the ladder, and in the tables that these read."""
    found: set[str] = set()
    seen: set[FunctionType] = set()

    def look(value: Any) -> None:
        if value is FAULTS:
            return
        if isinstance(value, str):
            found.update([value] if NAME.fullmatch(value) else [])
        elif isinstance(value, dict):
            look([*value, *value.values()])
        elif isinstance(value, (tuple, list, set, frozenset)):
            for one in value:
                look(one)
        elif isinstance(value, FunctionType) and value.__module__.startswith(PACKAGE) and value not in seen:
            seen.add(value)
            look_at_code(value.__code__, value.__globals__)
            look([cell.cell_contents for cell in value.__closure__ or ()])
            look([*(value.__defaults__ or ()), getattr(value, "__wrapped__", None)])

    def look_at_code(code: CodeType, names: dict[str, Any]) -> None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                look_at_code(constant, names)
            else:
                look(constant)
        look([names[name] for name in code.co_names if name in names])

    look(rule)
    return frozenset(found)
