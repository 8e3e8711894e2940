"""Rung 6: whether the numbers that a run reports mean what they seem to."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from .._engine.assumptions import NotAskedError, draws_again, several_optimizers
from .._engine.events import Event, Forward, Mark, Step
from .._engine.evidence import Evidence
from .._engine.inspection import is_frozen
from .._engine.normalisation import norms_of
from .._engine.preserve import untouched
from .._engine.reference_parts import declared
from .finding import Finding

EARLY = 0.5  # of the run; a schedule that is through before has been stepped too often
NEVER = 0.2  # of the optimizer's rate; a schedule that stays below it multiplies by what is no factor
WAITS, ALMOST = 3, 1e-3  # values of a schedule that waits; relative, of the same number computed in other batches
OFF = 1e-4  # relative, of numbers that rounding alone parts


def between(events: list[Event], begin: str) -> list[list[Event]]:
    """The events of each epoch, or of each evaluation."""
    spans: list[list[Event]] = []
    open_ = False
    for event in events:
        if isinstance(event, Mark):
            open_ = event.name == begin
            if open_:
                spans.append([])
        elif open_:
            spans[-1].append(event)
    return spans


def validated_in_training_mode(evidence: Evidence) -> Finding | None:
    """G24: layers that know modes are in training mode while the program evaluates."""
    modal = evidence.run.recording.modal
    for events in between(evidence.run.recording.events, "evaluation"):
        wrong = [e for e in events if isinstance(e, Forward) and e.training and len(e.evaluating) < len(modal)]
        if modal and wrong:
            if again := draws_again(evidence.run.recording):
                raise NotAskedError(again)
            return Finding(
                "G24", f"{len(wrong)} validation batches in training mode; it matters for layer {modal[0]!r}"
            )
    return None


def trained_in_evaluation_mode(evidence: Evidence) -> Finding | None:
    """G25: layers that know modes are in evaluation mode while the program trains."""
    for number, events in enumerate(between(evidence.run.recording.events, "epoch"), 1):
        for event in events:
            if isinstance(event, Forward) and event.grad:
                meant, model = evidence.spec.eval_modules, evidence.program.model
                asleep = [name for name in event.evaluating if not (declared(name, meant) or is_frozen(model, name))]
                if asleep:
                    return Finding("G25", f"epoch {number} trained with layer {asleep[0]!r} in evaluation mode")
    return None


def validation_is_random(evidence: Evidence) -> Finding | None:
    """D30: two looks at the validation data differ."""
    first = evidence.val
    if first is None or evidence.spec.task is None:  # of a game the validation inputs may well be noise
        return None
    second = evidence._examples(evidence.program.val_loader, "validation, again")
    if second is None or (first.x.shape == second.x.shape and torch.equal(first.x, second.x)):
        with untouched(evidence.program):
            torch.manual_seed(12345)
            second = evidence._examples(evidence.program.val_loader, "validation, again")
    if second is None or (first.x.shape == second.x.shape and torch.equal(first.x, second.x)):
        return None
    if first.x.shape == second.x.shape and _same_rows(first.x, second.x):
        return None  # another order is no other data
    return Finding("D30", "the validation examples of two epochs differ")


def _same_rows(a: Tensor, b: Tensor) -> bool:
    rows = [sorted(row.numpy().tobytes() for row in x.reshape(len(x), -1)) for x in (a, b)]
    return rows[0] == rows[1]


def test_set_read(evidence: Evidence) -> Finding | None:
    """D24: the test loader is read during training or validation."""
    if not evidence.run.tested:
        return None
    return Finding("D24", f"{evidence.run.tested} test batches were read before the run had ended")


def depends_on_batch_size(evidence: Evidence) -> Finding | None:
    """G27: the program's evaluation gives other numbers for the same examples in other batches."""
    program, val = evidence.program, evidence.val
    if val is None or program.evaluate is None or len(val.y) < 20:
        return None
    if validated_in_training_mode(evidence) or validation_is_random(evidence):
        return None
    reports, draws = [], draws_again(evidence.run.recording)
    with untouched(program, evidence.seed):
        for size in (len(val.y), 7, max(2, len(val.y) - 3)):
            # A loader without a generator of its own would draw from the stream that is compared.
            program.val_loader = DataLoader(val.dataset(), size, generator=torch.Generator())
            torch.manual_seed(evidence.seed)
            before = torch.get_rng_state()
            reports.append(program.run_evaluation())
            if not torch.equal(before, torch.get_rng_state()):
                draws = "the evaluation draws random numbers, as Monte-Carlo dropout does: no two batches give the same"
    for name in reports[0]:
        values = [report.get(name, math.nan) for report in reports]
        if apart(values):
            if draws:
                raise NotAskedError(draws)
            return Finding(
                "G27",
                f"{name} is {values[0]:.4g} with all {len(val.y)} examples in one batch, {values[1]:.4g} in batches of "
                f"7, {values[2]:.4g} in a large and a small one",
                {"values": values},
            )
    return None


def apart(values: list[float]) -> bool:
    """Whether numbers differ by more than rounding does."""
    return max(values) - min(values) > OFF * max(max(map(abs, values)), 1e-9)


def schedule_misstepped(evidence: Evidence) -> Finding | None:
    """G30: a schedule moves after batches and was meant for epochs, or the other way round."""
    recording, epochs = evidence.run.recording, evidence.spec.epochs
    if text := several_optimizers(recording, evidence.spec):
        raise NotAskedError(text)
    rates = [
        [e.learning_rates[0] for e in events if isinstance(e, Step) and e.learning_rates]
        for events in between(recording.events, "epoch")
    ]
    rates = [epoch_rates for epoch_rates in rates if epoch_rates]
    if len(rates) < 2 or max(map(max, rates)) == min(map(min, rates)):
        return None
    within = sum(len(set(epoch_rates)) > 1 for epoch_rates in rates)
    across = sum(a[-1] != b[0] for a, b in itertools.pairwise(rates))
    wanted = evidence.spec.scheduler_steps
    if wanted == "epoch" and within:
        return Finding("G30", f"the rate changes within {within} of {len(rates)} epochs; declared: after each epoch")
    if wanted == "batch" and not within and across and max(map(len, rates)) > 1:
        return Finding("G30", "the rate changes between epochs only; declared: after each batch")
    horizon = _horizon(evidence.program.scheduler)
    calls = getattr(evidence.program.scheduler, "_step_count", 0)
    flat = [rate for epoch_rates in rates for rate in epoch_rates]
    if epochs and horizon and len(rates) == epochs:
        steps = len(flat)
        if horizon == epochs and within and steps > 2 * epochs:
            return Finding("G30", f"a schedule of {horizon} epochs is stepped after each batch: {steps} times")
        if horizon >= 0.9 * steps > 2 * epochs and not within:
            return Finding("G30", f"a schedule of {horizon} steps is stepped once an epoch: {calls or epochs} times")
    top = max(flat)
    late = flat[int(EARLY * len(flat)) :]
    if max(late) < 0.001 * top:
        return Finding("G30", f"from half of the run on the rate is below {max(late):.2g}, of {top:.2g} at most")
    return None


def rate_never_reached(evidence: Evidence) -> Finding | None:
    """The schedule keeps the rate far below the one that it multiplies for the whole run, as where a factor is a rate.

    PyTorch's schedules note the rate that they multiply as `initial_lr`; those that set a rate of their own note that.
    """
    recording, optimizers = evidence.run.recording, evidence.program.optimizers
    if text := several_optimizers(recording, evidence.spec):
        raise NotAskedError(text)
    used = [max(step.learning_rates) for step in recording.of(Step) if step.learning_rates]
    given = max(
        (float(group.get("initial_lr", 0.0)) for each in optimizers for group in each.param_groups), default=0.0
    )
    if not used or max(used) > NEVER * given:
        return None
    rising = used[-1] == max(used)
    if rising and not evidence.spec.epochs:  # a longer run than the recorded one may be meant
        return None
    text = f"the optimizer was given the rate {given:.2g}, and the schedule never sets more than {max(used):.2g}"
    if rising:
        text += ", in the last step: is its warm-up longer than the run?"
    return Finding(None, text, {"given": given, "largest": max(used)}, where="schedule")


def waits_for_the_worse(evidence: Evidence) -> Finding | None:
    """A schedule that waits for a plateau takes a loss for a number that is to rise, or a metric for one to fall."""
    scheduler, values = evidence.program.scheduler, list[float]()
    if not isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        return None
    own: list[tuple[float, float]] = []
    step = scheduler.step

    def note(metrics: Any, *more: Any) -> None:
        values.append(float(metrics))
        own.append(evidence.measure(evidence.val)[:2])
        step(metrics, *more)

    with untouched(evidence.program, evidence.seed) as program:
        scheduler.step = note  # type: ignore[assignment, method-assign]
        try:
            for _ in range(WAITS):
                program.run_epoch()
        finally:
            del scheduler.step
    wrong = 1 if scheduler.mode == "min" else 0
    names = ("validation's loss", "rises"), ("the metric", "falls")
    pairs = [(value, measured[wrong], measured[1 - wrong]) for value, measured in zip(values, own, strict=True)]
    if len(pairs) < WAITS or any(math.isclose(a, other, rel_tol=ALMOST) for a, _, other in pairs):
        return None
    if not all(math.isclose(a, b, rel_tol=ALMOST) for a, b, _ in pairs):
        return None
    name, better = names[wrong]
    text = (
        f"the schedule is given {name} ({values[0]:.3g}, {values[1]:.3g} …) and, with mode={scheduler.mode!r}, takes it"
    )
    return Finding(None, f"{text} for better when it {better}", {"values": values}, where="schedule")


def _horizon(scheduler: object) -> int | None:
    for name in ("total_steps", "T_max", "total_iters"):
        value = getattr(scheduler, name, None)
        if isinstance(value, int) and value > 1:
            return value
    return None


def statistics_of_normalisation(evidence: Evidence) -> Finding | None:
    """P17: after training, training batches are good in training mode and bad in evaluation mode."""
    if any(norm.running_mean is None for norm in norms_of(evidence.program.model)):
        return Finding("P17", "track_running_stats is False: validation depends on which examples share a batch")
    # None is a mean over all batches, which forgets nothing.
    momenta = [norm.momentum for norm in norms_of(evidence.program.model) if norm.momentum is not None]
    train = evidence.train
    if train is not None and max(momenta, default=0.0) > 0.5 and 2 * train.batch_size < len(train.x):
        text = f"momentum is {max(momenta):g}: validation uses little but the statistics of the last batch"
        return Finding("P17", f"{text} of {train.batch_size}; PyTorch's momentum is the share of the new batch")
    bad, good = evidence.run.statistics
    constant = evidence.constant_loss
    if not (0 < good < 0.7 * constant and bad > 1.5 * good and bad - good > 0.1 * constant):
        return None
    text = f"in evaluation mode the loss on training examples is {bad:.3g}; with statistics taken anew {good:.3g}"
    where = ""
    if evidence.run.evaluates_a_copy:
        text += "; no training batch reached the layers that are evaluated: are they a copy made without its buffers?"
        where = "step"
    return Finding("P17", text, {"as_is": bad, "recomputed": good}, where=where)


def resumed_run_differs(evidence: Evidence) -> Finding | None:
    """G32: a step after save and load is another step than without.

    In which order the examples come afterwards is left open: few programs store it, and a new order does no harm.
    """
    program, train = evidence.program, evidence.train
    if program.save is None or program.load is None or train is None or program.train_loader is None:
        return None
    import copy

    batch = DataLoader(train.part(slice(0, 32)).dataset(), 32)

    def one_step() -> dict[str, Tensor]:
        program.train_loader = batch
        program.run_epoch()
        return {name: value.detach().clone() for name, value in program.model.state_dict().items()}

    with untouched(program, evidence.seed):
        program.run_epoch()
        # A copy: what is saved may hold the very tensors that the next step changes.
        saved = copy.deepcopy(program.save(program))
        stream = torch.get_rng_state()
        rates = [group["lr"] for optimizer in program.optimizers for group in optimizer.param_groups]
        straight = one_step()
    with untouched(program, evidence.seed + 1):
        program.load(program, saved)
        loaded = [group["lr"] for optimizer in program.optimizers for group in optimizer.param_groups]
        torch.set_rng_state(stream)
        resumed = one_step()
    off = [name for name, value in straight.items() if not torch.equal(value, resumed[name])]
    if not off and rates == loaded:
        return None
    text = f"the rate is {loaded[0]:g} in place of {rates[0]:g}" if rates != loaded else f"{off[0]} differs"
    return Finding("G32", f"one step after resuming, {text} from the run that was not stopped")


EVALUATION_RULES = (
    validated_in_training_mode,
    trained_in_evaluation_mode,
    validation_is_random,
    test_set_read,
    depends_on_batch_size,
    statistics_of_normalisation,
    resumed_run_differs,
)
