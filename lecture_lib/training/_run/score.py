"""A metric over a whole data set: few metrics are means over batches."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor

from ..types import Metric, MetricObject
from .batches import Batch, describe
from .losses import refuse_structure
from .processes import Processes
from .structures import is_list_of_examples, join, map_tensors, take_rows
from .terms import peel


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """The fraction of examples whose largest output is at the label; labels of -100 are masked and do not count.

    An example with an output of NaN is wrong.

    Args:
        outputs: logits or probabilities [B, C], C of 2 or more.
        labels: class indices [B].

    Returns:
        A fraction from 0 to 1.

    Raises:
        TypeError: outputs are no tensor.
        ValueError: other shapes and types, which would broadcast to a wrong number, or no labels that count.

    """
    if not isinstance(outputs, Tensor) or not isinstance(labels, Tensor):
        raise TypeError(refuse_structure("metric", labels if isinstance(outputs, Tensor) else outputs))
    shapes_fit = outputs.ndim == 2 and outputs.shape[1] >= 2 and labels.shape == outputs.shape[:1]
    if not shapes_fit or labels.is_floating_point() or labels.dtype == torch.bool or len(labels) == 0:
        raise ValueError(
            f"accuracy got outputs {list(outputs.shape)} and labels {list(labels.shape)} of {labels.dtype}; "
            "it wants outputs [B, C] with 2 classes or more and integer class indices [B]. For another "
            "task pass metric=..."
        )
    labels = labels.long()  # an unsigned dtype would turn -100 into 156, which may be a class
    counted = int((labels != -100).sum())
    if counted == 0:
        raise ValueError(f"all {len(labels)} labels are masked (-100): there is no accuracy. Look at the labels.")
    # No prediction is -100. To argmax NaN is the largest, and a diverged model would be right wherever it is.
    return ((outputs.argmax(dim=1) == labels) & ~outputs.isnan().any(dim=1)).sum().item() / counted


class Score:
    """One metric, fed batch by batch and asked at the end.

    A function gets all outputs and labels at once, kept on the CPU; an object with update, compute and reset gets each
    batch where the model is. Examples with masked labels are left out. Where batches cannot be joined, because they
    differ in more than their number of examples, a function must be a mean over examples, which halves of batches show.

    Args:
        metric: see `Metric`.
        processes: that evaluate together.

    """

    def __init__(self, metric: Metric, processes: Processes) -> None:
        require_metric(metric)
        self._metric = metric
        self._processes = processes
        self._parts: list[tuple[Any, Any, int]] = []
        # An object of torchmetrics collects what all processes have seen; of any other each gets the whole.
        self._streams = is_object(metric) and (processes.count == 1 or bool(getattr(metric, "sync_on_compute", False)))
        if is_object(metric):
            # It may still hold the batches of an earlier evaluation.
            metric.reset()

    def add(self, outputs: Any, batch: Batch, ignored: Tensor | None) -> None:
        """Take a batch in, without the examples whose labels are masked."""
        labels, examples = batch.labels, batch.examples
        if ignored is not None and bool(ignored.any()):
            rows = torch.nonzero(~ignored).flatten()
            outputs, labels = (take_rows(side, rows, examples) for side in (outputs, labels))
            examples = len(rows)
        if not examples:
            return
        if self._streams:
            self._update(outputs, labels)
        else:
            outputs, labels = (map_tensors(side, lambda tensor: tensor.detach().cpu()) for side in (outputs, labels))
            self._parts.append((outputs, labels, examples))

    def value(self) -> float:
        """The metric of everything."""
        parts = [part for own in self._processes.gather(self._parts) for part in own] if not self._streams else []
        self._parts = []
        if not is_object(self._metric):
            return self._of_all(parts)
        for outputs, labels, _ in parts:
            self._update(outputs, labels)
        return require_number(self._metric.compute())

    def _update(self, outputs: Any, labels: Any) -> None:
        assert is_object(self._metric)
        device = getattr(self._metric, "device", None)
        if isinstance(device, torch.device | str):
            outputs, labels = (map_tensors(side, lambda tensor: tensor.to(device)) for side in (outputs, labels))
        try:
            self._metric.update(outputs, labels)
        except Exception as error:
            error.add_note(f"metric {_name(self._metric)}: outputs {describe(outputs)}, labels {describe(labels)}.")
            raise

    def _of_all(self, parts: list[tuple[Any, Any, int]]) -> float:
        if not parts:
            return math.nan
        try:
            outputs, labels = (_joined([(part[side], part[2]) for part in parts]) for side in (0, 1))
        except RuntimeError:
            # torch joins only tensors that differ in nothing but their number of examples.
            return self._of_unequal(parts)
        return self._asked(outputs, labels)

    def _of_unequal(self, parts: list[tuple[Any, Any, int]]) -> float:
        """The mean over batches of different shapes, if the metric is one over their examples."""
        total = 0.0
        for outputs, labels, examples in parts:
            own = self._asked(outputs, labels)
            middle = examples // 2
            halves = [rows for rows in torch.arange(examples).split([middle, examples - middle]) if len(rows)]
            halved = [[take_rows(side, rows, examples) for side in (outputs, labels)] for rows in halves]
            mean = sum(self._asked(*half) * len(rows) for half, rows in zip(halved, halves, strict=True)) / examples
            if not math.isclose(own, mean, rel_tol=1e-5, abs_tol=1e-8):
                raise ValueError(
                    f"metric {_name(self._metric)} is no mean over examples (a batch has {own:.6g}, its halves "
                    f"{mean:.6g}), and the batches cannot be joined: they differ in more than their number of "
                    "examples. Pad them to one shape, or pass an object with update, compute and reset."
                )
            total += own * examples
        return total / sum(examples for *_, examples in parts)

    def _asked(self, outputs: Any, labels: Any) -> float:
        function = cast(Callable[[Any, Any], Any], self._metric)
        try:
            value = function(outputs, labels)
        except Exception as error:
            if not isinstance(outputs, Tensor) and isinstance(error, TypeError | AttributeError):
                raise TypeError(refuse_structure("metric", outputs)) from error
            error.add_note(
                f"metric {_name(self._metric)} of the whole data set: outputs {describe(outputs)}, "
                f"labels {describe(labels)}."
            )
            raise
        return require_number(value)


def _joined(parts: list[tuple[Any, int]]) -> Any:
    """The outputs or the labels of all batches; a list with an entry for each example grows longer."""
    if all(is_list_of_examples(structure, examples) for structure, examples in parts):
        return [entry for structure, _ in parts for entry in structure]
    return join([structure for structure, _ in parts])


def is_object(metric: Any) -> TypeGuard[MetricObject]:
    """Whether a metric gathers batches itself."""
    return all(callable(getattr(metric, name, None)) for name in ("reset", "update", "compute"))


def require_metric(metric: Any) -> None:
    """TypeError for what is neither a function of (outputs, labels) nor an object with update, compute and reset."""
    name = _name(metric)
    if isinstance(metric, type):
        raise TypeError(f"metric is the class {name}. Pass an instance of it, such as {name}(...).")
    if is_object(metric):
        try:
            inspect.signature(metric.update).bind(None, None)
        except TypeError:
            raise TypeError(
                f"metric {name}: update{inspect.signature(metric.update)} does not take (outputs, labels). Wrap it in "
                "an object whose update does."
            ) from None
        except ValueError:  # written in C
            return
        return
    if not callable(metric):
        raise TypeError(
            f"metric is {metric!r}, of type {type(metric).__name__}; pass a function of (outputs, labels) of the whole "
            "data set, or an object with update(outputs, labels), compute() and reset()."
        )
    function = peel(metric)[0]
    if str(getattr(function, "__module__", "")).startswith("sklearn."):
        raise TypeError(
            f"metric is scikit-learn's {name}, which takes (labels, predictions), where train passes (outputs, "
            f"labels). Pass metric=lambda outputs, labels: {name}(labels, outputs.argmax(1)), or for a score that "
            "wants probabilities outputs.softmax(1)."
        )


def require_number(value: Any) -> float:
    """The number that a metric gave, as a float.

    Raises:
        TypeError: it gave something else.

    """
    is_number = isinstance(value, Real) or (isinstance(value, Tensor | np.ndarray) and math.prod(value.shape) == 1)
    if not is_number:
        kind = f"keys {', '.join(map(str, value))}" if isinstance(value, dict) else describe(value)
        raise TypeError(
            f"the metric gave a {type(value).__name__} ({kind}); one number is kept for each epoch. Pass one metric, "
            "averaged over classes if need be, and compute others with evaluate afterwards."
        )
    return float(value)


def _name(metric: Any) -> str:
    function = peel(metric)[0]
    return getattr(function, "__name__", type(function).__name__)
