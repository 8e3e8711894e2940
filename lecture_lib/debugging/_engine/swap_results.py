"""What replacing parts has shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ..faults.finding import Finding
from .assumptions import SPENT
from .difference import Difference

DATA = {"inputs", "labels", "split"}
VALIDATIONS = "validation's own examples to learn from"
FAR = 0.15  # error that must go for the program to be called far from the best one
SHARE = 0.3  # of its own error a program must lose, for a replacement to say something


@dataclass(frozen=True)
class Trial:
    """A part replaced, and what came of it.

    Attributes:
        part, description: see Replacement.
        general: whether the replacement changes much at once.
        errors: with it, seed by seed, relative to a constant answer's.
        without: the same program's errors as it is, for the same seeds.
        fault: see Replacement.

    """

    part: str
    description: str
    general: bool
    errors: tuple[float, ...]
    without: tuple[float, ...]
    fault: str | None = None

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
        return Finding(self.fault, str(self), data, certain=False, where=self.part)

    def __str__(self) -> str:
        spread = f" ± {stdev(self.gains):.2f}" if len(self.gains) > 1 else ""
        seeds = f"{len(self.gains)} seed{'s' if len(self.gains) > 1 else ''}"
        errors = f"error {fmean(self.errors):.2f} in place of {fmean(self.without):.2f}"
        return f"{self.part}, {self.description}: {errors}, a gain of {self.gain:.2f}{spread} over {seeds}"


@dataclass(frozen=True)
class Swaps:
    """What replacing parts has shown.

    Attributes:
        errors: of the program as it is, seed by seed; 0 is perfect and 1 a constant answer.
        longer: its error after twice as many epochs; NaN where nothing helped, and it was not asked.
        trials: each replacement that was tried, in the order of the table.
        failed: what could not be tried, and why.
        unaffordable: part and replacement of what the budget did not allow.
        explained: the trial that explains the gap to the best program found; None where none does.
        own: training's own examples, held out, judged by in the place of validation's; None where it was not tried.
        far: the replacement of much at once that is far better, with each seed, and than a run three times as long.
        tripled: error after three times the epochs; NaN where it was not asked.
        alone: whether nothing in another part comes near to `far`.
        differences: where parts differ from the reference parts, seen without training.
        patient: a multiple of the epochs and the error after them, where something was merely faster.

    """

    errors: tuple[float, ...]
    longer: float
    trials: tuple[Trial, ...]
    failed: tuple[str, ...]
    unaffordable: tuple[tuple[str, str], ...]
    explained: Trial | None = None
    own: Trial | None = None
    far: Trial | None = None
    tripled: float = math.nan
    alone: bool = False
    differences: tuple[Difference, ...] = ()
    patient: tuple[float, float] | None = None

    @property
    def best(self) -> float:
        """The lowest error that any replacement gave with the first seed."""
        return min([self.errors[0], *(trial.errors[0] for trial in self.trials)])

    def speaks_for(self, parts: Sequence[str]) -> bool:
        """Whether a replacement in one of these parts brought much, or none of them could be tried."""
        # Runs that exchange the splits' examples speak for all parts of the data, whichever they are listed under.
        wanted = set(parts) | (DATA if DATA & set(parts) else set())
        gains = [trial.gain / max(trial.without[0], 1e-6) for trial in self.trials if trial.part in wanted]
        return not gains or max(gains) >= SHARE

    def __str__(self) -> str:
        twice = "" if math.isnan(self.longer) else f", after twice the epochs {self.longer:.2f}"
        lines = [f"error {fmean(self.errors):.2f}{twice}; lowest {self.best:.2f}"]
        lines += [f"  differs: {difference}" for difference in self.differences]
        lines += [f"  {trial}" for trial in sorted(self.trials, key=lambda trial: -trial.gain)]
        spent = (f"{part}, {description}: {SPENT}" for part, description in self.unaffordable)
        lines += [f"  not tried: {reason}" for reason in (*self.failed, *spent)]
        return "\n".join(lines)
