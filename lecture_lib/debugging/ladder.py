"""The ladder: seven rungs, each a question that a sound program answers, climbed from the data up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._common.palette import BLUE, INK, ORANGE, VERMILION
from .._common.plotting import figure_and_axes
from ._engine.assumptions import SPENT
from ._engine.chance import no_better_than_chance
from ._engine.events import Recording
from ._engine.evidence import Evidence
from ._engine.instrumentation import why_not
from ._engine.measures import MEASURES, losses
from ._engine.preserve import untouched
from ._engine.run_data import EpochRow
from ._engine.rung_plots import PLOTS
from ._engine.rung_plots import run as draw_run
from .ascent import MEASURED, Ascent, ask
from .faults.finding import Finding
from .program import Program, Spec
from .recording_symptoms import symptoms_of_recording
from .rungs import OF_RECORDINGS, RUNGS, Rung
from .swaps import Make, Swaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


UNLEARNT = (
    "The examples were not learned, and no question explains why: try a smaller and a larger rate, or more steps."
)
IN_FULL = {"unsure": "unsure: a bad number, unexplained"}
COLOURS = {"holds": (BLUE, ""), "fails": (VERMILION, "//"), "unsure": (ORANGE, ".."), "not asked": (INK, "")}


@dataclass(frozen=True)
class Result:
    """What a rung gave.

    Attributes:
        rung: which.
        findings: what is wrong, the surest first; empty when the rung holds.
        unchecked: what could not be looked at, and why.
        seen: the numbers behind it, as plain data: what is drawn.
        doubt: why it is not vouched for although nothing was found; '' where nothing speaks against it.

    """

    rung: Rung
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]
    seen: dict[str, Any] = field(default_factory=dict, repr=False)
    doubt: str = ""

    @property
    def verdict(self) -> str:
        """'holds', 'fails', 'unsure' (a number is bad and no rule says why), or 'not asked' (there are no numbers)."""
        if self.findings:
            return "fails"
        if self.doubt or self.seen.get("learnt") is False:
            return "unsure"
        return "holds" if self.seen else "not asked"

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the rung's numbers.

        Args:
            ax: where; default: a new figure.

        """
        figure, ax = figure_and_axes(ax)
        ax.set_title(f"rung {self.rung.number}, {self.rung.name}: {self.verdict}", loc="left")
        try:
            # A rung whose numbers could not be measured has none of the keys that its picture needs.
            PLOTS[self.rung.number](ax, self.seen)
        except KeyError:
            ax.text(0.5, 0.5, "nothing could be measured", ha="center", transform=ax.transAxes)
        return figure

    def __str__(self) -> str:
        lines = [f"rung {self.rung.number}, {self.rung.name}: {self.verdict}", f"  demands: {self.rung.criterion}"]
        shown = {name: value for name, value in self.seen.items() if not _unknown(value) and name != "learnt"}
        lines += [f"  {name}: {_short(value)}" for name, value in shown.items()]
        if self.verdict == "unsure":
            lines.append(f"  {self.doubt or UNLEARNT}")
        lines += [f"  {finding}".replace("\n", "\n  ") for finding in map(str, self.findings)]
        return "\n".join([*lines, *(f"  not checked: {question}" for question in self.unchecked)])


@dataclass(frozen=True)
class Climb:
    """The rungs that were climbed, up to the first that fails.

    Attributes:
        results: of each rung.
        above: the rungs that were not climbed.
        rows: losses of the recorded run, epoch by epoch.
        constant: training loss of the best constant answer.
        swaps: what replacing parts has shown; None where it was not tried.
        question_count: how many questions were asked: rules, comparisons and replacements.
        refused: for each question that could not be asked, why.

    """

    results: tuple[Result, ...]
    above: tuple[Rung, ...] = ()
    rows: tuple[EpochRow, ...] = field(default=(), repr=False)
    constant: float = math.nan
    swaps: Swaps | None = None
    question_count: int = 0
    refused: tuple[str, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, the lowest rung first."""
        return [finding for result in self.results for finding in result.findings]

    @property
    def ending(self) -> str:
        """How much was found and asked, and how many questions were left out."""
        count = len(self.findings)
        findings = f"{count} finding{'s' if count > 1 else ''}" if count else "nothing found"
        ending = f"{findings}: {self.question_count} questions asked, {len(self.refused)} not asked"
        lines = [line for result in self.results for line in result.unchecked]
        skipped = sum(not any(reason in line for reason in self.refused) for line in lines)
        ending += f", {skipped} comparison{'s' if skipped > 1 else ''} not made" if skipped else ""
        return ending + (f"; rungs from {self.above[0].number} on not climbed" if self.above else "")

    def plot(self) -> Figure:
        """Draw the rungs, and the curves of the recorded run below them."""
        import matplotlib.pyplot as plt

        figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.2, 6), layout="constrained")
        for result in self.results:
            number, failed = result.rung.number, bool(result.findings)
            colour, hatch = COLOURS[result.verdict]
            upper.barh(number, 1, color=colour, hatch=hatch, edgecolor="white")
            text = result.findings[0].title if failed else IN_FULL.get(result.verdict, result.verdict)
            upper.text(1.05, number, f"{result.rung.name}: {text}", va="center", fontsize="small")
        for rung in self.above:
            upper.barh(rung.number, 1, color="none", edgecolor=INK)
            upper.text(1.05, rung.number, f"{rung.name}: not climbed", va="center", fontsize="small", color=INK)
        upper.set(xlim=(0, 5), xticks=[], xlabel=self.ending, yticks=range(1, len(RUNGS) + 1), ylabel="rung")
        if math.isfinite(self.constant):
            lower.axhline(self.constant, color=INK, linestyle=":", label="best constant answer")
        draw_run(lower, losses(self.rows))
        return figure

    def __str__(self) -> str:
        lines = [str(result) for result in self.results]
        if self.above:
            lines.append("not climbed: " + ", ".join(f"{rung.number} {rung.name}" for rung in self.above))
        reasons = "; ".join(dict.fromkeys(self.refused))
        return "\n".join([*lines, self.ending + (f" ({reasons})" if reasons else "")])


class Findings(list[Finding]):
    """What a recording shows, the lowest rung first.

    Attributes:
        unchecked: which questions could not be asked, and why.

    """

    def __init__(self, findings: Sequence[Finding], unchecked: Sequence[str]) -> None:
        super().__init__(findings)
        self.unchecked = tuple(unchecked)

    def __str__(self) -> str:
        return "\n".join(
            [*(map(str, self) if self else ["nothing found"]), *map("not checked: {}".format, self.unchecked)]
        )


def find_faults(recording: Recording, spec: Spec | None = None) -> Findings:
    """What a recording alone shows: order of the loop, gradients, wiring, losses; without any of it, symptoms.

    Args:
        recording: from `record`.
        spec: what the author means, see `Spec`.

    Returns:
        The findings, the lowest rung first; printed, with what could not be asked.

    """
    evidence = Evidence.of_recording(recording, spec or Spec())
    rules = [rule for rung in RUNGS for rule in rung.rules if rule in OF_RECORDINGS]
    findings = [finding for rule in rules if (finding := ask(rule, evidence)) is not None]
    # A symptom names no cause, so it is looked for only where no rule speaks.
    findings = sorted(findings, key=lambda finding: finding.rung) or symptoms_of_recording(recording)
    return Findings(findings, evidence.left_out())


def climb(
    program: Program,
    spec: Spec | None = None,
    *,
    go_on: bool = False,
    seed: int = 0,
    make: Make | None = None,
    budget: float = 60.0,
) -> Climb:
    """Climb the ladder and stop at the first rung that fails; for certain, where anything is certain.

    Where no rule says anything, parts of the program are replaced by good ones, one at a time (`swap_parts`). The
    program is left as it was, bit for bit.

    Args:
        program: see `Program`.
        spec: what its author means, see `Spec`.
        go_on: climb all rungs, whatever fails.
        seed: of the recorded run; comparisons of runs use this seed and the next two.
        make: seed -> (program, spec), new each time, for programs that keep something in closures.
        budget: seconds of computing time for runs with something changed. With 0 no parts are replaced, and comparisons
            take the time that they need.

    """
    with untouched(program):
        ascent = Ascent(Evidence(program, spec or Spec(), seed), go_on)
        ascent.ask_rules()
        ascent.replace_parts(make, budget)
        ascent.compare_runs()
        ascent.look_for_symptoms()
        return _report(ascent)


def _report(ascent: Ascent) -> Climb:
    """Every rung with its findings and numbers, up to the first that fails."""
    evidence, swaps = ascent.evidence, ascent.swaps
    doubt = no_better_than_chance(evidence.program, evidence.val, evidence.run)
    results = []
    for rung in RUNGS:
        here = [finding for finding in ascent.findings if finding.rung == rung.number]
        numbers = _measure(ascent, rung)
        results.append(Result(rung, tuple(here), tuple(ascent.unchecked[rung.number]), numbers))
        # A guess that no replaced part was tried for must not hide what is certain above it.
        if here and not ascent.go_on and (not ascent.certain or any(finding.certain for finding in here)):
            break
    if results[-1].rung.number >= MEASURED:  # the report shows the metric: nothing is vouched for beside a bad one
        results = [replace(result, doubt=doubt) for result in results]
    # Without a first loss the constant loss may be a mere placeholder, and the plot has no line for it.
    constant = evidence.constant_loss if math.isfinite(evidence.run.before) else math.nan
    question_count, refused = evidence.question_count, list(evidence.refused)
    if swaps is not None:
        question_count += len(swaps.trials)
        refused += [*swaps.failed, *(f"replacements of parts: {SPENT}" for _ in swaps.unaffordable)]
    return Climb(
        tuple(results), RUNGS[len(results) :], tuple(evidence.run.rows), constant, swaps, question_count, tuple(refused)
    )


def _measure(ascent: Ascent, rung: Rung) -> dict[str, Any]:
    measure = MEASURES.get(rung.number)
    try:
        return measure(ascent.evidence) if measure else {}
    except Exception as error:
        ascent.unchecked[rung.number].append(f"{rung.name}, its numbers: {why_not(error)}")
        return {}


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return ", ".join(map(_short, [*value[:3], "…", value[-1]] if len(value) > 4 else value)) or "nothing"
    return str(value)


def _unknown(value: Any) -> bool:
    """Whether there is no number in it."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(number, float) and math.isnan(number) for number in values)
