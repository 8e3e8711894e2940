"""Replace one part of a program at a time by a good one, train again, and see what helps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._engine.changes import Change
from ._engine.differences import differences
from ._engine.instrumentation import why_not
from ._engine.replace_training import own_loop, plain_loop
from ._engine.replacement import NotInUseError, Profile, Replacement
from ._engine.replacement_table import replacements
from ._engine.runs import Make
from ._engine.split_trials import OWN, RESERVED, SEEDS, SplitTrials, clearest
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
class _Attempt:
    """A replacement that was tried, with what was changed before it, over how much of a run, and what came of it."""

    replacement: Replacement
    before: tuple[Change, ...]
    length: float
    trial: Trial


class _Comparison(SplitTrials):
    """The runs that compare a program with itself, one part replaced."""

    def compare(self) -> Swaps:
        profile = self.watch()
        self._differences, refused = differences(self, profile)
        self.failed += refused
        # What differs already is the likeliest to be at fault, what changes much at once says least.
        wanted = sorted(replacements(profile), key=lambda swap: (not self._differs(swap.part), swap.general))
        first = [swap for swap in wanted if self._differs(swap.part)]
        self._base: dict[tuple[bool, float], float] = {(False, 1.0): self.plain}
        self._confirmations: dict[tuple[str, str], Trial | None] = {}
        self.length = self._length(len(wanted))
        # About a third of the time: if none of these explains the gap, the others need theirs.
        attempts, data = self._try(profile, first, self._length(3 * len(first))), list[Trial]()
        explained = self._decide(attempts, [])
        if explained is None:
            data = self.data()
            # Where the examples themselves explain the gap, no other part has to be tried.
            if not clearest(data):
                rest = [swap for swap in wanted if swap not in first]
                self.length = self._length(len(rest))
                attempts += self._try(profile, rest, self.length)
            explained = self._decide(attempts, data)
        trials = tuple(attempt.trial for attempt in attempts) + tuple(data)
        if explained is not None:
            key = explained.part, explained.description
            trials = tuple(explained if (trial.part, trial.description) == key else trial for trial in trials)
        own = next((trial for trial in data if trial.description == OWN), None)
        untried = tuple(self.failed), tuple(self.unaffordable)
        result = Swaps((self.plain,), self._longer, trials, *untried, explained, own, patient=self._patient)
        result = replace(result, differences=tuple(self._differences))
        return result if explained is not None else self._far(result, attempts)

    _longer = math.nan  # error after twice the epochs; asked for when something helps
    _patient: tuple[float, float] | None = None  # a multiple of the epochs, and the error after them

    def _differs(self, part: str) -> bool:
        return any(difference.part == part for difference in self._differences)

    @property
    def _untried(self) -> bool:
        """Whether a part other than the data was not replaced for want of time."""
        return any(part not in DATA for part, _ in self.unaffordable)

    def _length(self, count: int) -> float:
        """How much of a run each of so many replacements gets at first, so that all of them can be tried."""
        left = self.left - RESERVED * self.took
        return min(1.0, max(SHORTEST, left / max((count + 1) * self.took, 1e-9)))

    def _try(self, profile: Profile, wanted: Sequence[Replacement], length: float) -> list[_Attempt]:
        """One short run, or a whole one, with each replacement, until what is left is needed to confirm one."""
        attempts: list[_Attempt] = []
        reserved = min(RESERVED * self.took, PAIRS * 2 * length * self.took)
        for swap in wanted:
            if self.left < reserved + length * self.took:
                self.unaffordable.append((swap.part, swap.description))
                continue
            before: tuple[Change, ...] = ()
            try:
                without = self._without((), length)
                try:
                    error = self.error(0, swap.change, epochs=length)
                except NotInUseError:
                    if not own_loop(profile.program) or profile.train is None:
                        raise
                    # The loop goes around the new part. In the plain loop it takes effect, and is compared with the
                    # plain loop alone.
                    before = (plain_loop(profile.spec),)
                    error = self.error(0, *before, swap.change, epochs=length)
                    without = self._without(before, length)
            except Exception as problem:
                self.failed.append(f"{swap.part}, {swap.description}: {why_not(problem)}")
                continue
            trial = Trial(swap.part, swap.description, swap.general, (error,), (without,), swap.fault)
            attempts.append(_Attempt(swap, before, length, trial))
        return attempts

    def _without(self, before: tuple[Change, ...], length: float) -> float:
        """Error of the program as it is after so much of a run, each length asked once."""
        key = (bool(before), length)
        if key not in self._base:
            self._base[key] = self.error(0, *before, epochs=length)
        return self._base[key]

    def _decide(self, attempts: Sequence[_Attempt], data: Sequence[Trial]) -> Trial | None:
        clear = clearest(data)
        if clear is not None:
            own = [trial for trial in data if trial.description == OWN]
            # Training's pairs do not even teach each other, and validation's do.
            apart = clear.description == VALIDATIONS and own and min(own[0].errors) > UNRELATED
            return replace(clear, fault="D09") if apart else clear
        gap = max((attempt.trial.gain for attempt in attempts), default=0.0)
        close = [
            attempt
            for attempt in attempts
            if attempt.trial.gain >= max(HALF * gap, GAP, SHARE * attempt.trial.without[0] / 2)
        ]
        if gap < max([GAP, *(SHARE * attempt.trial.without[0] for attempt in close)]):
            return None
        learnt = self.plain <= NOTHING_LEARNT
        # In a program that learns well, much changed at once may help though no part is at fault.
        close = [
            attempt for attempt in close if not (attempt.trial.general and learnt) or self._differs(attempt.trial.part)
        ]
        # Of several that help, the one whose part differs from the reference as it is, then the smallest change.
        close.sort(
            key=lambda attempt: (
                not self._differs(attempt.trial.part),
                attempt.trial.general,
                attempt.trial.part == "model",
                -attempt.trial.gain,
            )
        )
        most = max((attempt.trial.gain for attempt in close if not attempt.trial.general), default=0.0)
        for attempt in close:
            differs = self._differs(attempt.trial.part)
            if attempt.trial.part == "model" and attempt.trial.general and self._untried:
                continue  # it replaces all parts but the data: only when none by itself helps, it is the model
            # Nothing but its gain speaks for such a part, so it must be among the best.
            if not attempt.trial.general and not differs and attempt.trial.gain < 0.8 * most:
                continue
            confirmed = self._confirmed(attempt, SEEDS)
            if confirmed is not None:
                if not differs and self._merely_faster(confirmed):
                    return None
                # Causes are before what they lead to.
                names = [sign.fault for sign in self._differences if sign.part == confirmed.part and sign.fault]
                return replace(confirmed, fault=confirmed.fault or next(iter(names), None))
        return None

    def _confirmed(self, attempt: _Attempt, seeds: int) -> Trial | None:
        """The trial with several seeds, as many as there is time for, if it gains with each, and more than time does.

        Where whole runs are too long for the budget, short ones must beat a whole one without the replacement.
        """
        key = attempt.trial.part, attempt.trial.description
        if key not in self._confirmations:
            self._confirmations[key] = self._repeat(attempt, seeds)
        return self._confirmations[key]

    def _repeat(self, attempt: _Attempt, seeds: int) -> Trial | None:
        whole = attempt.length == 1.0 or self.left > (2 * PAIRS - 1) * self.took
        if not whole and self.plain < SHARE:
            return None  # a short run is worse, and the whole one good: there is nothing to explain
        length = 1.0 if whole else attempt.length
        kept = attempt.length == length
        errors, without = (list(attempt.trial.errors), list(attempt.trial.without)) if kept else ([], [])
        for number in range(len(errors), seeds):
            # Two seeds are enough where time is up.
            if number > 1 and self.left < 0:
                break
            without.append(
                self._without(attempt.before, length)
                if number == 0
                else self.error(number, *attempt.before, epochs=length)
            )
            errors.append(self.error(number, *attempt.before, attempt.replacement.change, epochs=length))
        trial = replace(attempt.trial, errors=tuple(errors), without=tuple(without))
        bar = max(GAP, SHARE * without[0])
        if attempt.trial.part != "metric":  # an evaluation has nothing to do with time
            if whole and math.isnan(self._longer):
                self._longer = self.error(0, epochs=2.0)
            # What more epochs would bring as well is no fault of the part.
            bar = max(bar, without[0] - (self._longer if whole else self.plain))
        if not (whole or self._differs(attempt.trial.part)):
            # The comparison below asks for a share of the bar; short runs without any other sign must pass all of it.
            bar /= NEARLY
        return trial if min(trial.gains) > 0 and trial.gain >= NEARLY * bar else None

    def _merely_faster(self, trial: Trial) -> bool:
        """Whether a run that is much longer gains clearly more: then it is time that was missing."""
        times = min(MOST_TIMES, self.left / max(self.took, 1e-9))
        if times < LEAST_TIMES:
            return False
        if self._patient is None:
            self._patient = times, self.error(0, epochs=times)
        return self.plain - self._patient[1] >= trial.gain / 0.8

    def _far(self, swaps: Swaps, attempts: Sequence[_Attempt]) -> Swaps:
        """With the replacement of much at once that closes most of a large gap, if that lasts."""
        close = [attempt for attempt in attempts if attempt.trial.gain >= max(FAR, HALF * attempt.trial.without[0])]
        if not close or self.left < 2 * self.took:
            return swaps
        best = max(close, key=lambda attempt: attempt.trial.gain)
        again = self._confirmed(best, 2)
        if again is None or min(again.gains) < max(FAR, HALF * self.plain):
            return swaps
        # A gap that time would close is no sign of a fault.
        tripled = self.error(0, epochs=3.0)
        if tripled - again.errors[0] < max(FAR, HALF * again.gain):
            return swaps
        rivals = [
            attempt
            for attempt in attempts
            if attempt.trial.part != best.trial.part and attempt.trial.gain > HALF * best.trial.gain
        ]
        return replace(
            swaps, longer=self._longer, far=again, tripled=tripled, alone=not rivals and not self.unaffordable
        )
