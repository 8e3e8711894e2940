"""One number for how well a program does, the same for every task: 0 is perfect, 1 is a constant answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...training._run.preserve import evaluating
from ...training._run.structures import map_tensors, tensors_of
from ..program import Program, Spec
from .assumptions import NotAskedError
from .run_data import MOST, counted

MOVES, RATES = 60, (0.1, 2.0)  # of an optimizer that looks for the lowest loss
AS_CONSTANT = 0.95  # error from which the yardstick sees nothing learnt
LEARNT = 0.25  # what the loss gains on a constant answer, as a share of what it loses beside other examples' targets

WORST = 2.0
"""Errors above this, and those that are not finite, count as this."""


Pairs = Sequence[tuple[Any, Any]]
"""Inputs and targets, batch by batch."""


def pairs_of(program: Program) -> Pairs:
    """The validation batches, as many as the ladder looks at. Raises NotAskedError where there are none."""
    pairs, count = [], 0
    for batch in () if program.val_loader is None else program.val_loader:
        inputs, targets = program.parts(batch)
        pairs.append((inputs, targets))
        first = next(tensors_of(targets), None)
        count += len(first) if first is not None and first.ndim else 1
        if count >= MOST:
            break
    if not pairs:
        raise NotAskedError("there are no validation examples")
    return pairs


def refuse_contrary(loss_fn: Callable[[Any, Any], Tensor] | None, outputs: Any, y: Tensor) -> None:
    """Raise NotAskedError where the loss does not want outputs that are like the targets.

    Targets may be ranks, where the best has the lowest number and is to get the highest score.
    """
    if loss_fn is None or not isinstance(outputs, Tensor) or outputs.numel() != y.numel():
        return
    answer = y.reshape(outputs.shape).to(outputs)
    orders = [torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    try:
        with torch.no_grad():
            right, others = float(loss_fn(answer, y)), [float(loss_fn(answer[order], y)) for order in orders]
    except Exception:
        return  # such as a loss that takes other targets than the data set has: nothing is known
    if all(loss < right for loss in others):
        raise NotAskedError("the loss does not want outputs that are like the targets, so what is right is not known")


def refuse_other_meaning(program: Program, pairs: Pairs, measured: float) -> None:
    """Raise NotAskedError where the program learns by its own measure and not by this one.

    Its outputs then mean something else than the targets: the logarithm of a rate, a score that only orders, a
    threshold. Its own measure is its loss, and its metric where it has one.
    """
    loss_fn, metric, device = program.loss_fn, program.metric, program.device
    if loss_fn is None or measured < AS_CONSTANT:
        return
    try:
        with evaluating(program.model), torch.no_grad():
            moved = [(map_tensors(x, lambda tensor: tensor.to(device)), y.to(device)) for x, y in pairs]
            batches, y = [program.outputs(x) for x, _ in moved], torch.cat([y for _, y in moved])
            outputs = _joined(batches, lambda whole: whole)
            order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
            others = _joined(batches, lambda whole: whole[order])
            own, mixed = float(loss_fn(outputs, y)), float(loss_fn(others, y))
            better = metric is None or float(metric(outputs, y)) > float(metric(others, y))
        with torch.enable_grad():
            if isinstance(outputs, Tensor):
                start = outputs.mean(dim=0, keepdim=True)
                constant = min(lowest_loss(loss_fn, start, outputs, y, rate, MOVES) for rate in RATES)
            else:
                constant = float(loss_fn(_joined(batches, lambda whole: whole.mean(dim=0).expand_as(whole)), y))
    except Exception:
        return  # such as a loss that takes other targets than the data set has
    if better and own < mixed and constant - own > LEARNT * (mixed - own):
        raise NotAskedError(
            f"by its own loss the program beats a constant answer ({own:.3g}, {constant:.3g}), by the squared error or "
            "share of errors it does not: its outputs mean something else than the targets"
        )


def _joined(batches: Sequence[Any], change: Callable[[Tensor], Tensor]) -> Any:
    """The batches' outputs, one below the other in each of their tensors, and these changed."""
    parts = iter([change(torch.cat(part)) for part in zip(*map(tensors_of, batches), strict=True)])
    return map_tensors(batches[0], lambda _: next(parts))


def lowest_loss(
    loss_fn: Callable[[Any, Any], Tensor], start: Tensor, outputs: Tensor, targets: Tensor, rate: float, steps: int
) -> float:
    """The lowest loss on the way of an optimizer that moves free outputs, or one that all examples share."""
    return min((loss for loss, _ in descent(loss_fn, start, outputs, targets, rate, steps)), default=math.inf)


def descent(
    loss_fn: Callable[[Any, Any], Tensor], start: Tensor, outputs: Tensor, targets: Tensor, rate: float, steps: int
) -> Iterator[tuple[float, Tensor]]:
    """The losses on that way, each with a copy of the outputs that have it."""
    free = start.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=rate)
    for _ in range(steps):
        loss = loss_fn(free.expand_as(outputs), targets)
        yield float(loss.detach()), free.detach().clone()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def error(program: Program, pairs: Pairs, spec: Spec) -> float:
    """The program's error on examples, relative to that of a constant answer.

    Classes: the mean error rate of a class, over that of guessing. Labels that are there or not: twice the area above
    the ROC curve. Positions: the share of wrong ones, over that of the commonest class. Numbers: squared error over
    variance, for each output by itself. Several outputs for as many targets: their mean. Raises NotAskedError for
    outputs that fit none of these.
    """
    with evaluating(program.model):
        answers = [
            list(tensors_of(program.outputs(map_tensors(inputs, lambda tensor: tensor.to(program.device)))))
            for inputs, _ in pairs
        ]
    wanted = [list(tensors_of(targets)) for _, targets in pairs]
    if not answers[0] or not wanted[0]:
        raise NotAskedError("outputs or targets hold no tensor")
    columns = [_stacked([row[place] for row in answers]) for place in range(len(answers[0]))]
    errors, reason = [], ""
    for place in range(len(wanted[0])):
        y = _stacked([row[place] for row in wanted])
        candidates = columns[place : place + 1] if len(columns) == len(wanted[0]) else columns
        for outputs in candidates:
            try:
                errors.append(_relative(outputs, y, spec))
                break
            except NotAskedError as refused:
                reason = reason or str(refused)
    if not errors:
        raise NotAskedError(reason)
    mean = sum(errors) / len(errors)
    return min(mean, WORST) if math.isfinite(mean) else WORST


def _stacked(parts: list[Tensor]) -> Tensor:
    """Batches one after the other; a longest axis that differs between them is filled up with targets left out."""
    parts = [part.detach().cpu() for part in parts]
    if parts[0].ndim == 0:
        return torch.stack(parts)
    if len({part.shape[1:] for part in parts}) == 1:
        return torch.cat(parts)
    if len({part.ndim for part in parts}) != 1:
        raise NotAskedError("the batches' outputs or targets differ in their axes")
    size = [max(part.shape[axis] for part in parts) for axis in range(1, parts[0].ndim)]
    whole = not parts[0].is_floating_point()
    filled = [part.new_full((len(part), *size), -100 if whole else 0) for part in parts]
    for place, part in zip(filled, parts, strict=True):
        place[tuple(slice(0, n) for n in part.shape)] = part
    return torch.cat(filled)


def _relative(outputs: Tensor, y: Tensor, spec: Spec) -> float:
    if not bool(outputs.isfinite().all()):
        return WORST
    whole = not y.is_floating_point()
    if whole and outputs.ndim == y.ndim + 1 and outputs.numel() != y.numel():
        return _classes(outputs, y, spec)
    if outputs.numel() != y.numel():
        raise NotAskedError(f"outputs {list(outputs.shape)} do not fit targets {list(y.shape)}")
    outputs, y = outputs.reshape(y.shape).double(), y.double()
    if bool(((y == 0) | (y == 1)).all()) and (whole or spec.task in ("multi-label", "classification", "segmentation")):
        return 2 * (1 - area(outputs, y))
    return _numbers(outputs, y)


def _classes(outputs: Tensor, y: Tensor, spec: Spec) -> float:
    axes = [1, outputs.ndim - 1] if outputs.ndim > 2 else [1]
    fitting = [outputs.argmax(dim=axis) for axis in axes]
    fitting = [answer for answer in fitting if answer.shape == y.shape]
    if not fitting:
        raise NotAskedError(f"outputs {list(outputs.shape)} do not fit targets {list(y.shape)}")
    kept = counted(y, spec)
    if not bool(kept.any()):
        raise NotAskedError("there is no validation target")
    right = max(((answer == y)[kept] for answer in fitting), key=lambda answer: int(answer.sum()))
    labels = y[kept]
    if not any(int(labels.max()) < outputs.shape[axis] for axis in axes):
        raise NotAskedError(f"labels up to {int(labels.max())} have no column of outputs {list(outputs.shape)} each")
    if y.ndim > 1 and spec.task != "segmentation":
        shares = torch.bincount(labels).double() / len(labels)
        return float((~right).double().mean()) / max(1 - float(shares.max()), 1e-6)
    present = labels.unique()
    if len(present) < 2:
        raise NotAskedError("validation has one class only")
    rates = [float((~right[labels == label]).double().mean()) for label in present]
    return sum(rates) / len(rates) / (1 - 1 / len(present))


def area(outputs: Tensor, y: Tensor) -> float:
    """The area under the ROC curve; of several labels [N, L] the mean of their areas."""
    columns = (outputs.reshape(-1, 1), y.reshape(-1, 1)) if y.ndim != 2 else (outputs, y)
    areas = []
    for scores, label in zip(columns[0].T, columns[1].T, strict=True):
        positive = int(label.sum())
        if not 0 < positive < len(label):
            continue
        # The area is that of the Mann-Whitney test: from ranks, equal scores at their mean rank.
        _, places, counts = scores.unique(return_inverse=True, return_counts=True)
        ranks = (counts.cumsum(0) - (counts - 1) / 2)[places]
        above = float(ranks[label == 1].sum()) - positive * (positive + 1) / 2
        areas.append(above / (positive * (len(label) - positive)))
    if not areas:
        raise NotAskedError("validation has one class only")
    return sum(areas) / len(areas)


def _numbers(outputs: Tensor, y: Tensor) -> float:
    rows, wanted = outputs.reshape(len(y), -1), y.reshape(len(y), -1)
    variance = wanted.var(dim=0, unbiased=False)
    # A target that hardly varies has no variance to divide by.
    lively = variance > 1e-6 * variance.max().clamp(min=1e-30)
    if not bool(lively.any()) or float(variance.max()) == 0:
        raise NotAskedError("validation targets are all the same")
    squared = (rows - wanted).square().mean(dim=0)
    if wanted.shape[1] > 20:  # the parts of one target, such as a picture's
        return float(squared.sum() / variance.sum())
    return float((squared / variance)[lively].mean())
