"""Rung 7, by comparison: where a trained model errs, on what it leans, and whether its confidence fits."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .._engine.assumptions import NO_PICTURES, NotAskedError, picture
from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .._engine.probes import Table, few_columns, named, score, table, without_own
from .._engine.run_data import counted
from .finding import Finding
from .model_rules import outputs_of

WORSE = 0.12  # error of a slice above that of the rest
OFF = 0.1  # calibration error
TELLING = 0.85  # score of a few pixels alone
FALL = 0.5  # share of what the model knows that is lost with one small part of the inputs
FALL_IF_NAMED = 0.3  # the same where that part alone names the class nearly as well as the model does
LARGE = 1 / 3  # share of the entries
AS_WELL = 0.9  # score of a part alone, relative to the model's accuracy
MARK = 0.05  # of the examples have a value of their own in a column that is a mark and no measurement, at most


def errors(evidence: Evidence, outputs: Tensor | None = None) -> np.ndarray | None:
    """For each validation example how wrong the model is: 0 or 1, or the squared error over the targets' variance."""
    outputs = evidence.run.outputs[1] if outputs is None else outputs
    if outputs is None or evidence.val is None:
        return None
    y, task = evidence.val.y, evidence.spec.task
    if task == "regression":
        return np.asarray(((outputs.reshape(y.shape) - y) ** 2 / y.var()).flatten(1).mean(dim=1).double())
    if task == "classification" and outputs.ndim == 2 and y.ndim == 1 and outputs.shape[1] > 1:
        return np.asarray((outputs.argmax(dim=1) != y).double())
    if task == "sequence" and outputs.ndim == 3 and (labels := named(outputs, y)) is not None:
        kept = counted(y, evidence.spec)
        wrong = ((labels != y) & kept).double().sum(dim=1)
        return np.asarray(wrong / kept.sum(dim=1).clamp(min=1))
    return None


def failing_slice(evidence: Evidence) -> Finding | None:
    """E04: a declared slice is far worse than the rest."""
    wrong, slices = errors(evidence), evidence.spec.slices
    if wrong is None or not slices:
        return None
    generator = np.random.default_rng(0)
    worst: Finding | None = None
    most = WORSE
    for name, members in slices.items():
        inside = np.asarray(members, dtype=bool)[: len(wrong)]
        if inside.sum() < 5 or (~inside).sum() < 5 or len(inside) != len(wrong):
            continue
        difference = wrong[inside].mean() - wrong[~inside].mean()
        shuffled = [generator.permutation(inside) for _ in range(400)]
        chance = [wrong[mask].mean() - wrong[~mask].mean() for mask in shuffled]
        # A permutation test, times the number of slices (Bonferroni), because each of them may look bad by chance.
        p = (1 + sum(gap >= difference for gap in chance)) / 401 * len(slices)
        if difference > most and p < 0.02:
            most = float(difference)
            worst = Finding(
                "E04",
                f"in {name!r} ({int(inside.sum())} examples) the error is {wrong[inside].mean():.2f}, elsewhere "
                f"{wrong[~inside].mean():.2f} (p {p:.3f})",
                {"slice": name, "difference": most, "p_value": p},
                certain=False,
            )
    return worst


def leans_on_a_part(evidence: Evidence) -> Finding | None:
    """E05: with a small part of the inputs exchanged between examples the model loses most of what it knows.

    A third is enough where the part alone names the class about as well as the model does with everything.
    """
    val, clean = evidence.val, errors(evidence)
    if val is None or clean is None or evidence.spec.task != "classification" or not val.x.is_floating_point():
        return None
    if val.x.ndim > 2 and not picture(val.x.shape[1:]):
        raise NotAskedError(NO_PICTURES.format(list(val.x.shape[1:])))
    learnt = 1 - float(torch.bincount(val.y).max()) / len(val.y) - clean.mean()
    if learnt < 0.2:
        return None
    exchanged = val.x.roll(len(val.x) // 2 + 1, 0)
    worst, where = 0.0, ""
    with untouched(evidence.program, evidence.seed) as program:
        for _ in range(evidence.epochs):
            program.run_epoch()

        def lost_without(inside: Tensor) -> float:
            outputs = outputs_of(evidence, torch.where(inside, exchanged, val.x))
            wrong = errors(evidence, outputs) if outputs is not None else None
            return (float(wrong.mean()) - float(clean.mean())) / learnt if wrong is not None else 0.0

        for name, inside, fall in _suspected(evidence, val.x.shape[1:]):
            lost = lost_without(inside)
            suffices = lost >= FALL_IF_NAMED and _accuracy_of_part(evidence, inside) >= AS_WELL * (1 - clean.mean())
            # A large part may hold some of the matter, as the edge of a spectrogram does.
            large = float(inside.float().mean()) > LARGE
            if lost > worst and (suffices or lost >= fall) and not (large and lost_without(~inside) > lost):
                worst, where = lost, name
    if not where:
        return None
    return Finding(
        "E05",
        f"with {where} of another example the model loses {worst:.0%} of what it knows beyond guessing",
        {"lost": worst, "where": where},
        certain=False,
    )


def _suspected(evidence: Evidence, shape: torch.Size) -> list[tuple[str, Tensor, float]]:
    """Parts of an input as masks of its shape, each with the share lost that is enough by itself.

    Of images those at the edge, where nothing of the matter is expected, and the few pixels that nearly name the class;
    of other rows each column that is a mark and no measurement.
    """
    rows = table(evidence, evidence.plain)
    side = math.isqrt(shape[0]) if len(shape) == 1 else 0
    if len(shape) > 1 or (side > 2 and side * side == shape[0]):
        suspects = [(name, mask.expand(shape), FALL) for name, mask in parts(*shape[-2:])] if picture(shape) else []
        best, _, columns = few_columns(rows) if rows is not None else (0.0, 0.0, [])
        if best >= TELLING and len(columns) <= math.prod(shape) / 3:
            suspects.append((f"{len(columns)} pixels", _mask(columns, shape), math.inf))
        return suspects
    if rows is None:
        return []
    values = [len(np.unique(column)) for column in rows.x.T]
    marks = [number for number, count in enumerate(values) if 1 < count <= MARK * len(rows.x)]
    return [(f"column {number}", _mask([number], shape), math.inf) for number in marks]


def _mask(columns: list[int], shape: torch.Size) -> Tensor:
    mask = torch.zeros(math.prod(shape), dtype=torch.bool)
    mask[columns] = True
    return mask.view(shape)


def _accuracy_of_part(evidence: Evidence, inside: Tensor) -> float:
    """Accuracy of a small learner that sees nothing but a part of the training inputs."""
    rows = table(evidence, evidence.plain)
    if rows is None:
        return 0.0
    part = Table(rows.x[:, inside.flatten().numpy()], rows.y, rows.classes)
    return score(part, without_own(part))


def parts(h: int, w: int) -> list[tuple[str, Tensor]]:
    """Corners and margins, where nothing of the matter is expected, as masks [H, W]."""
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    a, b = max(1, h // 5), max(1, w // 5)
    up, down, left, right = y < a, y >= h - a, x < b, x >= w - b
    return [
        ("the upper left corner", up & left),
        ("the upper right corner", up & right),
        ("the lower left corner", down & left),
        ("the lower right corner", down & right),
        ("the upper margin", up),
        ("the lower margin", down),
        ("the left margin", left),
        ("the right margin", right),
        ("the margin", up | down | left | right),
    ]


def confidence_off(evidence: Evidence) -> Finding | None:
    """E07: probabilities are higher than the shares that come true, and one temperature mends it.

    Too low ones are what a run has that could have gone on.
    """
    outputs, val = evidence.run.outputs[1], evidence.val
    if outputs is None or val is None or evidence.spec.task != "classification" or evidence.spec.mixes_labels:
        return None
    if outputs.ndim != 2 or outputs.shape[1] < 2 or val.y.ndim != 1 or val.y.is_floating_point():
        return None
    y, logits = val.y, outputs.double()
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    right = (predicted == y).double()
    generator = torch.Generator().manual_seed(0)
    draws = []
    for _ in range(100):
        rows = torch.randint(len(y), (len(y),), generator=generator)
        draws.append(calibration_error(confidence[rows], right[rows]))
    # The lower end of what a bootstrap gives, so that few examples have to be further off.
    low = sorted(draws)[5]
    # Fitted on one half and judged on the other, so that a temperature that fits noise is of no use.
    half = len(y) // 2
    temperatures = torch.logspace(-1.5, 1.5, 61, dtype=torch.double)
    losses = [float(torch.nn.functional.cross_entropy(logits[:half] / t, y[:half])) for t in temperatures]
    best = float(temperatures[int(np.argmin(losses))])
    before, after = (float(torch.nn.functional.cross_entropy(logits[half:] / t, y[half:])) for t in (1.0, best))
    if low < OFF or best <= 1 or before - after < 0.1 * before or not math.isfinite(before):
        return None
    return Finding(
        "E07",
        f"mean confidence is {confidence.mean():.0%}, {right.mean():.0%} are right; a temperature of {best:.2g} brings "
        f"the loss from {before:.3g} to {after:.3g}",
        {"calibration_error": low, "temperature": best},
        certain=False,
    )


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """Mean distance of confidence and share that is right, over ten bins."""
    bins = (confidence * 10).long().clamp(0, 9)
    total = 0.0
    for number in range(10):
        inside = bins == number
        if inside.any():
            total += float(inside.double().mean() * (confidence[inside].mean() - right[inside].mean()).abs())
    return total
