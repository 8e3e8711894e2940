"""Rung 6: a metric must tell good answers from bad ones, whatever it is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations

import torch
from torch import Tensor, nn

from .._engine.assumptions import NotAskedError
from .._engine.chance import SCORES
from .._engine.evidence import Evidence
from .._engine.loss_calls import calls, probabilities
from .._engine.preserve import untouched
from .._engine.yardstick import refuse_contrary
from ..program import Program
from .finding import Finding

LEAST = 20  # examples
PERFECT = (1.0, 100.0)
DRAWS = 3  # of the examples that an answer gets wrong
QUALITIES = (1.0, 0.7, 0.4, 0.0)  # share of an answer that is right; the rest is drawn from other examples
SHRUNK = 0.3  # numbers are so far from their mean to the truth
NAMES = (*(f"{quality:.0%} right answers" for quality in QUALITIES), f"the mean and {SHRUNK:.0%} of what is missing")
ORDER = (*combinations(range(len(QUALITIES)), 2), (4, 3))  # of each pair the first answer is better, whatever is asked
LOSSES = ("loss", "error", "mse", "rmse", "mae", "perplexity")
SAME = 1e-3  # relative; what rounding and empty classes leave
MARGIN = 0.02  # of the spread between the best and the worst of these answers


def metric_prefers_worse_answers(evidence: Evidence) -> Finding | None:
    """The metric gives a worse answer a higher number than a better one."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.metric is None or val is None or outputs is None or len(outputs) < LEAST:
        return None
    metric, y = program.metric, val.y[: len(outputs)]
    refuse_unknown(evidence, outputs, y)
    table = [[float(metric(answer, y)) for answer in answers(outputs, y, draw)] for draw in range(DRAWS)]
    return _judge({"metric": table}, "metric")


def full_marks_for_anything(evidence: Evidence) -> Finding | None:
    """The author's evaluation gives a perfect score before training as after it, and with any example's targets."""
    run, val = evidence.run, evidence.val
    if val is None or not run.by_chance or bool((val.y == val.y[:1]).all()):
        return None
    for name, own in run.rows[-1].reported.items():
        scores = [run.untrained.get(name), *(shuffled.get(name) for shuffled in run.by_chance)]
        if SCORES.search(name) and own in PERFECT and all(score == own for score in scores):
            text = f"{name} is {own:g} before any training, after it, and with the targets of other examples"
            return Finding(None, f"{text}: it does not depend on the answers", {"score": own}, where="metric")
    return None


def evaluation_prefers_worse_answers(evidence: Evidence) -> Finding | None:
    """The author's evaluation reports a better score, or a lower loss, for a worse answer."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.evaluate is None or val is None or outputs is None or len(outputs) != len(val.y) or len(outputs) < LEAST:
        return None
    refuse_unknown(evidence, outputs, val.y)
    tables: dict[str, list[list[float]]] = {}
    for draw in range(DRAWS):
        for answer in answers(outputs, val.y, draw):
            for name, value in _evaluated(evidence, answer).items():
                rows = tables.setdefault(name, [])
                if len(rows) <= draw:
                    rows.append([])
                rows[draw].append(value)
    return _judge(tables, "evaluation")


def refuse_unknown(evidence: Evidence, outputs: Tensor, y: Tensor) -> None:
    """Raise NotAskedError where it is not known which answers are better.

    A task of yes and no has other targets, or no task is declared and the loss does not want what looks right.
    """
    task = evidence.spec.task
    if task is None:
        refuse_contrary(evidence.program.loss_fn and evidence.own_loss, outputs, y)
    outside = y.numel() == outputs.numel() and bool(((y < 0) | (y > 1)).any())
    if outside and task in ("classification", "multi-label", "segmentation"):
        raise NotAskedError(f"targets lie from {float(y.min()):g} to {float(y.max()):g}, and the task wants 0 to 1")


def metric_counts_what_is_left_out(evidence: Evidence) -> Finding | None:
    """The metric changes when positions are added that the spec leaves out."""
    program, val, outputs, ignored = evidence.program, evidence.val, evidence.run.outputs[1], evidence.spec.ignore_index
    if program.metric is None or val is None or outputs is None or ignored is None or val.y.ndim < 2:
        return None
    y = val.y[: len(outputs)]
    axes = [axis for axis in range(1, outputs.ndim) if outputs.shape[axis] == y.shape[1]]
    if len(axes) != 1 or not bool((y != ignored).any()):
        return None
    answer = answers(outputs, y, 0)[len(QUALITIES) - 1]  # hardly right anywhere, so that what counts as right shows
    longer = torch.cat([answer, answer], dim=axes[0])
    before = float(program.metric(answer, y))
    after = float(program.metric(longer, torch.cat([y, torch.full_like(y, ignored)], dim=1)))
    if not math.isfinite(before + after) or abs(after - before) <= SAME * max(abs(before), abs(after)):
        return None
    text = f"the metric is {before:.3g}, and {after:.3g} with as many positions more that are to be left out"
    return Finding(None, text, {"values": [before, after]}, where="metric")


def line_at_a_half(evidence: Evidence) -> Finding | None:
    """The loss takes logits, and the metric says yes from 0.5 on, where the probability is 62 %."""
    val, outputs = evidence.val, evidence.run.outputs[1]
    if val is None or outputs is None or len(outputs) != len(val.y) or outputs.numel() != val.y.numel():
        return None
    if not calls(evidence, "binary_cross_entropy_with_logits") or not bool(((val.y == 0) | (val.y == 1)).all()):
        return None
    yes = val.y.reshape(outputs.shape) == 1
    levels = (-1.0, 0.0, 0.49, 0.51, 2.0)
    numbers = [scores(evidence, torch.where(yes, level, -8.0).to(outputs)) for level in levels]
    for name in numbers[0]:
        below, above = ({row[name] for row in rows} for rows in (numbers[:3], numbers[3:]))
        if len(below) == len(above) == 1 and below != above:
            text = f"'{name}' counts a logit as yes from 0.5 on, which is a probability of 62 %: a half is the logit 0"
            return Finding(None, text, {"below": below.pop(), "above": above.pop()}, certain=False, where="metric")
    return None


def scores(evidence: Evidence, answer: Tensor) -> dict[str, float]:
    """What the author's metric, or else the evaluation, says of an answer to all of validation; more is better."""
    if evidence.program.metric is None or evidence.val is None:
        return {} if evidence.program.evaluate is None else _evaluated(evidence, answer)
    return {"metric": float(evidence.program.metric(answer, evidence.val.y[: len(answer)]))}


def _evaluated(evidence: Evidence, answer: Tensor) -> dict[str, float]:
    """The scores that the author's evaluation reports, and its losses below 0."""
    with untouched(evidence.program, evidence.seed), _answering(evidence.program, answer):
        reported = evidence.program.run_evaluation()
    return {name: _sign(name) * float(value) for name, value in reported.items() if _sign(name)}


def _sign(name: str) -> int:
    """1 for a score, -1 for a loss, 0 for what is neither by its name."""
    if SCORES.search(name):
        return 1
    return -1 if any(word in name.lower().replace("_", " ").split() for word in LOSSES) else 0


def _judge(tables: Mapping[str, list[list[float]]], source: str) -> Finding | None:
    for name, table in tables.items():
        if not all(math.isfinite(value) for row in table for value in row):
            continue
        spread = max(max(row) for row in table) - min(min(row) for row in table)
        if spread == 0:
            text = f"{source} '{name}' is {table[0][0]:.3g} for perfect and for random answers alike"
            return Finding(None, text, {"values": table[0]}, where="metric")
        for better, worse in ORDER:
            if max(better, worse) >= len(table[0]):
                continue
            if all(row[worse] > row[better] + MARGIN * spread for row in table):
                sign = _sign(name) if source == "evaluation" else 1  # by which its numbers were multiplied
                good, bad = (f"{sign * table[0][number]:.3g} for {NAMES[number]}" for number in (better, worse))
                return Finding(None, f"{source} '{name}' is {good}, and {bad}", {"values": table[0]}, where="metric")
    return None


def answers(outputs: Tensor, y: Tensor, draw: int) -> list[Tensor]:
    """Answers to targets y in the form of these outputs, as in NAMES; the last one for numbers only.

    Raises NotAskedError where it is not known how a right answer is written.
    """
    generator = torch.Generator().manual_seed(draw)
    shuffled, luck = y[torch.randperm(len(y), generator=generator)], torch.rand(len(y), generator=generator)
    if torch.equal(shuffled, y):
        raise NotAskedError("validation targets are all the same")
    mixed = [torch.where((luck >= quality).reshape(-1, *[1] * (y.ndim - 1)), shuffled, y) for quality in QUALITIES]
    if not y.is_floating_point() and outputs.ndim == y.ndim + 1 and outputs.numel() != y.numel():
        _refuse_embeddings(outputs, y)
        return [_as_scores(answer, outputs) for answer in mixed]
    if outputs.numel() != y.numel():
        raise NotAskedError(f"outputs {list(outputs.shape)} do not fit targets {list(y.shape)}")
    if bool(((y == 0) | (y == 1)).all()):
        scores = [answer.reshape(outputs.shape).to(outputs) * 8 - 4 for answer in mixed]
        shares = float(outputs.min()) >= 0 and float(outputs.max()) <= 1
        return [answer.sigmoid() for answer in scores] if shares else scores
    mean = y.double().mean(dim=0, keepdim=True)
    # Numbers near the truth and right in their order, but far too small: a correlation does not see that.
    mixed.append(mean + SHRUNK * (y - mean))
    return [answer.reshape(outputs.shape).to(outputs) for answer in mixed]


def _refuse_embeddings(outputs: Tensor, labels: Tensor) -> None:
    """Raise NotAskedError where a column of the outputs is not the score of a label."""
    columns = outputs.shape[_class_axis(outputs, labels)]
    if int(labels.max()) >= columns:
        raise NotAskedError(f"labels up to {int(labels.max())} do not fit {columns} columns of outputs")
    if outputs.ndim != 2 or probabilities(outputs, 1):
        return
    lengths, spread = outputs.double().norm(dim=1), float(outputs.double().std(dim=0).max())
    if float(lengths.std()) <= SAME * float(lengths.mean()) < spread:
        raise NotAskedError("outputs are all of one length: directions, in which no label has a column of its own")


def _class_axis(outputs: Tensor, labels: Tensor) -> int:
    return 1 if outputs.shape[2:] == labels.shape[1:] else outputs.ndim - 1


def _as_scores(labels: Tensor, outputs: Tensor) -> Tensor:
    axis = _class_axis(outputs, labels)
    classes = outputs.shape[axis]
    scores = torch.nn.functional.one_hot(labels.clamp(0, classes - 1).long(), classes).to(outputs) * 8 - 4
    scores = scores.movedim(-1, axis)
    if float(outputs.max()) <= 0:
        return scores.log_softmax(axis)
    return scores.softmax(axis) if probabilities(outputs, axis) else scores


@contextmanager
def _answering(program: Program, wanted: Tensor) -> Iterator[None]:
    """The model gives these outputs in evaluation, batch after batch. Raises NotAskedError if it is asked otherwise."""
    place = 0

    def hook(module: nn.Module, args: tuple[object, ...], output: object) -> object:
        nonlocal place
        inside.clear()
        if not isinstance(output, Tensor) or output.shape[1:] != wanted.shape[1:]:
            raise NotAskedError("the evaluation asks the model for something else than outputs of examples")
        if place == len(wanted):
            place = 0
        answer = wanted[place : place + len(output)].to(output)
        place += len(output)
        if answer.shape != output.shape:
            raise NotAskedError("the evaluation does not go through the validation examples in order")
        return answer

    def directly(module: nn.Module, args: object) -> None:
        if not inside:
            raise NotAskedError("the evaluation asks parts of the model by themselves")

    inside: list[bool] = []  # the forward pass of the whole model, while it runs
    handles = [module.register_forward_pre_hook(directly) for module in list(program.model.modules())[1:]]
    handles.append(program.model.register_forward_pre_hook(lambda *_: inside.append(True)))
    handles.append(program.model.register_forward_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    if place != len(wanted):
        raise NotAskedError("the evaluation does not go through the validation examples in order")


METRIC_RULES: tuple[Callable[[Evidence], Finding | None], ...] = (
    metric_prefers_worse_answers,
    full_marks_for_anything,
    evaluation_prefers_worse_answers,
    metric_counts_what_is_left_out,
    line_at_a_half,
)
