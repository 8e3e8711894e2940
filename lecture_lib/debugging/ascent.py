"""One climb, step by step: what the rules say, then replaced parts, then comparisons of runs, then symptoms."""

from __future__ import annotations

import time
from dataclasses import replace

from ._engine.assumptions import SPENT
from ._engine.evidence import Evidence
from ._engine.instrumentation import why_not
from .faults.finding import Finding
from .rungs import RUNGS, Rule
from .swaps import DATA, Make, Swaps, swap_parts
from .symptoms import located, symptoms

SWAPS_SHARE = 0.8  # of the budget; the rest is for comparisons that give what was found its name
MEASURED = 6  # the rung that shows the metric
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


class Ascent:
    """What has been asked of a program so far, and what was found. The steps are taken in the order of the methods.

    Attributes:
        evidence: what is known of the program.
        go_on: whether all is asked, whatever was found.
        findings: what was found and is not explained by something else, the certain ones first in the end.
        certain: whether a rule found something certain.
        swaps: what replacing parts gave; None where none was replaced.
        unchecked: what could not be asked and why, by the rung's number.

    """

    def __init__(self, evidence: Evidence, go_on: bool) -> None:
        self.evidence, self.go_on = evidence, go_on
        self.findings: list[Finding] = []
        self.certain = False
        self.swaps: Swaps | None = None
        self.unchecked: dict[int, list[str]] = {rung.number: [] for rung in RUNGS}

    def ask_rules(self) -> None:
        """Ask what needs no training beyond the recorded one."""
        findings = []
        for rung in RUNGS:
            findings += [finding for rule in rung.rules if (finding := ask(rule, self.evidence)) is not None]
            self.unchecked[rung.number] += self.evidence.left_out()
        explained = {name for finding in findings for name in EXPLAINS.get(finding.fault or "", ())}
        findings = [finding for finding in findings if finding.fault not in explained]
        certain = {(finding.rung, finding.part) for finding in findings if finding.certain}
        self.certain = bool(certain)
        # A guess without a name adds nothing to what is certain of the same part.
        kept = [cause for cause in findings if cause.certain or cause.fault or (cause.rung, cause.part) not in certain]
        self.findings = kept

    def replace_parts(self, make: Make | None, budget: float) -> None:
        """Where nothing is certain yet, put good parts in place of the program's own; guesses that none supports go.

        An identity that does not hold explains the program by itself, and replacing parts costs whole trainings.
        """
        if self.certain or budget <= 0 or self.evidence.run.error is not None:
            return
        evidence = self.evidence
        evidence.end = time.process_time() + budget
        try:
            self.swaps = swap_parts(
                evidence.program, evidence.spec, make=make, budget=SWAPS_SHARE * budget, seed=evidence.seed
            )
        except Exception as error:  # what was found until now must survive a program that cannot be run so
            self.unchecked[1].append(f"replacing parts: {why_not(error)}")
            return
        self.unchecked[1] += [f"replacing parts: {failure}" for failure in self.swaps.failed]
        if self.swaps.unaffordable:
            parts = ", ".join(dict.fromkeys(part for part, _ in self.swaps.unaffordable))
            left_out = f"{len(self.swaps.unaffordable)} replacements of parts ({parts})"
            self.unchecked[1].append(f"{left_out}: {SPENT}; a larger budget= asks them too")
        # What differs may be meant: without certainty a finding stays only where replacing its part helps.
        self.findings = [finding for finding in self.findings if self._supports(finding)]

    def compare_runs(self) -> None:
        """Train again with something changed, where nothing has explained the program yet."""
        if self.findings and not self.go_on:
            for rung in RUNGS:
                if rung.hypotheses:
                    kind = "certain " if self.certain else ""
                    explained = f"a {kind}finding already explains what is wrong"
                    self.unchecked[rung.number].append(f"comparisons of runs: {explained}")
        for rung in RUNGS:
            for rule in rung.hypotheses:
                # One comparison that explains is enough.
                finding = ask(rule, self.evidence) if self.go_on or not self.findings else None
                if finding is not None and self._supports(finding):
                    self.findings.append(finding)
            self.unchecked[rung.number] += self.evidence.left_out()
        if self.swaps is not None and self.swaps.explained is not None:
            part = self.swaps.explained.part
            self.findings = [replace(finding, where=part) for finding in self.findings]
            self.findings = self.findings or [self.swaps.explained.finding()]

    def look_for_symptoms(self) -> None:
        """Where nothing that was found has a cause, say which numbers are not what they should be."""
        # True of an empty list too.
        if all(finding.symptom for finding in self.findings) and self.evidence.run.error is None:
            more = symptoms(self.evidence, self.swaps)
            self.unchecked[MEASURED] += self.evidence.left_out()
            if not self.findings or any(finding.part for finding in more):
                self.findings = more
        placed = [located(finding, self.swaps) for finding in self.findings]
        self.findings = sorted(placed, key=lambda finding: not finding.certain)

    def _supports(self, finding: Finding) -> bool:
        """Whether replacing parts speaks for a finding that is not certain, or was not tried."""
        # What the author's own scores show the yardstick may not see, as where it looks at the order of outputs alone.
        if self.swaps is None or finding.certain or "scores" in finding.data:
            return True
        if self.swaps.explained is not None:
            return finding.part == self.swaps.explained.part and (finding.kind == "swap" or finding.part in DATA)
        return self.swaps.speaks_for(finding.parts)


def ask(rule: Rule, evidence: Evidence) -> Finding | None:
    """What a rule finds. One that a program breaks must not take the others with it."""
    try:
        finding = rule(evidence)
    except Exception as error:
        evidence.not_asked.setdefault(why_not(error), []).append(rule.__name__.replace("_", " "))
        evidence.refused.append(why_not(error))
        return None
    evidence.question_count += 1
    return finding
