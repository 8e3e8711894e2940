"""Rung 6: a number that is reported under the name of a well-known metric is to be that metric."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._engine.assumptions import NotAskedError, draws_again
from .._engine.evidence import Evidence
from .._engine.inspection import WatchedLoader
from .._engine.preserve import untouched
from .._engine.run_data import counted
from .._engine.yardstick import area
from ..program import Spec
from .finding import Finding
from .loss_probes import shifts_labels
from .metric_rules import LEAST, answers, metric_counts_what_is_left_out

Pair = tuple[float, Sequence[float]]
"""A number that is reported, and what it may be by its name."""
Batches = Sequence[tuple[Tensor, Tensor]]
"""Outputs and targets, batch by batch."""

SAME = 1e-3  # relative; what halves of the examples may differ from the whole if a loss is a mean over examples
OTHERWISE = 0.01  # relative difference between what is reported and what its name says
ACCURACY = re.compile(r"(acc|accuracy)")
DISTINCT = 0.95  # share of scores that are different numbers
ERRORS = ("mse", "rmse", "mae")
OTHER_WEIGHTS = 0.5  # times the untrained ones: a second set of outputs
TINY = 1e-6  # a number that is 0 by definition may be reported so
R_SQUARED = re.compile(r"(r2|r\u00b2|r_?squared|r2_?score)")
AREA = re.compile(r"(roc_?)?auc(_?roc)?|auroc|area_under_(the_)?(roc_)?curve")
BEFORE = re.compile(r"^(val|valid|validation|compute|token|pixel)[ _]")


def reports_otherwise(evidence: Evidence) -> Finding | None:
    """The author's evaluation reports another number than its name says, of the very outputs that it gets."""
    program, val = evidence.program, evidence.val
    if program.evaluate is None or val is None or len(val.y) < LEAST:
        return None
    if reason := draws_again(evidence.run.recording):
        raise NotAskedError(reason)
    with untouched(program, evidence.seed):
        differing = {name: pair for name, pair in _reported(evidence).items() if _differs(*pair)}
        again: dict[str, Pair] = {}
        if any(_plain(name) in ERRORS for name in differing):
            with torch.no_grad():
                for parameter in program.model.parameters():
                    parameter.mul_(OTHER_WEIGHTS)
            again = _reported(evidence)
    for name, pair in differing.items():
        text = f"of an untrained model '{name}' is reported as {{:.4g}}; by definition it is {{:.4g}}"
        if finding := _first_that_differs(name, [pair, *filter(None, [again.get(name)])], text):
            return finding
    return None


def _reported(evidence: Evidence) -> dict[str, Pair]:
    """What the author's evaluation reports, by name, and what it is by definition of the outputs that it gets."""
    program = evidence.program
    outputs: list[Tensor] = []
    targets: list[Tensor] = []
    losses: list[bool] = []
    own, loader = program.loss_fn, program.val_loader
    if own is not None:
        program.loss_fn = lambda *arguments: (losses.append(True), own(*arguments))[1]  # type: ignore[func-returns-value]
    program.val_loader = WatchedLoader(loader or (), lambda batch: targets.append(program.parts(batch)[1]))

    def keep(module: object, args: object, output: object) -> None:
        outputs.extend([output.detach().cpu()] if isinstance(output, Tensor) else [])

    handle = program.model.register_forward_hook(keep)
    try:
        reported = program.run_evaluation()
    finally:
        handle.remove()
        program.loss_fn, program.val_loader = own, loader
    if [*map(len, outputs)] != [*map(len, targets)]:
        raise NotAskedError("the evaluation does not give each validation batch to the model once")
    batches = [(answer, y.cpu()) for answer, y in zip(outputs, targets, strict=True)]
    is_own_loss = {name: _plain(name) == "loss" and len(losses) == len(outputs) for name in reported}
    return {
        name: (value, _mean_loss(batches, evidence) if is_own_loss[name] else readings(name, batches, evidence))
        for name, value in reported.items()
    }


def metric_is_another(evidence: Evidence) -> Finding | None:
    """The metric gives another number than the definition behind its name, for some outputs in the model's form."""
    metric, val, outputs = evidence.program.metric, evidence.val, evidence.run.outputs[1]
    if metric is None or val is None or outputs is None or len(outputs) < LEAST:
        return None
    name = getattr(metric, "__name__", type(metric).__name__)
    y = val.y[: len(outputs)]
    if not readings(name, [(outputs, y)], evidence) or metric_counts_what_is_left_out(evidence):
        return None  # the name says nothing, or that finding says more
    tried = (outputs, *answers(outputs, y, 0))
    trials = [(float(metric(answer, y)), readings(name, [(answer, y)], evidence)) for answer in tried]
    text = f"the metric '{name}' is {{:.4g}} for an answer of which it is {{:.4g}} by definition"
    return _first_that_differs(name, trials, text)


def _first_that_differs(name: str, trials: Sequence[Pair], text: str) -> Finding | None:
    contrary = [(value, usual[0]) for value, usual in trials if _differs(value, usual)]
    if not contrary or _in_another_unit(name, trials):
        return None
    data = dict(zip(("reported", "usual"), contrary[0], strict=True))
    return Finding(None, text.format(*contrary[0]), data, certain=False, where="metric")


def _in_another_unit(name: str, trials: Sequence[Pair]) -> bool:
    """Whether what is reported as a mean error is always the same multiple of it, as of targets that were scaled."""
    ratios = [value / usual[0] for value, usual in trials if usual and usual[0]]
    numbers = {usual[0] for _, usual in trials if usual}
    comparable = _plain(name) in ERRORS and len(numbers) > 1 and all(map(math.isfinite, ratios))
    return comparable and max(ratios) - min(ratios) <= OTHERWISE * abs(ratios[0])


def _differs(value: float, usual: Sequence[float]) -> bool:
    """Whether a number is none of these, as a share, in per cent, or with the other sign."""
    if not usual or not all(map(math.isfinite, (value, *usual))):
        return False
    allowed = [times * number for number in usual for times in (1, 100, -1)]
    return not any(abs(number - value) <= OTHERWISE * abs(number) + TINY for number in allowed)


def readings(name: str, batches: Batches, evidence: Evidence) -> list[float]:
    """What a number of this name is by definition, the usual reading first; empty where name or outputs do not say."""
    plain = _plain(name)
    if ACCURACY.fullmatch(plain):
        return _accuracies(batches, evidence)
    if len({y.shape[1:] for _, y in batches}) > 1:
        return []
    outputs, y = torch.cat([answer for answer, _ in batches]), torch.cat([y for _, y in batches])
    if outputs.numel() == len(outputs) == y.numel():
        outputs = outputs.reshape(y.shape)  # one number for an example, with an axis of length 1 or without
    if AREA.fullmatch(plain) and outputs.numel() == y.numel() and bool(((y == 0) | (y == 1)).all()):
        # Of equal scores the area is a matter of taste: which comes first, or half of both.
        distinct = len(outputs.unique()) >= DISTINCT * outputs.numel()
        return [area(outputs.reshape(y.shape).double(), y.double())] if distinct else []
    if outputs.shape != y.shape or not y.is_floating_point():
        return []
    off, spread = (outputs - y).double(), float(y.double().var(unbiased=False))
    squared = float(off.square().mean())
    if R_SQUARED.fullmatch(plain) and y[0].numel() == 1 and spread > 0:
        return [1 - squared / spread]
    means = {"mse": squared, "rmse": math.sqrt(squared), "mae": float(off.abs().mean())}
    return [means[plain]] if plain in means else []


def _plain(name: str) -> str:
    """A name without what says of which examples, or by whom."""
    return BEFORE.sub("", name.lower().strip("_"))


def _accuracies(batches: Batches, evidence: Evidence) -> list[float]:
    """The share of right answers over all places that count, and over the examples' own shares."""
    if any(y.is_floating_point() or outputs.ndim != y.ndim + 1 for outputs, y in batches):
        return []
    if shifts_labels(evidence):
        batches = [(answer[:, :-1], y[:, 1:]) for answer, y in batches]
    # Where there are as many classes as places, either axis may be that of the classes.
    fitting = [axis for axis in (-1, 1) if all(_holds_classes(answer, axis, y) for answer, y in batches)]
    ignored = evidence.spec.ignore_index
    shares = [share for axis in fitting for share in _shares(batches, axis, evidence.spec)]
    for axis in fitting:
        if ignored is not None and 0 <= ignored < batches[0][0].shape[axis]:
            # Padding has a class of its own, and who decodes may choose among the others.
            padding = torch.tensor([ignored])
            without_it = [(answer.index_fill(axis, padding, -math.inf), y) for answer, y in batches]
            shares += _shares(without_it, axis, evidence.spec)
    return shares


def _holds_classes(outputs: Tensor, axis: int, y: Tensor) -> bool:
    return outputs.shape[axis] > 1 and outputs.movedim(axis, -1).shape[:-1] == y.shape


def _shares(batches: Batches, axis: int, spec: Spec) -> list[float]:
    shares, right, count = list[float](), 0, 0
    for outputs, y in batches:
        kept = counted(y, spec)
        hits, places = (part.reshape(len(y), -1).sum(dim=1) for part in ((outputs.argmax(axis) == y) & kept, kept))
        right, count = right + int(hits.sum()), count + int(places.sum())
        shares += (hits[places > 0] / places[places > 0]).tolist()
    return [right / count, sum(shares) / len(shares)] if count else []


def _mean_loss(batches: Batches, evidence: Evidence) -> list[float]:
    """The author's loss over all examples at once, where it is a plain mean over them."""
    if len({(answer.shape[1:], y.shape[1:]) for answer, y in batches}) > 1:
        return []
    outputs, y = torch.cat([answer for answer, _ in batches]), torch.cat([y for _, y in batches])
    half = len(y) // 2
    parts = (slice(half), slice(half, 2 * half), slice(2 * half))
    first, second, whole = (float(evidence.own_loss(outputs[rows], y[rows])) for rows in parts)
    return [whole] if len(y) % 2 == 0 and abs(first + second - 2 * whole) < SAME * abs(whole) else []


NAMED_METRIC_RULES: tuple[Callable[[Evidence], Finding | None], ...] = (reports_otherwise, metric_is_another)
