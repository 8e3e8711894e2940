"""The ladder: seven rungs, each a question that a sound program answers, climbed from the data up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .evidence import Evidence
from .finding import Finding
from .program import Program, Spec
from .rungs import RUNGS, Rule, Rung


@dataclass(frozen=True)
class Result:
    """What a rung gave.

    Attributes:
        rung: which.
        findings: what is wrong, the surest first; empty when the rung holds.
        unchecked: what could not be looked at, and why.

    """

    rung: Rung
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"rung {self.rung.number}, {self.rung.name}: {'fails' if self.findings else 'holds'}"]
        lines += [f"  {one}".replace("\n", "\n  ") for one in map(str, self.findings)]
        return "\n".join([*lines, *(f"  not checked: {one}" for one in self.unchecked)])


@dataclass(frozen=True)
class Climb:
    """The rungs that were climbed, up to the first that fails."""

    results: tuple[Result, ...]
    above: tuple[Rung, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, the lowest rung first."""
        return [finding for result in self.results for finding in result.findings]

    def __str__(self) -> str:
        lines = [str(result) for result in self.results]
        if self.above:
            lines.append("not climbed: " + ", ".join(f"{rung.number} {rung.name}" for rung in self.above))
        return "\n".join(lines)


def climb(program: Program, spec: Spec | None = None, *, go_on: bool = False, seed: int = 0) -> Climb:
    """Climb the ladder and stop at the first rung that fails.

    The program is left as it was, bit for bit.

    Args:
        program: see `Program`.
        spec: what its author means, see `Spec`.
        go_on: climb all rungs, whatever fails.
        seed: of the recorded run; comparisons of runs use this seed and the next two.

    """
    evidence = Evidence(program, spec or Spec(), seed)
    unchecked: dict[int, list[str]] = {}
    found = [one for rung in RUNGS for one in _look(evidence, rung, rung.rules, unchecked)]
    for rung in RUNGS:
        # What an identity explains needs no comparison of runs, and one comparison that explains is enough.
        for rule in rung.hypotheses if go_on or not found else ():
            if go_on or not found:
                found += _look(evidence, rung, [rule], unchecked)
    results = []
    for rung in RUNGS:
        here = sorted((one for one in found if one.rung == rung.number), key=lambda one: not one.certain)
        results.append(Result(rung, tuple(here), tuple(unchecked.get(rung.number, ()))))
        if here and not go_on:
            break
    return Climb(tuple(results), RUNGS[len(results) :])


def _look(evidence: Evidence, rung: Rung, rules: Sequence[Rule], unchecked: dict[int, list[str]]) -> list[Finding]:
    found = [one for rule in rules if (one := _ask(rule, evidence)) is not None]
    unchecked.setdefault(rung.number, []).extend(evidence.unseen)
    evidence.unseen.clear()
    return found


def _ask(rule: Rule, evidence: Evidence) -> Finding | None:
    try:
        return rule(evidence)
    except Exception as error:  # a rule that a program breaks must not take the others with it
        evidence.unseen.append(f"{rule.__name__}: {type(error).__name__}: {error}")
        return None
