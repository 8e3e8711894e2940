"""Replace one part of a program at a time by a good one, train again, and see what helps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from ..training._run.structures import tensors_of
from ._engine.batches import cut, halves, learning_from, length, read_batches, some
from ._engine.changes import Change
from ._engine.observing import why_not
from ._engine.replace_training import own_loop, plain_loop
from ._engine.replacement import NotInUseError, Replacement
from ._engine.replacements import replacements
from ._engine.runs import Make, Runs
from ._engine.swap_results import DATA, SHARE, Swaps, Trial
from .program import Program, Spec

__all__ = ["DATA", "Make", "Swaps", "Trial", "swap_parts"]

SEEDS = 3
SHORTEST = 0.25  # of a run, in which a replacement shows whether it is worth a whole one
RESERVED = 3  # runs for which time is kept, to try what helped with other seeds
GAP = 0.03  # smallest difference to the best program found that is looked into, in units of a constant answer's error
HALF = 0.5  # of that difference must be closed by a replacement
FEWEST = 60  # examples of each split, to compare them
TOLD = 0.3  # of the error must go when one split's examples stand in for the other's
APART = 0.7  # share of examples of which a forest knows whether they are training's or validation's
OWN = "training's own examples to be judged by"
EASIER = 0.08  # error by which validation must be easier than training's own examples to be asked again
FAR = 0.15  # error that must go for the program to be called far from the best one
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


class _Comparison(Runs):
    """The runs that compare a program with itself, one part replaced."""

    def compare(self) -> Swaps:
        start = time.process_time()
        watched = self.watch()
        self.took = time.process_time() - start
        longer = self.error(0, epochs=2.0)
        self.took /= 2
        data = self._data()
        wanted = replacements(watched)
        self.length = self._length(len(wanted))
        tried: list[tuple[Replacement, tuple[Change, ...], Trial]] = []
        short = self.plain if self.length == 1.0 else self.error(0, epochs=self.length)
        base: dict[bool, float] = {False: short}
        for one in wanted:
            if time.process_time() + (RESERVED + self.length - 1) * self.took > self.end:
                self.unaffordable.append((one.part, one.what))
                continue
            before: tuple[Change, ...] = ()
            try:
                try:
                    found = self.error(0, one.change, epochs=self.length)
                except NotInUseError:
                    if not own_loop(watched.program) or watched.train is None:
                        raise
                    before = (plain_loop(watched.spec),)
                    found = self.error(0, *before, one.change, epochs=self.length)
                    if True not in base:
                        base[True] = self.error(0, *before, epochs=self.length)
            except Exception as problem:
                self.failed.append(f"{one.part}, {one.what}: {why_not(problem)}")
                continue
            trial = Trial(one.part, one.what, one.general, (found,), (base[bool(before)],), one.fault)
            tried.append((one, before, trial))
        explained = self._decide(short, longer, tried, data)
        trials = tuple(trial for _, _, trial in tried) + tuple(data)
        if explained is not None:
            trials = tuple(
                explained if (one.part, one.what) == (explained.part, explained.what) else one for one in trials
            )
        own = next((one for one in data if one.what == OWN), None)
        result = Swaps((self.plain,), longer, trials, tuple(self.failed), tuple(self.unaffordable), explained, own)
        return result if explained is not None else self._far(result, tried)

    def _length(self, count: int) -> float:
        """How much of a run each of so many replacements gets at first, so that all of them can be tried."""
        left = self.end - time.process_time() - RESERVED * self.took
        return min(1.0, max(SHORTEST, left / max((count + 1) * self.took, 1e-9)))

    def _data(self) -> list[Trial]:
        """Training's examples against validation's: which of the two can be learnt, and whether they agree."""
        with self.fresh(0) as (program, _):
            train = read_batches(program.train_loader)
            val = read_batches(program.val_loader)
            told_apart = _told_apart(*([program.parts(batch)[0] for batch in one] for one in (train, val)))
        counts = [sum(map(length, batches)) for batches in (train, val)]
        if min(counts) < FEWEST:
            return []
        part, size = "inputs" if told_apart else "labels", min(length(train[0]), max(counts[1] // 8, 1))
        found = []
        for what, other in (
            ("validation's own examples to learn from", val),
            (OWN, train),
        ):
            if time.process_time() + (RESERVED + 3) * self.took > self.end:
                self.unaffordable.append((part, what))
                continue
            errors, without = [], []
            try:
                for number in range(SEEDS):
                    seen, kept = halves(other, self.seed + number)
                    if other is train:
                        seen, kept = some(seen, counts[1]), some(kept, counts[1])
                        usual, judges = seen, val
                    else:
                        usual, judges = some(train, sum(map(length, seen))), kept
                    many = min(counts[0] / max(sum(map(length, seen)), 1), 3.0)
                    errors.append(self.error(number, learning_from(cut(seen, size)), epochs=many, judges=kept))
                    without.append(self.error(number, learning_from(cut(usual, size)), epochs=many, judges=judges))
                    easier = other is train and errors[0] > without[0] + EASIER
                    if errors[-1] > (1 - TOLD) * without[-1] and not (easier and number == 0):
                        break
            except Exception as problem:
                self.failed.append(f"{part}, {what}: {why_not(problem)}")
                continue
            found.append(Trial(part, what, False, tuple(errors), tuple(without)))
        return found

    def _decide(
        self,
        short: float,
        longer: float,
        tried: Sequence[tuple[Replacement, tuple[Change, ...], Trial]],
        data: Sequence[Trial],
    ) -> Trial | None:
        told = [one for one in data if len(one.gains) > 2 and min(one.gains) >= max(0.15, TOLD * fmean(one.without))]
        if told:
            return max(told, key=lambda one: one.gain)
        gap = short - min([short, *(trial.errors[0] for _, _, trial in tried)])
        if gap < GAP or gap < SHARE * short:
            return None
        close = [one for one in tried if one[2].gain >= max(HALF * gap, GAP)]
        close = [one for one in close if not one[2].general or self.plain > NOTHING_LEARNT]
        close.sort(key=lambda one: one[2].general)
        most = max((one[2].gain for one in close if not one[2].general), default=0.0)
        bar = max(self.plain - longer, GAP, HALF * gap if self.length == 1.0 else SHARE * self.plain)
        for replacement, before, trial in close:
            if not trial.general and trial.gain < 0.8 * most:
                continue
            confirmed = self._confirmed(replacement, before, trial, SEEDS)
            if min(confirmed.gains) > 0 and confirmed.gain >= 0.7 * bar:
                return confirmed
        return None

    def _confirmed(self, replacement: Replacement, before: tuple[Change, ...], trial: Trial, seeds: int) -> Trial:
        """The trial again with several seeds over whole runs, as many as there is time for."""
        whole = self.length == 1.0
        errors, without = (list(trial.errors), list(trial.without)) if whole else ([], [])
        for number in range(len(errors), seeds):
            if number > 1 and time.process_time() > self.end:
                break
            without.append(self.plain if number == 0 and not before else self.error(number, *before))
            errors.append(self.error(number, *before, replacement.change))
        return replace(trial, errors=tuple(errors), without=tuple(without))

    def _far(self, found: Swaps, tried: Sequence[tuple[Replacement, tuple[Change, ...], Trial]]) -> Swaps:
        """With the replacement of much at once that closes most of a large gap, if that lasts."""
        close = [one for one in tried if one[2].gain >= max(FAR, HALF * one[2].without[0])]
        if not close or time.process_time() + 2 * self.took > self.end:
            return found
        replacement, before, trial = max(close, key=lambda one: one[2].gain)
        again = self._confirmed(replacement, before, trial, 2)
        if min(again.gains) < max(FAR, HALF * self.plain, self.plain - found.longer):
            return found
        tripled = self.error(0, epochs=3.0)
        if tripled - again.errors[0] < max(FAR, HALF * again.gain):
            return found
        others = [one for _, _, one in tried if one.part != trial.part and one.gain > HALF * trial.gain]
        return replace(found, far=again, tripled=tripled, alone=not others)


def _told_apart(train: Sequence[Any], val: Sequence[Any]) -> bool:
    """Whether inputs alone say which of the two splits an example is from."""
    from sklearn.ensemble import RandomForestClassifier

    tables = []
    for batches in (train, val):
        rows = [torch.cat([leaf.reshape(len(leaf), -1) for leaf in tensors_of(inputs)], dim=1) for inputs in batches]
        widths = {row.shape[1] for row in rows}
        if len(widths) != 1:
            return False
        tables.append(torch.cat(rows).double().nan_to_num().cpu())
    if tables[0].shape[1] != tables[1].shape[1]:
        return False
    count, generator = min(*map(len, tables), 600), torch.Generator().manual_seed(0)
    x = torch.cat([table[torch.randperm(len(table), generator=generator)[:count]] for table in tables]).numpy()
    y = [0] * count + [1] * count
    forest = RandomForestClassifier(60, min_samples_leaf=3, oob_score=True, random_state=0).fit(x, y)
    return bool(forest.oob_score_ > APART)
