"""What a shift report says, the responses, and the picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._common.palette import BLUE, INK, ORANGE, VERMILION
from .._common.plotting import figure_and_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The smallest effect that is reported, and the effect where there is no shift.
FLOORS = {"covariate": 0.6, "label": 0.1, "concept": 0.15, "temporal": 0.2}
NOTHING = {"covariate": 0.5, "label": 0.0, "concept": 0.0, "temporal": 0.0}
RESPONSES = {
    "covariate": (
        "Inputs look different, inside the classes too. Find out what changed (device, place, preprocessing), collect "
        "or augment training data for it, or reweight training examples; report results for old and new inputs apart."
    ),
    "label": (
        "The classes' shares changed, each class looks as before. Reweight by the new shares or correct predicted "
        "probabilities with them, choose the threshold again, and report a metric for each class."
    ),
    "concept": (
        "Alike inputs have other labels than before. Reweighting does not help: check the labelling rules, label "
        "fresh data and train again on it."
    ),
    "temporal": (
        "Data drift with time. Split chronologically, weight recent data more, plan when to train again and watch "
        "the metric over time."
    ),
}
LIMITS = (
    "Examples count as independent: with few patients or devices their own look is a covariate shift, and its p "
    "value is too small.",
    "Concept shift is looked for where training has inputs like those of validation, and as far as a small kernel "
    "classifier predicts labels from these inputs; features of a network show more than pixels.",
    "A shift that leaves means, spreads and each single input as they were is not seen.",
)


@dataclass(frozen=True)
class Shift:
    """The answer for one kind of shift.

    Attributes:
        kind: 'covariate', 'label', 'concept' or 'temporal'.
        found: True, False, or None when this cannot be told.
        effect: covariate: AUC of telling the parts apart; label: Cramér's V; concept: by how many nats labels are
            more surprising than expected; temporal: rank correlation with time. None when it was not measured.
        p_value: of such an effect without a shift; None when not tested.
        evidence: what was seen, or why nothing can be said.
        response: what to do; empty when nothing was found.

    """

    kind: str
    found: bool | None
    effect: float | None
    p_value: float | None
    evidence: str
    response: str


@dataclass(frozen=True)
class ShiftReport:
    """The four kinds, and which one explains what was seen.

    Attributes:
        shifts: covariate, label, concept, temporal, in this order.
        primary: the kind to act on first; None when nothing was found.
        features: (number, KS distance, p value after Holm) of inputs that differ, largest distance first; named
            when there is covariate shift.
        limits: what this report cannot tell.

    """

    shifts: tuple[Shift, ...]
    primary: str | None
    features: tuple[tuple[int, float, float], ...]
    limits: tuple[str, ...] = LIMITS

    def __getitem__(self, kind: str) -> Shift:
        """The answer for a kind."""
        return {shift.kind: shift for shift in self.shifts}[kind]

    def __str__(self) -> str:
        answers = {True: "found", False: "not found", None: "cannot tell"}
        lines = []
        for shift in self.shifts:
            lines.append(f"{shift.kind:10} {answers[shift.found]:12} {shift.evidence}")
            if shift.response:
                lines.append(f"  {shift.response}")
        lines.append(f"act first on: {self.primary}" if self.primary else "nothing to act on")
        return "\n".join([*lines, *(f"- {limit}" for limit in self.limits)])

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw each kind's effect beside the smallest that is reported.

        Args:
            ax: where; default: a new figure.

        Returns:
            The figure.

        """
        figure, ax = figure_and_axes(ax, (6.4, 3.2))
        looks = {True: ("found", VERMILION, ""), False: ("not found", BLUE, "//"), None: ("cannot tell", ORANGE, "..")}
        for place, shift in enumerate(reversed(self.shifts)):
            nothing, (word, color, hatch) = NOTHING[shift.kind], looks[shift.found]
            above = 0.0 if shift.effect is None else abs(shift.effect) - nothing
            length = max(0.0, above) / (FLOORS[shift.kind] - nothing)
            ax.barh(place, length, color=color, hatch=hatch, edgecolor="white")
            size = "" if shift.effect is None else f" ({shift.effect:.2f})"
            ax.text(length + 0.05, place, word + size, va="center", fontsize="small")
        ax.axvline(1, color=INK, linestyle="--", linewidth=1)
        ax.set_yticks(range(len(self.shifts)), [shift.kind for shift in reversed(self.shifts)])
        ax.set_xlim(0, 1.5 * ax.get_xlim()[1] + 1)
        ax.set_xlabel("effect (multiples of the smallest that is reported)")
        return figure
