"""What a rule says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .catalogue import FAULTS
from .fault import RUNGS_OF_PARTS, Fault

HOW = {
    "violation": "Something is unequal there that is equal in every sound program, whatever the data.",
    "swap": "With this part replaced, and nothing else, the same training goes clearly better.",
    "difference": "It differs from what is usual by more than chance; it may be meant.",
}
REPORTED = 6  # the rung of the numbers that a run reports: a symptom is one of them


@dataclass(frozen=True)
class Finding:
    """A fault, and what shows it.

    Attributes:
        fault: a key of `FAULTS`; None where the part is known and no name fits.
        evidence: what was observed, in words with numbers.
        data: the same as plain data.
        certain: whether it rests on an identity; otherwise on a comparison of runs or samples.
        where: the part that the evidence points to, one of PARTS; default: the likelier one of the fault. Of a symptom
            the part to look at first; '' where nothing says which.
        symptom: what is not as it should be and is explained by nothing, in a few words; '' for other findings.
        tried: what was tried to explain a symptom, as a sentence.
        look: where to look for its cause, as a sentence.

    """

    fault: str | None
    evidence: str
    data: dict[str, Any] = field(default_factory=dict)
    certain: bool = True
    where: str = ""
    symptom: str = ""
    tried: str = ""
    look: str = ""

    def __post_init__(self) -> None:
        if self.symptom and self.certain:
            raise ValueError(f"'{self.symptom}' is a symptom, and never certain: pass certain=False")

    @property
    def kind(self) -> str:
        """What it rests on.

        'violation': of an identity, or of what the spec declares. 'swap': the same training with one part replaced goes
        better. 'difference': samples, or parts of the data, differ by more than chance. 'symptom': a number is not what
        it should be, and nothing explains it.
        """
        if self.symptom:
            return "symptom"
        if self.certain:
            return "violation"
        return "swap" if "gain" in self.data else "difference"

    @property
    def _about(self) -> Fault:
        if self.fault is not None:
            return FAULTS[self.fault]
        part = self.where
        if self.symptom:
            return Fault(REPORTED, self.parts, self.symptom, self.tried, self.look)
        title, remedy = f"something is wrong with the {part}", f"Compare the {part} with what the evidence put there."
        return Fault(RUNGS_OF_PARTS[part], (part,), title, HOW[self.kind], remedy)

    @property
    def parts(self) -> tuple[str, ...]:
        """The one or two parts in which it can lie, the likelier first; none where a symptom does not say."""
        if self.symptom:
            return (self.where,) if self.where else ()
        return self._about.parts

    @property
    def part(self) -> str:
        """The part of the program in which it lies, one of PARTS; '' for a symptom that points to none."""
        return self.where or (self.parts[0] if self.parts else "")

    @property
    def rung(self) -> int:
        """The rung that shows it, 1 to 7."""
        return self._about.rung

    @property
    def title(self) -> str:
        """The fault's name, or that it has none."""
        return f"something is wrong; cause unknown: {self._about.title}" if self.symptom else self._about.title

    @property
    def meaning(self) -> str:
        """What happens in such a program."""
        return self._about.meaning

    @property
    def remedy(self) -> str:
        """What to do."""
        return self._about.remedy

    def __str__(self) -> str:
        place = ", ".join(filter(None, [self.fault, f"rung {self.rung}", self.part]))
        head = f"{self.title} ({place})"
        return f"{head}: {self.evidence}\n  {self.meaning}\n  {self.remedy}"
