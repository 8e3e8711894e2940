"""Rules about the training loop: in what order things happen, and which gradient the optimizer sees.

All but one are functions of the recording and the spec alone. `EQUAL` is what rounding leaves of an identity.
"""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

import torch
from torch.utils.data import DataLoader

from .._engine.assumptions import (
    EQUAL,
    NotAskedError,
    Rule,
    assumes,
    batches_of_steps,
    closures,
    several_optimizers,
    several_passes,
    unseen_updates,
)
from .._engine.events import Backward, Batch, Event, Forward, Mark, Recording, Step
from .._engine.evidence import Evidence
from .._engine.inspection import fingerprints
from .._engine.preserve import untouched
from ..program import Spec
from .finding import Finding

UNDERFLOW = 0.005  # of the entries of a gradient
HARDLY = 0.1  # of the examples in a whole run; balancing the rarest classes leaves more
ASKED = 200  # examples of the data set that are looked up among those that were drawn
LEAST_SHARE = 0.5  # of the examples must reach the model in an epoch; drawing with replacement reaches 63 %


def looked(recording: Recording) -> list[Step]:
    """Steps whose gradient was compared."""
    return [step for step in recording.of(Step) if not math.isnan(step.norm)]


def no_backward(recording: Recording, spec: Spec) -> Finding | None:
    """G04: batches go by, and no backward pass."""
    backwards = recording.of(Backward)
    arrives = any(step.norm > 0 for step in looked(recording))
    if backwards and not arrives and not any(backward.kept for backward in backwards):
        return Finding("G04", "gradients are computed, and never reach .grad, where the optimizer looks for them")
    if backwards or not any(event.grad for event in recording.of(Forward)):
        return None
    if arrives:
        raise NotAskedError("gradients reach the optimizer in a way that is not seen (not backward, not autograd.grad)")
    return Finding("G04", f"{len(recording.of(Forward))} forward passes, no backward")


@assumes(unseen_updates)
def no_step(recording: Recording, spec: Spec) -> Finding | None:
    """G03: backward passes, and no step."""
    backwards = len(recording.of(Backward))
    if recording.of(Step) or backwards < 2 * spec.accumulate:
        return None
    return Finding("G03", f"{backwards} backward passes, no step of the optimizer")


@assumes(several_optimizers, closures, several_passes)
def step_before_backward(recording: Recording, spec: Spec) -> Finding | None:
    """G05: at each step a forward pass still waits for its backward."""
    steps = recording.of(Step)
    early = sum(step.waiting for step in steps)
    # Not of this batch, and wholly of the batch before.
    late = [step for step in looked(recording) if step.residual > EQUAL and step.stale < EQUAL]
    if len(late) > 2 and len(late) >= 0.8 * sum(step.residual > EQUAL for step in looked(recording)):
        return Finding("G05", f"in {len(late)} steps the gradient was that of the batch before")
    if not recording.of(Backward) or early < 0.9 * max(len(steps), 1):
        return None
    return Finding("G05", f"{early} of {len(steps)} steps came between a forward pass and its backward")


@assumes(closures)
def gradients_cleared_before_the_step(recording: Recording, spec: Spec) -> Finding | None:
    """G02: backward gave a gradient and the optimizer sees none."""
    steps = [step for step in looked(recording) if step.fresh > 0 and not step.waiting]
    empty = [step for step in steps if step.norm == 0]
    if len(steps) < 2 or len(empty) < 0.9 * len(steps):
        return None
    return Finding("G02", f"backward gave a gradient of norm {empty[0].fresh:.3g}, the step saw none")


@assumes(several_optimizers, closures, several_passes)
def gradients_never_cleared(recording: Recording, spec: Spec) -> Finding | None:
    """G01: the gradient is the last one plus the fresh one."""
    steps = [step for step in looked(recording) if not math.isnan(step.added)]
    stale = [step for step in steps if step.residual > EQUAL and step.added < EQUAL]
    if len(steps) < 2 or len(stale) < 0.8 * len(steps):
        return None
    worst = max(stale, key=lambda step: step.residual)
    return Finding(
        "G01",
        f"in {len(stale)} of {len(steps)} steps the gradient was that of the step before plus the fresh one; "
        f"{worst.residual:.0%} of it was not of this batch",
        {"residual": worst.residual},
    )


@assumes(several_optimizers, closures)
def steps_after_other_batches_than_declared(recording: Recording, spec: Spec) -> Finding | None:
    """G06: more batches for each step than declared, or fewer."""
    passes = _passes_of_steps(recording)
    parts = _parts_of_steps(recording)
    if spec.accumulate > 1 and parts and (fewer := median(parts)) < spec.accumulate:
        return Finding("G06", f"{fewer:g} batches for each step; declared: {spec.accumulate}", {"batches": fewer})
    # Where a loader was read ahead it is not known which batches a step is for; then its backward passes count.
    pairs = list(zip(batches_of_steps(recording), passes, strict=False))
    if recording.of(Batch):
        counts = [batches or backwards for batches, backwards in pairs]
    else:
        counts = [min(pair) for pair in pairs] or passes
    if not counts or median(counts) < 2 * spec.accumulate:
        return None
    usual = median(counts)
    text = f"{usual:g} batches for each step; declared: {spec.accumulate}"
    # Without a loader, two passes may as well be two losses.
    return Finding("G06", text, {"batches": usual}, certain=bool(recording.of(Batch)))


def _parts_of_steps(recording: Recording) -> list[int]:
    """Of how many parts each step's gradient can be made at most: batches, calls of the model or backward passes.

    The last step of an epoch may be for what is left over, and is not counted.
    """
    counts: list[int] = []
    counted = Counter[type[Event]]()
    before = 0  # how many were counted when the epoch began
    for event in recording.events:
        if isinstance(event, Mark) and event.name == "end of epoch":
            del counts[max(before, len(counts) - 1) :]
            before = len(counts)
        elif isinstance(event, Step):
            counts.append(max(counted[Batch], counted[Forward], counted[Backward], event.backwards))
            counted.clear()
        elif not isinstance(event, Forward) or event.grad:
            counted[type(event)] += 1
    return counts


def _passes_of_steps(recording: Recording) -> list[int]:
    """How many backward passes go before each step; where some fill `.grad`, those: others are parts of a loss."""
    counts, filling = [], 0
    for event in recording.events:
        if isinstance(event, Backward):
            filling += event.kept
        elif isinstance(event, Step):
            counts.append(filling or event.backwards)
            filling = 0
    return counts


@assumes(several_optimizers, closures, several_passes)
def accumulated_not_divided(recording: Recording, spec: Spec) -> Finding | None:
    """G07: the gradient of a window is the sum of its micro-batches' mean losses, not their mean."""
    if spec.accumulate < 2:
        return None
    backwards = [backward for backward in recording.of(Backward) if backward.residual < EQUAL]
    steps = [step for step in looked(recording) if step.residual < EQUAL]
    if not backwards or not steps:
        return None
    losses = median(backward.losses for backward in backwards) * median(step.backwards for step in steps)
    share = median(backward.scale for backward in backwards) * median(step.scale for step in steps)
    if losses != spec.accumulate or abs(share - 1) > EQUAL:
        return None
    times = share * spec.accumulate
    return Finding(
        "G07", f"the gradient is {times:.2f} times that of the mean over {spec.accumulate} micro-batches", {"c": times}
    )


@assumes(several_optimizers, closures)
def micro_batches_left_over(recording: Recording, spec: Spec) -> Finding | None:
    """G10: an epoch ends with micro-batches that took part in no step."""
    backwards = batches = examples = most = 0
    for event in recording.events:
        if isinstance(event, Backward):
            backwards += 1
        elif isinstance(event, Batch):
            batches, examples = batches + 1, examples + len(event.rows)
        elif isinstance(event, Step):
            backwards = batches = 0
        elif isinstance(event, Mark) and event.name == "end of epoch":
            unseen = bool(spec.examples) and 0 < examples < 0.999 * (spec.examples or 0)
            most = max(most, backwards, batches, int(unseen))
            backwards = batches = examples = 0
    if not recording.of(Step) or not most or spec.accumulate < 2:
        return None
    return Finding("G10", "micro-batches at the end of an epoch took part in no step of it", {"left": most})


@assumes(several_optimizers, closures)
def wrong_sign(recording: Recording, spec: Spec) -> Finding | None:
    """G18: the optimizer follows the loss upwards."""
    backwards = [backward.scale for backward in recording.of(Backward) if backward.residual < EQUAL]
    steps = [step.scale for step in looked(recording) if step.residual < EQUAL]
    if not backwards or not steps:
        return None
    sign = median(backwards) * median(steps) * (-1 if recording.maximised else 1)
    if sign > 0:
        return None
    how = "maximize=True" if recording.maximised else f"the gradient is {sign:.2g} times that of the loss"
    return Finding("G18", how, {"scale": sign})


@assumes(several_optimizers, closures, several_passes)
def clipping_without_effect(recording: Recording, spec: Spec) -> Finding | None:
    """G14: clipping is declared, and a gradient above the limit arrives as it was."""
    if any("no gradient clipping will occur" in text for text in recording.warnings):
        return Finding("G14", "PyTorch warned: the list of parameters to clip was empty")
    if spec.max_norm is None:
        return None
    above = [step.norm for step in looked(recording) if step.norm > 1.01 * spec.max_norm and step.residual < EQUAL]
    if not above:
        return None
    return Finding(
        "G14",
        f"declared is a norm of at most {spec.max_norm:g}; a step saw {max(above):.3g}",
        {"norm": max(above), "max_norm": spec.max_norm},
    )


def float16_without_scaling(recording: Recording, spec: Spec) -> Finding | None:
    """G17: entries of the gradient are 0 only because float16 has no smaller numbers."""
    backwards = recording.of(Backward)
    lost = [backward.underflow for backward in backwards if not math.isnan(backward.underflow)]
    # A gradient that has lost most of its entries is far from the fresh one for that reason.
    plain = [backward.scale for backward in backwards if backward.residual < 0.2 or backward.underflow > 0.2]
    if not lost or not plain or median(plain) > 2 or median(lost) < UNDERFLOW:
        return None
    return Finding(
        "G17", f"{median(lost):.1%} of the gradient's entries round to 0 in float16", {"share": median(lost)}
    )


def part_of_the_data(recording: Recording, spec: Spec) -> Finding | None:
    """D34: an epoch brings only a part of the examples to the model."""
    epochs: list[set[int]] = [set()]
    for event in recording.events:
        if isinstance(event, Mark) and event.name == "epoch":
            epochs.append(set())
        elif isinstance(event, Batch):
            epochs[-1].update(event.rows)
    count = max(map(len, epochs))
    fed = [fingerprints(inputs) for inputs in recording.fed[True] if inputs.ndim]
    again = closures(recording, spec) or several_passes(recording, spec)  # then one batch is seen many times in a row
    same = len(fed) > 2 and all(rows == fed[0] for rows in fed)
    if not again and same and spec.examples and spec.examples > 2 * len(fed[0]):
        return Finding("D34", f"{len(fed)} steps in a row saw the same {len(fed[0])} examples")
    if not spec.examples or not count or count >= LEAST_SHARE * spec.examples:
        return None
    numbers = {"seen": count, "of": spec.examples}
    return Finding("D34", f"{count} different examples in an epoch, of {spec.examples}", numbers)


def hardly_any_examples(evidence: Evidence) -> Finding | None:
    """D34: as many examples were drawn as there are, or more, and nearly always the same few.

    Inputs that are equal cannot be counted apart, so most of the data set must be other than what was drawn.
    """
    drawn = Counter(row for batch in evidence.run.recording.of(Batch) for row in batch.rows)
    count, loader = evidence.examples, evidence.program.train_loader
    if not count or drawn.total() < count or len(drawn) >= HARDLY * count or not isinstance(loader, DataLoader):
        return None
    size = len(loader.dataset)  # type: ignore[arg-type]  # a rule whose question fails is not asked
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:ASKED].tolist()
    with untouched(evidence.program, evidence.seed):
        batch = next(iter(DataLoader(loader.dataset, len(rows), sampler=rows, collate_fn=loader.collate_fn)))
        inputs = evidence.program.parts(batch)[0]
    if not isinstance(inputs, torch.Tensor) or sum(row in drawn for row in fingerprints(inputs)) > len(rows) / 2:
        return None
    text = f"{drawn.total()} examples were drawn, {len(drawn)} different ones of {count}"
    return Finding("D34", text, {"seen": len(drawn), "of": count}, where="inputs")


LOOP_RULES: tuple[Rule, ...] = (
    no_backward,
    no_step,
    step_before_backward,
    gradients_cleared_before_the_step,
    gradients_never_cleared,
    steps_after_other_batches_than_declared,
    accumulated_not_divided,
    micro_batches_left_over,
    wrong_sign,
    clipping_without_effect,
    float16_without_scaling,
    part_of_the_data,
)
