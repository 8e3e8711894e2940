"""What an ablation found: paired differences, their intervals and verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from .._common.palette import BLUE, GREEN, INK, VERMILION
from .._common.plotting import figure_and_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = dict[int, tuple[float, float]]  # seed -> metric, cost
LOOKS = {"likely useful": (GREEN, "^"), "noise": (BLUE, "o"), "worse": (VERMILION, "v")}


@dataclass(frozen=True)
class Effect:
    """A change beside the base, over the seeds with which both ran.

    Attributes:
        name: of the change.
        pairs: how many seeds.
        gain: the mean difference, in the metric's unit, above 0 when the change is better.
        needed: the smallest mean gain, or loss, that gets a verdict with this spread between the differences; half the
            width of the interval around `gain`.
        cost_ratio: cost with the change / cost of the base.
        verdict: 'likely useful', 'noise', 'worse'; 'not judged' with fewer than two pairs.

    """

    name: str
    pairs: int
    gain: float
    needed: float
    cost_ratio: float
    verdict: str


@dataclass(frozen=True)
class Ablation:
    """All runs of an ablation.

    Attributes:
        seeds: that every configuration was run with.
        level: the stated false-positive rate, over all changes together.
        higher_is_better: whether it is.
        base: seed -> metric and cost of the base.
        changed: name of the change -> seed -> metric and cost.
        failures: (name, seed) -> the exception that ended the run.

    """

    seeds: tuple[int, ...]
    level: float
    higher_is_better: bool
    base: Results
    changed: dict[str, Results]
    failures: dict[tuple[str, int], Exception]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Each change beside the base."""
        return tuple(self._effect(name, of_seed) for name, of_seed in self.changed.items())

    def _effect(self, name: str, changed: Results) -> Effect:
        seeds = [seed for seed in changed if seed in self.base]
        differences = [(changed[seed][0] - self.base[seed][0]) * (1 if self.higher_is_better else -1) for seed in seeds]
        if len(seeds) < 2:
            return Effect(name, len(seeds), math.nan, math.inf, math.nan, "not judged")
        gain, spread = fmean(differences), stdev(differences)
        # Equal differences tell nothing about the spread: a metric in coarse steps, or seeds without effect.
        equal = gain != 0 and spread < 1e-9 * abs(gain)
        needed = math.inf if equal else self.needed_spreads(len(seeds)) * spread
        verdict = "noise" if abs(gain) <= needed else "likely useful" if gain > 0 else "worse"
        cost, before = (sum(results[seed][1] for seed in seeds) for results in (changed, self.base))
        ratio = cost / before if before else math.nan
        return Effect(name, len(seeds), gain, needed, ratio, verdict)

    def needed_spreads(self, pairs: int) -> float:
        """The smallest mean gain that gets a verdict, in standard deviations of the differences."""
        from scipy.stats import t

        return float(t.isf(self.level / len(self.changed) / 2, pairs - 1)) / math.sqrt(pairs)

    @property
    def statement(self) -> str:
        """What the verdicts rest on."""
        n, share = len(self.seeds), self.level / len(self.changed)
        flips, ranks, enough = 2 / 2**n, 2 / math.comb(2 * n, n), 1 + math.ceil(math.log2(1 / share))
        return (
            f"{n} seeds, {len(self.changed)} change(s), two-sided t intervals at {1 - share:.2%} each (Bonferroni): a "
            f"false-positive rate of at most {self.level:.1%} over all changes, if the paired differences are "
            "independent and normal, which so few cannot show. A verdict needs a mean gain above "
            f"{self.needed_spreads(n):.2f} of their standard deviations. Without normality, the least two-sided p of "
            f"{n} seeds is {flips:.3g} (sign flips) or {ranks:.3g} (unpaired ranks); sign flips need {enough} seeds."
        )

    def as_rows(self) -> list[dict[str, Any]]:
        """A dict for each change, for a table."""
        return [vars(effect).copy() for effect in self.effects]

    def __str__(self) -> str:
        lines = [("change", "gain", "needed", "cost", "seeds", "verdict")]
        for e in self.effects:
            gain, needed, cost = f"{e.gain:+.4g}", f"±{e.needed:.3g}", f"{e.cost_ratio:.2f}x"
            lines.append((e.name, gain, needed, cost, str(e.pairs), e.verdict))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]
        failed = [f"failed: {name}, seed {seed}: {error!r}" for (name, seed), error in self.failures.items()]
        return "\n".join([*map(str.rstrip, table), *failed, self.statement])

    def plot(self, ax: Axes | None = None, *, unit: str = "metric") -> Figure:
        """Draw each change's gain with its interval; a new figure unless `ax` is given. `str()` has the costs too.

        Args:
            ax: where; default: a new figure.
            unit: of the gain, as the axis names it.

        """
        figure, ax = figure_and_axes(ax, (6.4, 1.2 + 0.5 * len(self.changed)))
        effects = [effect for effect in self.effects if math.isfinite(effect.needed)]
        for row, e in enumerate(effects):
            colour, marker = LOOKS[e.verdict]
            ax.errorbar(e.gain, row, xerr=e.needed, fmt=marker, color=colour, capsize=4)
        ax.axvline(0, color=INK, linestyle="--")
        ax.set_yticks(range(len(effects)), [f"{e.name}: {e.verdict}" for e in effects])
        ax.set_ylim(len(effects) - 0.4, -0.6)
        ax.set_xlabel(f"gain over the base ({unit}), with {1 - self.level / len(self.changed):.1%} intervals")
        return figure
