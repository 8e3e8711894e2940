"""Rung 2: what answers without a network are worth."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .._engine.assumptions import NotAskedError, classes_second
from .._engine.evidence import Evidence
from .._engine.loss_calls import scores_given
from .._engine.probes import chance, learner, named, score, table
from .._engine.run_data import counted
from .data_hypotheses import MOVED, SATISFIED, moved
from .finding import Finding
from .loss_probes import shifts_labels

LEARNT_SOMETHING = 0.9  # of a constant answer's loss; a validation loss below it has learnt something


def constant_answers(evidence: Evidence) -> list[Tensor]:
    """Outputs for validation that do not depend on the inputs."""
    outputs, val = evidence.run.outputs[1], evidence.val
    if outputs is None or val is None:
        return []
    task, y = evidence.spec.task, val.y
    if task == "regression" and y.is_floating_point():
        train = evidence.train.y if evidence.train is not None else y
        return [torch.zeros_like(outputs) + train.double().mean(dim=0).to(outputs).reshape(1, *outputs.shape[1:])]
    if y.is_floating_point() or outputs.ndim != y.ndim + 1:
        # As far from 0 as any threshold of a metric may lie: the sigmoid of 8 is 0.9997.
        signs = [torch.full_like(outputs, value) for value in (-8.0, 8.0)]
        probabilities = float(outputs.min()) >= 0 and float(outputs.max()) <= 1
        return [answer.sigmoid() if probabilities else answer for answer in signs]
    classes_second(outputs, y, scores_given(evidence))
    shares = torch.bincount(y[y >= 0].flatten(), minlength=outputs.shape[1])[: outputs.shape[1]].double()
    scores = (shares / shares.sum()).clamp(min=1e-6).to(outputs)
    return [scores.reshape(1, -1, *[1] * (outputs.ndim - 2)).expand_as(outputs)]


def worthless_metric(evidence: Evidence) -> Finding | None:
    """D16, E03: a constant answer scores near the top."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.metric is None or val is None or outputs is None:
        return None
    scores = [float(program.metric(answer, val.y)) for answer in constant_answers(evidence)]
    best = max((value for value in scores if math.isfinite(value)), default=0.0)
    if best < SATISFIED:
        return None
    model = float(program.metric(outputs, val.y))
    named = outputs.argmax(dim=1) if outputs.ndim > 1 and outputs.shape[1] > 1 else outputs.flatten() > 0
    only_one = len(named.unique()) == 1 or model < best
    single = evidence.spec.task == "classification" or outputs.ndim == 1 or outputs.shape[1:] == (1,)
    fault = "D16" if single and only_one else "E03"
    return Finding(
        fault, f"one answer for all scores {best:.3f}, the model {model:.3f}", {"constant": best, "model": model}
    )


def no_better_than_baseline(evidence: Evidence) -> Finding | None:
    """E01: a constant answer, or a linear model, does as well or clearly better."""
    train, val = table(evidence, evidence.plain), table(evidence, evidence.val)
    outputs = evidence.run.outputs[1]
    if train is None or val is None or outputs is None or evidence.val is None:
        return None
    if evidence.spec.task == "sequence":
        labels = named(outputs, evidence.val.y) if outputs.ndim == 3 else None
        if labels is None or shifts_labels(evidence):  # the label of a place is its own input
            return None
        predicted = labels[counted(evidence.val.y, evidence.spec)][: len(val.y)].numpy()
    elif train.classes:
        if outputs.ndim > 1 and 1 < outputs.shape[1] <= int(evidence.val.y.max()):
            raise NotAskedError("labels have no column of outputs each")
        predicted = (
            outputs.argmax(dim=1) if outputs.ndim > 1 and outputs.shape[1] > 1 else outputs.flatten() > 0
        ).numpy()
    else:
        if outputs.shape != evidence.val.y.shape:
            return None
        predicted = outputs.flatten().double().numpy()
    if len(predicted) < len(val.y):
        return None
    predicted = predicted[: len(val.y)]
    model, dumb = score(val, predicted), chance(val)
    linear_says = learner(train, linear=True).fit(train.x, train.y).predict(val.x)
    linear = score(val, linear_says)
    if train.classes:
        only_model = int(((predicted == val.y) & (linear_says != val.y)).sum())
        only_linear = int(((predicted != val.y) & (linear_says == val.y)).sum())
        # McNemar's test: only examples on which the two differ tell them apart.
        z = (only_linear - only_model) / math.sqrt(max(only_linear + only_model, 1))
        spread = math.sqrt(dumb * (1 - dumb) / len(val.y))
    else:
        errors = [(answer - val.y) ** 2 / max(val.y.var(), 1e-12) for answer in (predicted, linear_says)]
        difference = errors[0] - errors[1]
        z = float(difference.mean() / max(difference.std() / math.sqrt(len(val.y)), 1e-12))
        spread = 0.05
    # Where one class is nearly all, the share that is right says little, and the loss still shows what is known. So it
    # does where outputs are no means: a quantile is far from the targets on purpose.
    constant = evidence.constant_loss if train.classes else _own_loss(evidence, np.full(len(val.y), train.y.mean()))
    learnt = evidence.run.rows[-1].val_loss < LEARNT_SOMETHING * constant
    if model < dumb + 2 * spread and not learnt:
        return _symptom(f"the model scores {model:.2f}, one answer for all {dumb:.2f}", {"model": model})
    if linear > model + 0.03 and z > 3 and not _own_loss(evidence, linear_says) > _own_loss(evidence, predicted):
        if moved(evidence):  # the linear model learned from pictures that stay where they are
            raise NotAskedError(MOVED)
        return _symptom(f"the model scores {model:.2f}, a linear one {linear:.2f}", {"linear": linear})
    return None


def _own_loss(evidence: Evidence, answers: np.ndarray) -> float:
    """The program's own loss of numbers as answers to validation; NaN, which is below nothing, where it has none."""
    program, val = evidence.program, evidence.val
    if program.loss_fn is None or val is None or not val.y.is_floating_point() or len(answers) != val.y.numel():
        return math.nan
    return float(evidence.own_loss(torch.as_tensor(answers).reshape(val.y.shape).to(val.y), val.y))


def _symptom(evidence: str, data: dict[str, float]) -> Finding:
    return Finding("E01", evidence, data, False, symptom="no better than a simple baseline")
