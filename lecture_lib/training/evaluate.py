"""Evaluation: the mean loss and metric over a data set, without a trace in the model or the training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ._run import checks
from ._run.batches import forward
from ._run.batches import unpack as unpack_batch
from ._run.losses import mean_loss
from ._run.preserve import evaluating
from ._run.processes import ALONE, Processes
from ._run.score import Score, accuracy
from ._run.terms import Terms
from .precision import Precision, choose_precision
from .types import Batches, Count, LossFunction, Metric, Unpack


@dataclass(frozen=True)
class Evaluation:
    """The mean loss and the metric of a data set.

    Attributes:
        loss: in the loss function's unit (nats for cross-entropy), each term counted once.
        metric: of the whole set, in the metric's unit (a fraction for accuracy).
        examples: how many were seen.

    """

    loss: float
    metric: float
    examples: int


def evaluate(
    model: nn.Module,
    loader: Batches,
    loss_fn: LossFunction,
    *,
    metric: Metric = accuracy,
    precision: str | Precision = "fp32",
    count: Count | Terms | None = None,
    unpack: Unpack | None = None,
    device: torch.device | str | None = None,
    processes: Processes = ALONE,
) -> Evaluation:
    """The model's mean loss and metric over the loader, in eval mode and without a graph.

    Each batch's mean loss counts by the number of terms that it is the mean of (see `terms.Terms`), and the metric is
    that of all examples together, so the results do not depend on how the data set falls into batches. Examples whose
    labels the loss ignores do not count for the metric.

    Leaves each module's mode and the random streams (torch, CUDA, NumPy, Python) as they were, also after an
    exception, so that training goes on as if it had not been evaluated.
    Source: lecture part 3, the recipe.

    Args:
        model: outputs for inputs [B, ...]; its weights are read only.
        loader: batches of (inputs [B, ...], labels [B, ...]); a shorter last batch counts by its examples.
        loss_fn: outputs, labels -> mean loss of the batch.
        metric: a function of all outputs and all labels (on the CPU), or an object with update(outputs, labels),
            compute() and reset(), as those of torchmetrics. A macro F1 or an AUROC is no mean over batches.
        precision: as in `train`.
        count: as in `train`.
        unpack: batch -> (inputs, labels), for batches of another structure.
        device: where batches go; default: where the model's parameters are.
        processes: those that evaluate together; each loader gives its process's share of the data.

    Returns:
        Loss, metric and the number of examples.

    Raises:
        TypeError: a batch is not a pair of tensors, loss_fn is not a function or returns no tensor, or metric does not
            return a number.
        ValueError: the loader gives no examples, labels do not fit the outputs, the loss is not one mean, or the model
            is not on the device.

    """
    checks.require_model(model)
    checks.require_loader(loader, "loader")
    checks.require_loss_function(loss_fn)
    checks.require_functions(count=count, unpack=unpack)
    device = checks.resolve_device(model, device)
    if not isinstance(precision, Precision):
        precision = choose_precision(precision, device)
    # A single batch is weighed against no other, so an unknown loss function need not be examined.
    several = checks.count_batches(loader) != 1 or processes.count > 1
    terms = count if isinstance(count, Terms) else Terms(loss_fn, count, matters=several)
    score = Score(metric, processes)
    loss_sum, counted, examples = 0.0, 0.0, 0
    with evaluating(model):
        for number, raw_batch in enumerate(loader, 1):
            batch = unpack_batch(raw_batch, number, unpack, loader)
            # A process without an example of its own in a short batch adds nothing.
            if batch.stands_in:
                continue
            batch = batch.to(device)
            with precision.autocast():
                outputs = forward(model, batch)
            terms.observe(outputs, batch)
            weight = terms(batch)
            with precision.autocast():
                # A mean over nothing is 0/0, and counts for nothing.
                loss = mean_loss(loss_fn, outputs, batch).item() if weight else 0.0
            terms.verify(outputs, batch)
            # The mean of batch means would give an example of a short last batch more weight.
            loss_sum += loss * weight
            counted += weight
            examples += batch.examples
            score.add(outputs, batch, terms.ignored(batch))
        loss_sum, counted, total = processes.sum(loss_sum, counted, examples)
        examples = int(total)
        if examples == 0:
            raise ValueError(
                "the loader gave 0 examples. Pass one with data; an iterator that was used up gives nothing."
            )
        if counted == 0:
            raise ValueError(f"all labels of {examples} examples are masked: there is no loss. Look at ignore_index.")
        return Evaluation(loss_sum / counted, score.value(), examples)
