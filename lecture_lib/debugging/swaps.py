"""Replace one part of a program at a time by a good one, train again, and see what helps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch

from ._engine.batches import cut, halves, learning_from, leaves, length, read_batches, some
from ._engine.changes import Change, replacing
from ._engine.observed import Examples
from ._engine.observing import why_not
from ._engine.reading import read
from ._engine.replacements import (
    DROPOUT,
    LAST,
    NotInUseError,
    Replacement,
    Watched,
    own_loop,
    plain_loop,
    replacements,
)
from ._engine.untouched import untouched
from ._engine.yardstick import WORST, error, pairs_of
from .faults.finding import Finding
from .program import Program, Spec

Make = Callable[[int], tuple[Program, Spec]]

SEEDS = 3
RESERVED = 3  # runs for which time is kept, to try what helped with other seeds
DATA = {"inputs", "labels", "split"}
GAP = 0.03  # smallest difference to the best program found that is looked into, in units of a constant answer's error
SHARE = 0.3  # and as a share of the program's own error
FEWEST = 60  # examples of each split, to compare them
TOLD = 0.6  # of the error must go when one split's examples stand in for the other's
HALF = 0.5  # of that difference must be closed by a replacement
APART = 0.7  # share of examples of which a forest knows whether they are training's or validation's
NOTHING_LEARNT = 0.6  # error above which also a replacement that changes much at once says where the fault is


@dataclass(frozen=True)
class Trial:
    """A part replaced, and what came of it.

    Attributes:
        part, what: see Replacement.
        general: whether the replacement changes much at once.
        errors: with it, seed by seed, relative to a constant answer's.
        without: the same program's errors as it is, for the same seeds.

    """

    part: str
    what: str
    general: bool
    errors: tuple[float, ...]
    without: tuple[float, ...]

    @property
    def gains(self) -> tuple[float, ...]:
        """Error less than without, seed by seed."""
        return tuple(a - b for a, b in zip(self.without, self.errors, strict=False))

    @property
    def gain(self) -> float:
        """Their mean."""
        return fmean(self.gains)

    def finding(self) -> Finding:
        """As a finding of the ladder."""
        data = {"gain": self.gain, "errors": list(self.errors), "without": list(self.without)}
        return Finding(None, str(self), data, certain=False, where=self.part)

    def __str__(self) -> str:
        spread = f" ± {stdev(self.gains):.2f}" if len(self.gains) > 1 else ""
        seeds = f"{len(self.gains)} seed{'s' if len(self.gains) > 1 else ''}"
        errors = f"error {fmean(self.errors):.2f} in place of {fmean(self.without):.2f}"
        return f"{self.part}, {self.what}: {errors}, a gain of {self.gain:.2f}{spread} over {seeds}"


@dataclass(frozen=True)
class Swaps:
    """What replacing parts has shown.

    Attributes:
        errors: of the program as it is, seed by seed; 0 is perfect and 1 a constant answer.
        longer: its error after twice as many epochs.
        trials: each replacement that was tried, in the order of the table.
        untried: what could not be tried, and why.
        explained: the trial that explains the gap to the best program found; None where none does.

    """

    errors: tuple[float, ...]
    longer: float
    trials: tuple[Trial, ...]
    untried: tuple[str, ...]
    explained: Trial | None = None

    @property
    def best(self) -> float:
        """The lowest error that any replacement gave with the first seed."""
        return min([self.errors[0], *(one.errors[0] for one in self.trials)])

    def speaks_for(self, parts: Sequence[str]) -> bool:
        """Whether a replacement in one of these parts brought much, or none of them could be tried."""
        wanted = set(parts) | (DATA if DATA & set(parts) else set())
        gains = [one.gain / max(one.without[0], 1e-6) for one in self.trials if one.part in wanted]
        return not gains or max(gains) >= SHARE

    def __str__(self) -> str:
        as_it_is = f"error as it is {fmean(self.errors):.2f}, after twice the epochs {self.longer:.2f}"
        lines = [f"{as_it_is}; lowest {self.best:.2f}"]
        lines += [f"  {one}" for one in sorted(self.trials, key=lambda one: -one.gain)]
        lines += [f"  not tried: {one}" for one in self.untried]
        return "\n".join(lines)


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
    if make is None:
        if program is None:
            raise ValueError("pass a program, or make=")
        make_given: Make | None = None
    else:
        make_given = make
    runs = _Runs(program, spec or Spec(), make_given, seed, time.process_time() + budget)
    return runs.compare()


class _Runs:
    """Trains a program with replacements, seed by seed."""

    def __init__(self, program: Program | None, spec: Spec, make: Make | None, seed: int, end: float) -> None:
        self.program, self.spec, self.make, self.seed, self.end = program, spec, make, seed, end
        self.untried: list[str] = []
        self.took = 0.0  # seconds of the longest run
        self.plain = WORST

    @contextmanager
    def fresh(self, number: int) -> Iterator[tuple[Program, Spec]]:
        """The program of a seed, untrained, and put back afterwards."""
        if self.make is not None:
            torch.manual_seed(self.seed + number)
            program, spec = self.make(self.seed + number)
            torch.manual_seed(self.seed + number)
            yield program, spec
            return
        assert self.program is not None
        with untouched(self.program, self.seed + number) as program:
            yield program, self.spec

    def error(self, number: int, *changes: Change, epochs: float = 1.0, judges: Sequence[Any] = ()) -> float:
        """Error after a run with some changes; epochs as a multiple of those declared."""
        start = time.process_time()
        with self.fresh(number) as (program, spec):
            pairs = [program.parts(batch) for batch in judges] if judges else pairs_of(program)
            with _all(changes, program) as after:
                for _ in range(max(1, round((spec.epochs or 5) * epochs))):
                    program.run_epoch()
                for act in after:
                    act()
                found = error(program, pairs, spec)
        self.took = max(self.took, time.process_time() - start)
        return found

    def _examples(self, program: Program, spec: Spec, which: str) -> Examples | None:
        loader = getattr(program, f"{which}_loader")
        device = next((one.device for one in program.model.parameters()), torch.device("cpu"))
        examples, reason = read(loader, program, spec, lambda x: program.outputs(x.to(device)))
        if reason:
            self.untried.append(f"inputs and labels: {which} examples: {reason}")
        return examples

    def watch(self) -> Watched:
        """One run of the program as it is, with an eye on what it calls and at what rates it learns."""
        rates: list[list[float]] = []
        changed: list[bool] = []
        called: set[str] = set()

        def spy(name: str) -> Callable[..., Any]:
            def call(function: Any, *args: Any, **kwargs: Any) -> Any:
                called.add(name)
                return function(*args, **kwargs)

            return call

        names = [*DROPOUT, *LAST, *(f"{one}_" for one in LAST), "detach", "detach_"]
        with self.fresh(0) as (program, spec):
            pairs = pairs_of(program)
            train, val = self._examples(program, spec, "train"), self._examples(program, spec, "val")
            rates = [[0.0] * len(one.param_groups) for one in program.optimizers]
            hooks = []
            for number, optimizer in enumerate(program.optimizers):

                def before(optimizer: Any, args: Any, kwargs: Any, number: int = number) -> None:
                    for place, group in enumerate(optimizer.param_groups[: len(rates[number])]):
                        rate = float(group["lr"])
                        changed.append(rates[number][place] not in (0.0, rate))
                        rates[number][place] = max(rates[number][place], rate)

                hooks.append(optimizer.register_step_pre_hook(before))
            with replacing(**{name: spy(name) for name in names})(program):
                for _ in range(spec.epochs or 5):
                    program.run_epoch()
            for hook in hooks:
                hook.remove()
            self.plain = error(program, pairs, spec)
        with self.fresh(0) as (program, spec), torch.no_grad():
            program.model.eval()
            device = next((one.device for one in program.model.parameters()), torch.device("cpu"))
            outputs = program.outputs(train.x[:8].to(device)) if train is not None else None
            outputs = outputs.cpu() if isinstance(outputs, torch.Tensor) else None
        program, spec = self.make(self.seed) if self.make is not None else (self.program, self.spec)  # type: ignore[assignment]
        return Watched(program, spec, train, val, outputs, rates, any(changed), frozenset(called))

    def compare(self) -> Swaps:
        start = time.process_time()
        watched = self.watch()
        self.took = time.process_time() - start
        plain = [self.plain]
        longer = self.error(0, epochs=2.0)
        self.took /= 2
        data = self._data()
        tried: list[tuple[Replacement, tuple[Change, ...], Trial]] = []
        base: dict[bool, float] = {False: plain[0]}
        for one in replacements(watched):
            if time.process_time() + RESERVED * self.took > self.end:
                self.untried.append(f"{one.part}, {one.what}: the budget is used up")
                continue
            before: tuple[Change, ...] = ()
            try:
                try:
                    found = self.error(0, one.change)
                except NotInUseError:
                    if not own_loop(watched.program) or watched.train is None:
                        raise
                    before = (plain_loop(watched.spec),)
                    found = self.error(0, *before, one.change)
                    if True not in base:
                        base[True] = self.error(0, *before)
            except Exception as problem:
                self.untried.append(f"{one.part}, {one.what}: {why_not(problem)}")
                continue
            trial = Trial(one.part, one.what, one.general, (found,), (base[bool(before)],))
            tried.append((one, before, trial))
        explained = self._decide(plain, longer, tried, data)
        trials = tuple(trial for _, _, trial in tried) + tuple(data)
        if explained is not None:
            trials = tuple(
                explained if (one.part, one.what) == (explained.part, explained.what) else one for one in trials
            )
        return Swaps(tuple(plain), longer, trials, tuple(self.untried), explained)

    def _data(self) -> list[Trial]:
        """Training's examples against validation's: which of the two can be learnt, and whether they agree."""
        with self.fresh(0) as (program, _):
            train = read_batches(program, program.train_loader)
            val = read_batches(program, program.val_loader)
        counts = [sum(map(length, batches)) for batches in (train, val)]
        if min(counts) < FEWEST:
            return []
        part, size = "inputs" if _told_apart(train, val) else "labels", min(length(train[0]), max(counts[1] // 8, 1))
        found = []
        for what, other in (
            ("validation's own examples to learn from", val),
            ("training's own examples to be judged by", train),
        ):
            if time.process_time() + (RESERVED + 3) * self.took > self.end:
                self.untried.append(f"{part}, {what}: the budget is used up")
                continue
            errors, without = [], []
            try:
                for number in range(2):
                    seen, kept = halves(other, self.seed + number)
                    if other is train:
                        seen, kept = some(seen, counts[1]), some(kept, counts[1])
                        usual, judges = seen, val
                    else:
                        usual, judges = some(train, sum(map(length, seen))), kept
                    many = min(counts[0] / max(sum(map(length, seen)), 1), 3.0)
                    errors.append(self.error(number, learning_from(cut(seen, size)), epochs=many, judges=kept))
                    without.append(self.error(number, learning_from(cut(usual, size)), epochs=many, judges=judges))
                    if errors[0] > (1 - TOLD) * without[0]:
                        break
            except Exception as problem:
                self.untried.append(f"{part}, {what}: {why_not(problem)}")
                continue
            found.append(Trial(part, what, False, tuple(errors), tuple(without)))
        return found

    def _decide(
        self,
        plain: list[float],
        longer: float,
        tried: Sequence[tuple[Replacement, tuple[Change, ...], Trial]],
        data: Sequence[Trial],
    ) -> Trial | None:
        told = [one for one in data if len(one.gains) > 1 and min(one.gains) >= max(0.2, TOLD * fmean(one.without))]
        if told:
            return max(told, key=lambda one: one.gain)
        gap = plain[0] - min([plain[0], *(trial.errors[0] for _, _, trial in tried)])
        if gap < GAP or gap < SHARE * plain[0]:
            return None
        bar = max(HALF * gap, plain[0] - longer, GAP)
        close = [one for one in tried if one[2].gain >= bar and (not one[2].general or plain[0] > NOTHING_LEARNT)]
        close.sort(key=lambda one: one[2].general)
        most = max((one[2].gain for one in close if not one[2].general), default=0.0)
        for replacement, before, trial in close:
            if not trial.general and trial.gain < 0.8 * most:
                continue
            errors, without = list(trial.errors), list(trial.without)
            for number in range(1, SEEDS):
                if number > 1 and time.process_time() > self.end:
                    break
                without.append(self.error(number, *before))
                errors.append(self.error(number, *before, replacement.change))
            confirmed = Trial(trial.part, trial.what, trial.general, tuple(errors), tuple(without))
            if min(confirmed.gains) > 0 and confirmed.gain >= 0.7 * bar:
                return confirmed
        return None


def _told_apart(train: Sequence[Any], val: Sequence[Any]) -> bool:
    """Whether inputs alone say which of the two splits an example is from."""
    from sklearn.ensemble import RandomForestClassifier

    tables = []
    for batches in (train, val):
        rows = [
            torch.cat([leaf.flatten(1) if leaf.ndim > 1 else leaf[:, None] for leaf in leaves(batch[0])], dim=1)
            for batch in batches
            if isinstance(batch, (list, tuple))
        ]
        widths = {row.shape[1] for row in rows}
        if len(widths) != 1:
            return False
        tables.append(torch.cat(rows).double().nan_to_num().cpu())
    if tables[0].shape[1] != tables[1].shape[1]:
        return False
    count = min(*map(len, tables), 600)
    x = torch.cat([table[torch.randperm(len(table))[:count]] for table in tables]).numpy()
    y = [0] * count + [1] * count
    forest = RandomForestClassifier(60, min_samples_leaf=3, oob_score=True, random_state=0).fit(x, y)
    return bool(forest.oob_score_ > APART)


@contextmanager
def _all(changes: Sequence[Change], program: Program) -> Iterator[list[Callable[[], None]]]:
    """Several changes at once, the first outermost; gives what they want done after training."""
    with ExitStack() as stack:
        given = [stack.enter_context(change(program)) for change in changes]
        yield [one for one in given if callable(one)]
