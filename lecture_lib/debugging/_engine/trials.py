"""Counterfactuals: the same program, trained from the same seeds with one thing changed."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from .assumptions import SPENT, NotAskedError
from .changes import Change
from .evidence import Evidence
from .untouched import untouched

SEEDS = 3
EFFECT = 0.1  # smallest gain that is reported, as a share of the loss of the best constant answer
BEYOND = 2.0  # times the standard deviation of the gains between seeds


@dataclass(frozen=True)
class Gain:
    """What a change brought.

    Attributes:
        before, after: mean loss on validation or training examples, over the seeds.
        share: mean gain, as a share of the loss of the best constant answer.
        spread: standard deviation of it between seeds.
        least: the smallest gain of a seed, as such a share.

    """

    before: float
    after: float
    share: float
    spread: float
    least: float

    @property
    def real(self) -> bool:
        """Whether it is above the smallest effect with every seed, or on the whole and beyond what seeds do."""
        return self.least > EFFECT or (self.share > EFFECT and self.share > BEYOND * self.spread)

    def __str__(self) -> str:
        runs = f"over {SEEDS} seeds ({self.share:+.0%} ± {self.spread:.0%} of a constant answer's loss)"
        return f"loss {self.after:.3g} in place of {self.before:.3g} {runs}"


class Trials:
    """Trains a program with changes, and remembers what it gave without.

    Args:
        evidence: of the program.
        epochs: of each run; default: as declared.

    """

    def __init__(self, evidence: Evidence, epochs: int | None = None) -> None:
        self.evidence = evidence
        self.epochs = epochs or evidence.spec.epochs or 5
        self._plain: dict[tuple[int, bool, int], float] = {}

    def loss(self, seed: int, change: Change | None = None, *, validation: bool = False, epochs: int = 0) -> float:
        """Loss after a run; infinite where it is not finite or the run fails."""
        evidence = self.evidence
        if time.process_time() > evidence.end:
            raise NotAskedError(SPENT)
        examples = evidence.val if validation else evidence.train
        if examples is None:
            return math.inf
        with untouched(evidence.program, evidence.seed + seed) as program:
            try:
                with change(program) if change else nullcontext():
                    for _ in range(epochs or self.epochs):
                        program.run_epoch()
                    found = evidence.measure(examples.part(slice(0, 1000)))[0]
            except Exception:
                return math.inf
        return found if math.isfinite(found) else math.inf

    def plain(self, seed: int, validation: bool, epochs: int = 0) -> float:
        """Loss after a run of the program as it is."""
        key = (seed, validation, epochs or self.epochs)
        if key not in self._plain:
            if seed == 0 and len(self.evidence.run.rows) >= key[2]:
                row = self.evidence.run.rows[key[2] - 1]
                for name, value in ((False, row.train_loss), (True, row.val_loss)):
                    self._plain[0, name, key[2]] = value if math.isfinite(value) else math.inf
            else:
                self._plain[key] = self.loss(seed, validation=validation, epochs=epochs)
        return self._plain[key]

    def worth(self, change: Change, *, validation: bool = False, epochs: int = 0, longer: int = 0) -> bool:
        """Whether one seed promises a gain; `longer` gives the changed run more epochs than the other has."""
        before = min(self.plain(0, validation, epochs), 2 * self.constant)
        return before - self.loss(0, change, validation=validation, epochs=longer or epochs) > EFFECT * self.constant

    def gain(self, change: Change, *, validation: bool = False, epochs: int = 0, longer: int = 0) -> Gain:
        """The gain over shared seeds. A loss above twice that of a constant counts as that."""
        top = 2 * self.constant
        seeds = range(SEEDS)
        before = [min(self.plain(seed, validation, epochs), top) for seed in seeds]
        options: dict[str, Any] = {"validation": validation, "epochs": longer or epochs}
        after = [min(self.loss(seed, change, **options), top) for seed in seeds]
        gains = [(a - b) / self.constant for a, b in zip(before, after, strict=True)]
        return Gain(fmean(before), fmean(after), fmean(gains), stdev(gains), min(gains))

    @property
    def early(self) -> int:
        """A quarter of the run: what is wrong with the start shows there most."""
        return max(1, self.epochs // 4)

    @property
    def constant(self) -> float:
        """Loss of the best constant answer on training examples; that of the untrained model where it is unknown."""
        return self.evidence.constant_loss
