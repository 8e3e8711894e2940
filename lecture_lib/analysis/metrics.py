"""Metrics beside the loss, each over a whole data set and with a weight for each example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Tensor | np.ndarray | Sequence[float]
Metric = Callable[[Any, Any, Any], float]  # outputs, labels, weights or None -> a number

BINS = 15


def probabilities(outputs: Array) -> np.ndarray:
    """Class probabilities [N, C], float64, of logits [N, C]; of one logit for class 1, [N] or [N, 1], both columns."""
    logits = _array(outputs, "outputs").astype(np.float64)
    if logits.ndim == 1 or logits.shape[1:] == (1,):
        logits = np.stack([np.zeros(len(logits)), logits.reshape(-1)], axis=1)
    if logits.ndim != 2:
        raise ValueError(f"outputs have shape {list(logits.shape)}; probabilities wants logits [N, C], or [N].")
    # Without the largest logit exp would overflow; the ratios are the same.
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def accuracy(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The share of examples whose largest output is at the label.

    Args:
        outputs: logits or probabilities [N, C].
        labels: class indices [N].
        weights: of each example [N], 0 or more; default: all the same.

    Raises:
        ValueError: lengths differ, something is not finite, or a label is no class.

    """
    scores, classes, shares = checked_classes(outputs, labels, weights)
    return float(np.average(scores.argmax(axis=1) == classes, weights=shares))


def macro_f1(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """F1 of each class that is a label or a prediction, their plain mean; arguments and errors as in `accuracy`."""
    from sklearn.metrics import f1_score

    scores, classes, shares = checked_classes(outputs, labels, weights)
    predicted = scores.argmax(axis=1)
    return float(f1_score(classes, predicted, average="macro", sample_weight=shares, zero_division=0.0))


def auroc(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The area under the ROC curve; with more than two classes the mean of each one against the rest.

    Args:
        outputs: probabilities [N, C], see `probabilities`.
        labels: class indices [N], each class at least once.
        weights: as in `accuracy`.

    Raises:
        ValueError: as in `accuracy`, or a class without an example, or outputs that are no probabilities.

    """
    from sklearn.metrics import roc_auc_score

    return _against_the_rest(roc_auc_score, outputs, labels, weights)


def auprc(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The area under the precision-recall curve (average precision); everything else as in `auroc`."""
    from sklearn.metrics import average_precision_score

    return _against_the_rest(average_precision_score, outputs, labels, weights)


def calibration_error(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The expected calibration error: mean distance of confidence and accuracy, over 15 bins of equal width.

    Confidence is the largest probability. Source: Guo et al. 2017, https://arxiv.org/abs/1706.04599; arguments and
    errors as in `auroc`, but for classes without examples, which are allowed.
    """
    scores, classes, shares = checked_classes(outputs, labels, weights)
    confidence = require_probabilities(scores).max(axis=1)
    gaps = shares * (confidence - (scores.argmax(axis=1) == classes))
    # A confidence on an edge belongs to the bin below it, as in the paper.
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    return float(np.abs(np.bincount(bins, gaps, BINS)).sum() / shares.sum())


def rmse(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The root of the mean squared error; outputs and labels of one shape [N, ...], errors as in `accuracy`."""
    from sklearn.metrics import mean_squared_error

    predicted, values, shares = _values(outputs, labels, weights)
    return float(mean_squared_error(values, predicted, sample_weight=shares)) ** 0.5


def mae(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The mean absolute error; arguments as in `rmse`."""
    from sklearn.metrics import mean_absolute_error

    predicted, values, shares = _values(outputs, labels, weights)
    return float(mean_absolute_error(values, predicted, sample_weight=shares))


def r2(outputs: Array, labels: Array, weights: Array | None = None) -> float:
    """The share of the labels' variance that is explained; arguments as in `rmse`. Labels that are all equal: error."""
    from sklearn.metrics import r2_score

    predicted, values, shares = _values(outputs, labels, weights)
    if (np.ptp(values[shares > 0], axis=0) == 0).any():
        raise ValueError(f"the {len(values)} labels are all equal: there is no variance to explain. Use rmse.")
    return float(r2_score(values, predicted, sample_weight=shares))


CLASSIFICATION: dict[str, Metric] = {f.__name__: f for f in (accuracy, macro_f1, auroc, auprc, calibration_error)}
REGRESSION: dict[str, Metric] = {f.__name__: f for f in (rmse, mae, r2)}


def _array(values: Any, name: str) -> np.ndarray:
    """An array, on the CPU, of finite numbers with one row or more."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values  # NumPy has none
    array = np.asarray(values)
    if array.ndim == 0 or len(array) == 0 or array.dtype.kind not in "fiub":
        raise ValueError(f"{name} have shape {list(array.shape)} and dtype {array.dtype}; expected numbers [N, ...].")
    wrong = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if wrong.any():
        raise ValueError(f"{name}: {wrong.sum()} of {len(array)} rows are not finite, first row {wrong.argmax()}.")
    return array


def _checked(outputs: Any, labels: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    predictions, truth = _array(outputs, "outputs"), _array(labels, "labels")
    shares = np.ones(len(truth)) if weights is None else _array(weights, "weights").astype(np.float64)
    if not len(predictions) == len(truth) == len(shares) or shares.ndim != 1:
        shapes = f"outputs {list(predictions.shape)}, labels {list(truth.shape)} and weights {list(shares.shape)}"
        raise ValueError(f"{shapes} differ in length; each has a row for each example, weights one number.")
    if shares.min() < 0 or shares.sum() == 0:
        raise ValueError(f"weights lie from {shares.min():g} to {shares.max():g}; each is 0 or more, and not all 0.")
    return predictions, truth, shares


def checked_classes(outputs: Any, labels: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores [N, C], classes [N] and weights [N] as arrays; errors as in `accuracy`."""
    scores, classes, shares = _checked(outputs, labels, weights)
    classes = classes.reshape(-1) if classes.shape[1:] == (1,) else classes  # as BCEWithLogitsLoss has them
    if scores.ndim != 2 or scores.shape[1] < 2 or classes.ndim != 1 or (classes != np.round(classes)).any():
        shapes = f"outputs {list(scores.shape)} and labels {list(classes.shape)}, {classes.dtype}"
        expected = "outputs [N, C] with 2 classes or more (of one logit: probabilities(outputs)), class indices [N]"
        raise ValueError(f"{shapes}; a metric of classes wants {expected}.")
    classes = classes.astype(np.int64)
    if classes.min() < 0 or classes.max() >= scores.shape[1]:
        raise ValueError(
            f"labels lie from {classes.min()} to {classes.max()}, and there are {scores.shape[1]} outputs."
        )
    return scores, classes, shares


def require_probabilities(scores: np.ndarray) -> np.ndarray:
    """The same scores, if each row is a distribution."""
    if scores.min() < 0 or np.abs(scores.sum(axis=1) - 1).max() > 1e-3:
        problem = f"outputs lie from {scores.min():.3g} to {scores.max():.3g} and their rows do not sum to 1"
        raise ValueError(f"{problem}: they are no probabilities. Of logits: probabilities(outputs).")
    return scores


def _against_the_rest(score: Callable[..., float], outputs: Any, labels: Any, weights: Any) -> float:
    scores, classes, shares = checked_classes(outputs, labels, weights)
    require_probabilities(scores)
    # Examples of weight 0 tell nothing about their class.
    present = np.unique(classes[shares > 0])
    if len(present) < scores.shape[1]:
        missing = np.setdiff1d(np.arange(scores.shape[1]), present)
        problem = f"class {missing[0]} has no examples, only {len(present)} of {scores.shape[1]} classes have"
        raise ValueError(f"{problem}: it has no rank. Evaluate on more data, split stratified, or use accuracy.")
    # Of two classes the scores add up to 1, so the area for the second is the usual one.
    of_classes = [1] if scores.shape[1] == 2 else range(scores.shape[1])
    return float(np.mean([score(classes == index, scores[:, index], sample_weight=shares) for index in of_classes]))


def _values(outputs: Any, labels: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    predicted, values, shares = _checked(outputs, labels, weights)
    if predicted.shape != values.shape:
        shapes = f"outputs {list(predicted.shape)} and labels {list(values.shape)}"
        raise ValueError(f"{shapes} differ and would broadcast. For one value each: outputs.squeeze(1).")
    predicted, values = (array.reshape(len(array), -1).astype(np.float64) for array in (predicted, values))
    return predicted, values, shares


def by_name(metrics: Sequence[str] | Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics that were asked for, those of classes fed with probabilities.

    Raises:
        ValueError: a name is unknown.

    """
    if isinstance(metrics, Mapping):
        return dict(metrics)
    available = CLASSIFICATION | REGRESSION
    unknown = [name for name in metrics if name not in available]
    if unknown or isinstance(metrics, str):
        raise ValueError(
            f"no metrics {unknown or metrics!r}; name some of {', '.join(available)} in a list, or pass a dict."
        )
    return {name: _of_logits(available[name]) if name in CLASSIFICATION else available[name] for name in metrics}


def _of_logits(metric: Metric) -> Metric:
    return lambda outputs, labels, weights: metric(probabilities(outputs), labels, weights)
