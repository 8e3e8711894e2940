"""What a replacement of one part is, and what is known of the program that it is tried in."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..program import Program, Spec
from .assumptions import NotAskedError
from .changes import Change
from .run_data import Examples


@dataclass(frozen=True)
class Replacement:
    """One part of a program replaced by a good one.

    Attributes:
        part: one of PARTS.
        description: what is put there, in words: "trained with ...".
        change: replaces it for a while, and raises NotInUseError at its end if the program went around it. What it
            gives as a context, if anything, is called between training and evaluation.
        general: it changes much at once, so that a gain does not say that the part is faulty.
        fault: the name of what is mended where the replacement leaves no doubt; None where a gain tells the part only.

    """

    part: str
    description: str
    change: Change
    general: bool = False
    fault: str | None = None


class NotInUseError(NotAskedError):
    """What was put into a program was never used: the program keeps its own elsewhere."""


@dataclass(frozen=True)
class Profile:
    """What a run of the program as it is has shown.

    Attributes:
        program: new, untrained.
        spec: of it.
        train, val: its examples; None where they cannot be read.
        outputs: the model's, for some training examples.
        rates: largest rate of each parameter group of each optimizer.
        rates_changed: whether rates changed within the run.
        rate_curve: the largest rate of each step of the first optimizer.
        random: whether the same examples give other outputs each time, in evaluation mode.
        called: names of PyTorch's functions that were called in training.

    """

    program: Program
    spec: Spec
    train: Examples | None
    val: Examples | None
    outputs: Tensor | None
    rates: list[list[float]]
    rates_changed: bool
    rate_curve: list[float]
    random: bool
    called: frozenset[str]

    @property
    def body_was_trained(self) -> bool:
        """Whether later layers learn faster than earlier ones, as is usual on top of a body that was trained before."""
        groups = [group for optimizer in self.program.optimizers for group in optimizer.param_groups]
        own = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
        rates = [own[id(parameter)] for parameter in self.program.model.parameters() if id(parameter) in own]
        return len(set(rates)) > 1 and rates == sorted(rates)
