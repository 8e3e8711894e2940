"""The ladder: seven rungs, each a question that a sound program answers, climbed from the data up."""

from __future__ import annotations

import math
import time
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
from ._engine.run_data import Row
from ._engine.rung_plots import PLOTS
from ._engine.rung_plots import run as draw_run
from .faults.finding import Finding
from .program import Program, Spec
from .recording_symptoms import symptoms_of_recording
from .rungs import OF_RECORDINGS, RUNGS, Rule, Rung
from .swaps import DATA, Make, Swaps, swap_parts
from .symptoms import located, symptoms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SWAPS_SHARE = 0.8  # of the budget; the rest is for comparisons that give what was found its name
MEASURED = 6  # the rung that shows the metric
UNLEARNT = (
    "The examples were not learned, and no question explains why: try a smaller and a larger rate, or more steps."
)
IN_FULL = {"unsure": "unsure: a bad number, unexplained"}
COLOURS = {"holds": (BLUE, ""), "fails": (VERMILION, "//"), "unsure": (ORANGE, ".."), "not asked": (INK, "")}
# What a fault shows on other rungs too, and is then no finding of its own.
EXPLAINS = {
    "D03": ("D25",),
    "D26": ("D03", "D25", "D11"),
    "D30": ("D25", "D03", "A11"),
    "D34": ("E02",),
    "D35": ("D26", "D27", "D10", "D16"),
    "D36": ("L08",),
    "L13": ("A16", "D11"),
    "E03": ("D16",),
    "P17": ("D25", "A13"),
}


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
        lines += [f"  {name}: {_short(value)}" for name, value in self.seen.items() if not _unknown(value)]
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
    rows: tuple[Row, ...] = field(default=(), repr=False)
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
    findings = [finding for rule in rules if (finding := _ask(rule, evidence)) is not None]
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
        return _climb(Evidence(program, spec or Spec(), seed), go_on, make, budget)


def _climb(evidence: Evidence, go_on: bool, make: Make | None, budget: float) -> Climb:
    unchecked: dict[int, list[str]] = {}
    findings = [finding for rung in RUNGS for finding in _look(evidence, rung, rung.rules, unchecked)]
    explained = {name for finding in findings for name in EXPLAINS.get(finding.fault or "", ())}
    findings = [finding for finding in findings if finding.fault not in explained]
    certain = {(finding.rung, finding.part) for finding in findings if finding.certain}
    # A guess without a name adds nothing to what is certain of the same part.
    findings = [cause for cause in findings if cause.certain or cause.fault or (cause.rung, cause.part) not in certain]
    swaps = None
    # An identity that does not hold explains the program by itself, and replacing parts costs whole trainings.
    if not any(finding.certain for finding in findings) and budget > 0 and evidence.run.error is None:
        evidence.end = time.process_time() + budget
        swaps = _swap(evidence, make, SWAPS_SHARE * budget, unchecked)
        # What differs may be meant: without certainty a finding stays only where replacing its part helps.
        findings = [finding for finding in findings if _supported(finding, swaps)]
    if findings and not go_on:
        for rung in RUNGS:
            if rung.hypotheses:
                unchecked[rung.number].append("comparisons of runs: a certain finding already explains what is wrong")
    for rung in RUNGS:
        # What an identity explains needs no comparison of runs, and one comparison that explains is enough.
        for rule in rung.hypotheses:
            finding = _ask(rule, evidence) if go_on or not findings else None
            if finding is not None and _supported(finding, swaps):
                findings.append(finding)
        unchecked[rung.number] += evidence.left_out()
    if swaps is not None and swaps.explained is not None:
        findings = [replace(finding, where=swaps.explained.part) for finding in findings] or [swaps.explained.finding()]
    # True of an empty list too: a symptom is told where nothing that was found has a cause.
    if all(finding.symptom for finding in findings) and evidence.run.error is None:
        more = _symptoms(evidence, swaps, unchecked)
        findings = more if not findings or any(finding.part for finding in more) else findings
    findings = sorted((located(finding, swaps) for finding in findings), key=lambda finding: not finding.certain)
    doubt = no_better_than_chance(evidence.program, evidence.val, evidence.run)
    results = []
    for rung in RUNGS:
        here = [finding for finding in findings if finding.rung == rung.number]
        numbers = _measure(evidence, rung, unchecked)
        results.append(Result(rung, tuple(here), tuple(unchecked.get(rung.number, ())), numbers))
        # A guess that no replaced part was tried for must not hide what is certain above it.
        if here and not go_on and (not certain or any(finding.certain for finding in here)):
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


def _swap(evidence: Evidence, make: Make | None, budget: float, unchecked: dict[int, list[str]]) -> Swaps | None:
    try:
        # What the rungs have found must survive a program that cannot be run with a part replaced.
        swaps = swap_parts(evidence.program, evidence.spec, make=make, budget=budget, seed=evidence.seed)
    except Exception as error:
        unchecked[1].append(f"replacing parts: {why_not(error)}")
        return None
    unchecked[1] += [f"replacing parts: {failure}" for failure in swaps.failed]
    if swaps.unaffordable:
        parts = ", ".join(dict.fromkeys(part for part, _ in swaps.unaffordable))
        left_out = f"{len(swaps.unaffordable)} replacements of parts ({parts})"
        unchecked[1].append(f"{left_out}: {SPENT}; a larger budget= asks them too")
    return swaps


def _symptoms(evidence: Evidence, swaps: Swaps | None, unchecked: dict[int, list[str]]) -> list[Finding]:
    try:
        return symptoms(evidence, swaps)
    except Exception as error:
        unchecked[MEASURED].append(f"symptoms: {why_not(error)}")
        return []


def _supported(finding: Finding, swaps: Swaps | None) -> bool:
    """Whether replacing parts speaks for a finding that is not certain, or was not tried."""
    # What the author's own scores show the yardstick may not see, as where it looks at the order of outputs alone.
    if swaps is None or finding.certain or "scores" in finding.data:
        return True
    if swaps.explained is not None:
        return finding.part == swaps.explained.part and (finding.kind == "swap" or finding.part in DATA)
    return swaps.speaks_for(finding.parts)


def _look(evidence: Evidence, rung: Rung, rules: Sequence[Rule], unchecked: dict[int, list[str]]) -> list[Finding]:
    findings = [finding for rule in rules if (finding := _ask(rule, evidence)) is not None]
    unchecked.setdefault(rung.number, []).extend(evidence.left_out())
    return findings


def _ask(rule: Rule, evidence: Evidence) -> Finding | None:
    try:
        finding = rule(evidence)
    except Exception as error:  # a rule that a program breaks must not take the others with it
        evidence.not_asked.setdefault(why_not(error), []).append(rule.__name__.replace("_", " "))
        evidence.refused.append(why_not(error))
        return None
    evidence.question_count += 1
    return finding


def _measure(evidence: Evidence, rung: Rung, unchecked: dict[int, list[str]]) -> dict[str, Any]:
    measure = MEASURES.get(rung.number)
    try:
        return measure(evidence) if measure else {}
    except Exception as error:
        unchecked.setdefault(rung.number, []).append(f"{rung.name}, its numbers: {why_not(error)}")
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
