"""What rules take for granted about a program; where it does not hold they are not asked, and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from statistics import median
from typing import Any

from torch import Tensor

from ..faults.finding import Finding
from ..program import Spec
from .events import Batch, Forward, Mark, Recording, Step
from .inspection import fingerprints

Rule = Callable[[Recording, Spec], Finding | None]
EQUAL = 0.02  # relative; what rounding leaves of a gradient in bfloat16, which has three digits
SMALLEST = 12  # pixels on a side; in smaller pictures the matter reaches the margin
NO_PICTURES = f"inputs {{}} are not surely pictures: 1, 3 or 4 channels of {SMALLEST} pixels or more on each side"
SPENT = "the budget is used up"


class NotAskedError(Exception):
    """A rule does not model this program. The text says what about the program is the reason."""


def assumes(*reasons: Callable[[Recording, Spec], str]) -> Callable[[Rule], Rule]:
    """Ask a rule only where none of the reasons against it, each a text or '', is there."""

    def of(rule: Rule) -> Rule:
        @wraps(rule)
        def ask(recording: Recording, spec: Spec) -> Finding | None:
            for reason in reasons:
                if text := reason(recording, spec):
                    raise NotAskedError(text)
            return rule(recording, spec)

        return ask

    return of


def several_optimizers(recording: Recording, spec: Spec) -> str:
    """Players of a game and parts that learn in turns: whose gradient a backward pass is for is not known."""
    count = recording.optimizers
    return f"the program has {count} optimizers, and this is asked of programs with one" if count > 1 else ""


def closures(recording: Recording, spec: Spec) -> str:
    """The gradient is computed after the step has begun, and perhaps several times."""
    if not any(step.closure for step in recording.of(Step)):
        return ""
    return "the optimizer's step gets a closure (as with L-BFGS) and runs the model itself, out of sight"


def unseen_updates(recording: Recording, spec: Spec) -> str:
    """Weights that move although no optimizer that is known has stepped."""
    if recording.of(Step):
        return ""
    if not recording.optimizers:
        return "no optimizer was given, so the program's updates are not seen"
    return "weights change without a call of the optimizer's step(), which is not seen" if recording.moved else ""


def several_passes(recording: Recording, spec: Spec) -> str:
    """Sharpness-aware steps and the like: the step's gradient is that of one pass of several over the same batch."""
    steps = recording.of(Step)
    passes = median([step.backwards for step in steps]) if steps else 0
    batches = batches_of_steps(recording)
    if passes < 2 * spec.accumulate or not batches or passes < 2 * median(batches):
        return ""
    apart = [step.residual > EQUAL for step in steps if step.residual == step.residual]
    if not apart or sum(apart) < 0.5 * len(apart):
        return ""
    return f"{passes:g} backward passes go before each step (as with SAM), and the step's gradient is not their sum"


def batches_of_steps(recording: Recording) -> list[int]:
    """How many batches go before each step: of the loader, or of different inputs where no loader was watched."""
    counts: list[int] = []
    rows: list[Any] = []
    watched, fed = bool(recording.of(Batch)), iter(_fed(recording, True))
    for event in recording.events:
        if isinstance(event, Batch):
            rows.append(event.rows)
        elif isinstance(event, Forward) and event.grad and not watched:
            inputs = next(fed, None)
            if inputs is None:  # inputs are kept for the first calls only
                break
            rows.append(inputs)
        elif isinstance(event, Step) and event.optimizer == 0:
            counts.append(len(rows) if watched else len(set(rows)))
            rows = []
    return counts


def draws_again(recording: Recording) -> str:
    """An evaluation that gives the model the same inputs several times, to average what it draws."""
    inside, last, fed = False, None, iter(_fed(recording, False))
    for event in recording.events:
        if isinstance(event, Mark):
            inside, last = event.name == "evaluation", None
        elif isinstance(event, Forward) and not event.grad:
            inputs = next(fed, None)
            if inside and inputs and (inputs == last or len(inputs) >= 2 * len(set(inputs))):
                return "the evaluation gives the model the same inputs several times, as Monte-Carlo dropout does"
            last = inputs
    return ""


def _fed(recording: Recording, grad: bool) -> list[tuple[int, ...]]:
    return [fingerprints(inputs) if inputs.ndim else () for inputs in recording.fed[grad]]


def classes_second(outputs: Tensor, targets: Tensor, loss_inputs: Sequence[Tensor]) -> None:
    """Raise `NotAskedError` where the classes of outputs may be on another axis than the second.

    Args:
        outputs: of the model.
        targets: class numbers for them, an axis less.
        loss_inputs: outputs as the losses got them: in PyTorch's own losses the second axis holds the classes.

    """
    shape = outputs.shape
    if targets.is_floating_point() or outputs.ndim != targets.ndim + 1 or outputs.ndim == 2:
        return
    if shape[:-1] == targets.shape and not any(tensor.shape[1:] == shape[1:] for tensor in loss_inputs):
        raise NotAskedError(
            f"outputs {list(shape)} for targets {list(targets.shape)}: the last axis may hold the classes"
        )


def picture(shape: Sequence[int]) -> bool:
    """Whether inputs of this shape, without the batch, are surely pictures [C, H, W] with something around the matter.

    Series [T, 3], boards of 8 x 8 and rows of numbers are none.
    """
    return len(shape) == 3 and shape[0] in (1, 3, 4) and min(shape[1:]) >= SMALLEST
