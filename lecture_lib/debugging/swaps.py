"""Replace one part of a program at a time by a good one, train again, and see what helps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._engine.changes import Change
from ._engine.differences import differences
from ._engine.observing import why_not
from ._engine.replace_training import own_loop, plain_loop
from ._engine.replacement import NotInUseError, Replacement, Watched
from ._engine.replacements import replacements
from ._engine.runs import Make
from ._engine.split_trials import OWN, RESERVED, SEEDS, SplitTrials, told_by
from ._engine.swap_results import DATA, FAR, SHARE, VALIDATIONS, Swaps, Trial
from .program import Program, Spec

__all__ = ["DATA", "Make", "Swaps", "Trial", "swap_parts"]

SHORTEST = 0.125  # of a run, in which a replacement shows whether it is worth a whole one
GAP = 0.03  # smallest difference to the best program found that is looked into, in units of a constant answer's error
PAIRS = 2  # runs with and without a replacement that are needed at least, to confirm what helped
LEAST_TIMES, MOST_TIMES = 3.0, 10.0  # the epochs of a run that shows whether time alone would help
NEARLY = 0.7  # of what the control, or the bar, asks for: seeds differ
HALF = 0.5  # of that difference must be closed by a replacement
UNRELATED = 0.9  # error from which on examples teach nothing about others of the same split
NOTHING_LEARNT = 0.6  # error above which also a replacement that changes much at once says where the fault is


def swap_parts(
    program: Program | None = None,
    spec: Spec | None = None,
    *,
    make: Make | None = None,
    budget: float = 60.0,
    seed: int = 0,
) -> Swaps:
    """Replace one part at a time, train again and compare.

    Args:
        program: left as it was. Or pass `make`.
        spec: what its author means.
        make: seed -> (program, spec): a new program for each run. What a program keeps in closures, such as a scaler or
            the best weights, does not come back otherwise.
        budget: seconds of computing time; what does not fit is listed as untried.
        seed: of the first run; the others use those that follow.

    Raises:
        NotAskedError: nothing can be compared: no validation targets, outputs that do not fit them.

    """
    if make is None and program is None:
        raise ValueError("pass a program, or make=")
    return _Comparison(program, spec or Spec(), make, seed, time.process_time() + budget).compare()


@dataclass(frozen=True)
class _Tried:
    """A replacement that was tried, with what was changed before it, over how much of a run, and what came of it."""

    replacement: Replacement
    before: tuple[Change, ...]
    length: float
    trial: Trial


class _Comparison(SplitTrials):
    """The runs that compare a program with itself, one part replaced."""

    def compare(self) -> Swaps:
        watched = self.watch()
        self._differences, refused = differences(self, watched)
        self.failed += refused
        # What differs already is the likeliest to be at fault, what changes much at once says least.
        wanted = sorted(replacements(watched), key=lambda one: (not self._differs(one.part), one.general))
        first = [one for one in wanted if self._differs(one.part)]
        self._base: dict[tuple[bool, float], float] = {(False, 1.0): self.plain}
        self._asked: dict[tuple[str, str], Trial | None] = {}
        self.length = self._length(len(wanted))
        tried, data = self._try(watched, first, self._length(3 * len(first))), list[Trial]()
        explained = self._decide(tried, [])
        if explained is None:
            data = self.data()
            if not told_by(data):
                rest = [one for one in wanted if one not in first]
                self.length = self._length(len(rest))
                tried += self._try(watched, rest, self.length)
            explained = self._decide(tried, data)
        trials = tuple(one.trial for one in tried) + tuple(data)
        if explained is not None:
            trials = tuple(
                explained if (one.part, one.what) == (explained.part, explained.what) else one for one in trials
            )
        result = Swaps(
            (self.plain,),
            self._longer,
            trials,
            tuple(self.failed),
            tuple(self.unaffordable),
            explained,
            next((one for one in data if one.what == OWN), None),
            differences=tuple(self._differences),
            patient=self._patient,
        )
        return result if explained is not None else self._far(result, tried)

    _longer = math.nan  # error after twice the epochs; asked for when something helps
    _patient: tuple[float, float] | None = None  # a multiple of the epochs, and the error after them

    def _differs(self, part: str) -> bool:
        return any(one.part == part for one in self._differences)

    @property
    def _untried(self) -> bool:
        """Whether a part other than the data was not replaced for want of time."""
        return any(part not in DATA for part, _ in self.unaffordable)

    def _length(self, count: int) -> float:
        """How much of a run each of so many replacements gets at first, so that all of them can be tried."""
        left = self.left - RESERVED * self.took
        return min(1.0, max(SHORTEST, left / max((count + 1) * self.took, 1e-9)))

    def _try(self, watched: Watched, wanted: Sequence[Replacement], length: float) -> list[_Tried]:
        """One short run, or a whole one, with each replacement, until what is left is needed to confirm one."""
        tried: list[_Tried] = []
        reserved = min(RESERVED * self.took, PAIRS * 2 * length * self.took)
        for one in wanted:
            if self.left < reserved + length * self.took:
                self.unaffordable.append((one.part, one.what))
                continue
            before: tuple[Change, ...] = ()
            try:
                without = self._without((), length)
                try:
                    found = self.error(0, one.change, epochs=length)
                except NotInUseError:
                    if not own_loop(watched.program) or watched.train is None:
                        raise
                    before = (plain_loop(watched.spec),)
                    found = self.error(0, *before, one.change, epochs=length)
                    without = self._without(before, length)
            except Exception as problem:
                self.failed.append(f"{one.part}, {one.what}: {why_not(problem)}")
                continue
            trial = Trial(one.part, one.what, one.general, (found,), (without,), one.fault)
            tried.append(_Tried(one, before, length, trial))
        return tried

    def _without(self, before: tuple[Change, ...], length: float) -> float:
        """Error of the program as it is after so much of a run, each length asked once."""
        key = (bool(before), length)
        if key not in self._base:
            self._base[key] = self.error(0, *before, epochs=length)
        return self._base[key]

    def _decide(self, tried: Sequence[_Tried], data: Sequence[Trial]) -> Trial | None:
        told = told_by(data)
        if told is not None:
            own = [one for one in data if one.what == OWN]
            # Training's pairs do not even teach each other, and validation's do.
            apart = told.what == VALIDATIONS and own and min(own[0].errors) > UNRELATED
            return replace(told, fault="D09") if apart else told
        gap = max((one.trial.gain for one in tried), default=0.0)
        close = [one for one in tried if one.trial.gain >= max(HALF * gap, GAP, SHARE * one.trial.without[0] / 2)]
        if gap < max([GAP, *(SHARE * one.trial.without[0] for one in close)]):
            return None
        learnt = self.plain <= NOTHING_LEARNT
        close = [one for one in close if not (one.trial.general and learnt) or self._differs(one.trial.part)]
        # Of several that help, the one whose part differs from the reference as it is, then the smallest change.
        close.sort(
            key=lambda one: (
                not self._differs(one.trial.part),
                one.trial.general,
                one.trial.part == "model",
                -one.trial.gain,
            )
        )
        most = max((one.trial.gain for one in close if not one.trial.general), default=0.0)
        for one in close:
            differs = self._differs(one.trial.part)
            if one.trial.part == "model" and one.trial.general and self._untried:
                continue  # it replaces all parts but the data: only when none by itself helps, it is the model
            if not one.trial.general and not differs and one.trial.gain < 0.8 * most:
                continue
            confirmed = self._confirmed(one, SEEDS)
            if confirmed is not None:
                if not differs and self._merely_faster(confirmed):
                    return None
                # Causes stand before what they lead to.
                names = [sign.fault for sign in self._differences if sign.part == confirmed.part and sign.fault]
                return replace(confirmed, fault=confirmed.fault or next(iter(names), None))
        return None

    def _confirmed(self, one: _Tried, seeds: int) -> Trial | None:
        """The trial with several seeds, as many as there is time for, if it gains with each, and more than time does.

        Where whole runs are too long for the budget, short ones must beat a whole one without the replacement.
        """
        key = one.trial.part, one.trial.what
        if key not in self._asked:
            self._asked[key] = self._asked_again(one, seeds)
        return self._asked[key]

    def _asked_again(self, one: _Tried, seeds: int) -> Trial | None:
        whole = one.length == 1.0 or self.left > (2 * PAIRS - 1) * self.took
        if not whole and self.plain < SHARE:
            return None  # a short run is worse, and the whole one good: there is nothing to explain
        length = 1.0 if whole else one.length
        kept = one.length == length
        errors, without = (list(one.trial.errors), list(one.trial.without)) if kept else ([], [])
        for number in range(len(errors), seeds):
            if number > 1 and self.left < 0:
                break
            without.append(
                self._without(one.before, length) if number == 0 else self.error(number, *one.before, epochs=length)
            )
            errors.append(self.error(number, *one.before, one.replacement.change, epochs=length))
        found = replace(one.trial, errors=tuple(errors), without=tuple(without))
        bar = max(GAP, SHARE * without[0])
        if one.trial.part != "metric":  # an evaluation has nothing to do with time
            if whole and math.isnan(self._longer):
                self._longer = self.error(0, epochs=2.0)
            bar = max(bar, without[0] - (self._longer if whole else self.plain))
        if not (whole or self._differs(one.trial.part)):
            bar /= NEARLY
        return found if min(found.gains) > 0 and found.gain >= NEARLY * bar else None

    def _merely_faster(self, found: Trial) -> bool:
        """Whether a run that is much longer gains clearly more: then it is time that was missing."""
        times = min(MOST_TIMES, self.left / max(self.took, 1e-9))
        if times < LEAST_TIMES:
            return False
        if self._patient is None:
            self._patient = times, self.error(0, epochs=times)
        return self.plain - self._patient[1] >= found.gain / 0.8

    def _far(self, found: Swaps, tried: Sequence[_Tried]) -> Swaps:
        """With the replacement of much at once that closes most of a large gap, if that lasts."""
        close = [one for one in tried if one.trial.gain >= max(FAR, HALF * one.trial.without[0])]
        if not close or self.left < 2 * self.took:
            return found
        best = max(close, key=lambda one: one.trial.gain)
        again = self._confirmed(best, 2)
        if again is None or min(again.gains) < max(FAR, HALF * self.plain):
            return found
        tripled = self.error(0, epochs=3.0)
        if tripled - again.errors[0] < max(FAR, HALF * again.gain):
            return found
        others = [one for one in tried if one.trial.part != best.trial.part and one.trial.gain > HALF * best.trial.gain]
        return replace(
            found, longer=self._longer, far=again, tripled=tripled, alone=not others and not self.unaffordable
        )
