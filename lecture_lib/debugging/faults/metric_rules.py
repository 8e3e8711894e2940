"""Rung 6: a metric must tell good answers from bad ones, whatever it is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .._engine.assumptions import NotAskedError
from .._engine.chance import SCORES
from .._engine.evidence import Evidence
from .._engine.untouched import untouched
from ..program import Program
from .finding import Finding

LEAST = 20  # examples
DRAWS = 3  # of the examples that an answer gets wrong
QUALITIES = (1.0, 0.7, 0.4, 0.0)  # share of an answer that is right; the rest is drawn from other examples
LOSSES = ("loss", "error", "mse", "rmse", "mae", "perplexity")
MARGIN = 0.02  # of the spread between the best and the worst of these answers


def metric_prefers_worse_answers(evidence: Evidence) -> Finding | None:
    """The metric gives a worse answer a higher number than a better one."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.metric is None or val is None or outputs is None or len(outputs) < LEAST:
        return None
    metric, y = program.metric, val.y[: len(outputs)]
    table = [[float(metric(answers(outputs, y, q, draw), y)) for q in QUALITIES] for draw in range(DRAWS)]
    return _judge({"metric": table}, "metric")


def evaluation_prefers_worse_answers(evidence: Evidence) -> Finding | None:
    """The author's evaluation reports a better score, or a lower loss, for a worse answer."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.evaluate is None or val is None or outputs is None or len(outputs) != len(val.y) or len(outputs) < LEAST:
        return None
    tables: dict[str, list[list[float]]] = {}
    for draw in range(DRAWS):
        for quality in QUALITIES:
            with untouched(program, evidence.seed), _answering(program, answers(outputs, val.y, quality, draw)):
                reported = program.run_evaluation()
            for name, value in reported.items():
                sign = _sign(name)
                if sign:
                    rows = tables.setdefault(name, [])
                    if len(rows) <= draw:
                        rows.append([])
                    rows[draw].append(sign * float(value))
    return _judge(tables, "evaluation")


def _sign(name: str) -> int:
    """1 for a score, -1 for a loss, 0 for what is neither by its name."""
    if SCORES.search(name):
        return 1
    return -1 if any(word in name.lower().replace("_", " ").split() for word in LOSSES) else 0


def _judge(tables: Mapping[str, list[list[float]]], what: str) -> Finding | None:
    for name, table in tables.items():
        if not all(math.isfinite(value) for row in table for value in row):
            continue
        spread = max(max(row) for row in table) - min(min(row) for row in table)
        if spread == 0:
            text = f"{what} '{name}' is {table[0][0]:.3g} for perfect and for random answers alike"
            return Finding(None, text, {"values": table[0]}, unnamed_part="metric")
        for better in range(len(QUALITIES)):
            for worse in range(better + 1, len(QUALITIES)):
                if all(row[worse] > row[better] + MARGIN * spread for row in table):
                    shares = f"{QUALITIES[better]:.0%} right answers, and {QUALITIES[worse]:.0%} right ones"
                    values = f"{abs(table[0][better]):.3g} for {shares} {abs(table[0][worse]):.3g}"
                    return Finding(None, f"{what} '{name}' is {values}", {"values": table[0]}, unnamed_part="metric")
    return None


def answers(outputs: Tensor, y: Tensor, quality: float, draw: int) -> Tensor:
    """Outputs like these for targets y, of which a share is right and the rest belongs to other examples.

    Raises NotAskedError where it is not known how a right answer is written.
    """
    generator = torch.Generator().manual_seed(draw)
    others = y[torch.randperm(len(y), generator=generator)]
    wrong = torch.rand(len(y), generator=generator) >= quality
    said = torch.where(wrong.reshape(-1, *[1] * (y.ndim - 1)), others, y)
    if not y.is_floating_point() and outputs.ndim == y.ndim + 1 and outputs.numel() != y.numel():
        axis = 1 if outputs.shape[2:] == y.shape[1:] else outputs.ndim - 1
        classes = outputs.shape[axis]
        scores = torch.nn.functional.one_hot(said.clamp(0, classes - 1).long(), classes).to(outputs) * 8 - 4
        found = scores.movedim(-1, axis)
        return found.log_softmax(axis) if float(outputs.max()) <= 0 else _as_shares(found, outputs, axis)
    if outputs.numel() != y.numel():
        raise NotAskedError(f"outputs {list(outputs.shape)} do not fit targets {list(y.shape)}")
    if bool(((y == 0) | (y == 1)).all()):
        scores = said.reshape(outputs.shape).to(outputs) * 8 - 4
        return scores.sigmoid() if float(outputs.min()) >= 0 and float(outputs.max()) <= 1 else scores
    return said.reshape(outputs.shape).to(outputs)


def _as_shares(scores: Tensor, outputs: Tensor, axis: int) -> Tensor:
    total = outputs.double().sum(dim=axis)
    shares = float(outputs.min()) >= 0 and bool(((total - 1).abs() < 1e-3).all())
    return scores.softmax(axis) if shares else scores


@contextmanager
def _answering(program: Program, wanted: Tensor) -> Iterator[None]:
    """The model gives these outputs in evaluation, batch after batch. Raises NotAskedError if it is asked otherwise."""
    place = 0

    def hook(module: nn.Module, args: tuple[object, ...], output: object) -> object:
        nonlocal place
        if not isinstance(output, Tensor) or output.shape[1:] != wanted.shape[1:]:
            raise NotAskedError("the evaluation asks the model for something else than outputs of examples")
        if place == len(wanted):
            place = 0
        given = wanted[place : place + len(output)].to(output)
        place += len(output)
        if given.shape != output.shape:
            raise NotAskedError("the evaluation does not go through the validation examples in order")
        return given

    handle = program.model.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
    if place != len(wanted):
        raise NotAskedError("the evaluation does not go through the validation examples in order")


METRIC_RULES: tuple[Callable[[Evidence], Finding | None], ...] = (
    metric_prefers_worse_answers,
    evaluation_prefers_worse_answers,
)
