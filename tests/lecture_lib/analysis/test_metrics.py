"""Metrics over whole data sets: against scikit-learn called directly, repetition instead of weights, and by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as reference
from torch import nn

from lecture_lib.analysis import collect_outputs, evaluate_metrics, metrics, probabilities
from lecture_lib.data import TensorLoader
from lecture_lib.training import evaluate

N = 60


def cases(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits that know something of the labels, and whole weights, some of them 0."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, N)
    logits = generator.normal(size=(N, classes)) + 1.5 * np.eye(classes)[labels]
    return logits, labels, generator.integers(0, 4, N)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", metrics.CLASSIFICATION)
def test_a_weight_counts_as_that_many_examples(name: str, classes: int) -> None:
    logits, labels, weights = cases(classes)
    p = probabilities(logits)
    repeated = np.repeat(np.arange(N), weights)
    found = metrics.CLASSIFICATION[name](p, labels, weights)
    assert found == pytest.approx(metrics.CLASSIFICATION[name](p[repeated], labels[repeated], None), abs=1e-12)
    assert found != pytest.approx(metrics.CLASSIFICATION[name](p, labels, None), abs=1e-6)


@pytest.mark.parametrize("name", metrics.REGRESSION)
def test_a_weight_counts_as_that_many_values(name: str) -> None:
    logits, labels, weights = cases(2)
    values, predicted = labels + logits[:, 0], logits[:, 1]
    repeated = np.repeat(np.arange(N), weights)
    found = metrics.REGRESSION[name](predicted, values, weights)
    assert found == pytest.approx(metrics.REGRESSION[name](predicted[repeated], values[repeated], None), abs=1e-12)


def test_values_of_several_classes_by_definition() -> None:
    logits, labels, _ = cases(4)
    p = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    assert probabilities(torch.from_numpy(logits)) == pytest.approx(p)
    predicted = p.argmax(1)
    f1, area, precision = [], [], []
    for one in range(4):
        hit = ((predicted == one) & (labels == one)).sum()
        f1.append(2 * hit / ((predicted == one).sum() + (labels == one).sum()))
        inside, outside = p[labels == one, one], p[labels != one, one]
        area.append((inside[:, None] > outside[None, :]).mean())  # the share of pairs in the right order
        order = np.argsort(-p[:, one])
        hits = labels[order] == one
        precision.append((np.cumsum(hits) / np.arange(1, N + 1))[hits].mean())
    assert metrics.accuracy(p, labels) == pytest.approx((predicted == labels).mean())
    assert metrics.macro_f1(logits, labels) == pytest.approx(np.mean(f1))
    assert metrics.auroc(p, labels) == pytest.approx(np.mean(area))
    assert metrics.auroc(p, labels) == pytest.approx(reference.roc_auc_score(labels, p, multi_class="ovr"))
    assert metrics.auprc(p, labels) == pytest.approx(np.mean(precision))


def test_values_of_two_classes_by_definition() -> None:
    logits, labels, _ = cases(2)
    one_logit = torch.from_numpy(logits[:, 1:] - logits[:, :1])
    p = probabilities(one_logit)
    assert p == pytest.approx(probabilities(logits))
    assert p[:, 1] == pytest.approx(torch.sigmoid(one_logit[:, 0]).numpy())
    assert metrics.auroc(p, labels) == pytest.approx(reference.roc_auc_score(labels, p[:, 1]))
    assert metrics.auprc(p, torch.from_numpy(labels).float()[:, None]) == pytest.approx(
        reference.average_precision_score(labels, p[:, 1])
    )


def test_the_calibration_error_bin_by_bin() -> None:
    logits, labels, weights = cases(3)
    p = probabilities(2 * logits)
    confidence, right = p.max(1), p.argmax(1) == labels
    total = 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if weights[inside].sum():
            gap = np.average(right[inside], weights=weights[inside]) - np.average(
                confidence[inside], weights=weights[inside]
            )
            total += weights[inside].sum() / weights.sum() * abs(gap)
    assert metrics.calibration_error(p, labels, weights) == pytest.approx(total)
    certain = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert metrics.calibration_error(certain, [0, 1, 1, 1]) == pytest.approx(0.5)
    on_an_edge = np.array([[0.6, 0.4], [0.58, 0.42]])  # in one bin with what lies below
    assert metrics.calibration_error(on_an_edge, [0, 1]) == pytest.approx(0.09)


def test_values_of_regression_by_definition() -> None:
    predicted, values, weights = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert metrics.rmse(predicted, values, weights) == pytest.approx((9 / 4) ** 0.5)
    assert metrics.mae(predicted, values, weights) == pytest.approx(5 / 4)
    assert metrics.r2(predicted, values, weights) == pytest.approx(1 - 9 / 2)  # the weighted mean is 2


BAD: dict[str, tuple[Any, Any, Any, str]] = {
    "lengths": ([[0.2, 0.8]] * 3, [0, 1], None, r"outputs \[3, 2\], labels \[2\] and weights \[2\] differ in length"),
    "weights' length": ([[0.2, 0.8]] * 2, [0, 1], [1.0], "differ in length"),
    "NaN": ([[0.2, 0.8], [np.nan, 0.5]], [0, 1], None, "1 of 2 rows are not finite, first row 1"),
    "infinite weight": ([[0.2, 0.8]] * 2, [0, 1], [1.0, np.inf], "weights: 1 of 2 rows are not finite"),
    "negative weight": ([[0.2, 0.8]] * 2, [0, 1], [1.0, -1.0], "each is 0 or more"),
    "no weight": ([[0.2, 0.8]] * 2, [0, 1], [0.0, 0.0], "not all 0"),
    "nothing": (np.zeros((0, 2)), [], None, "expected numbers"),
    "one class only": ([[0.2, 0.8]] * 2, [1, 1], None, "class 0 has no examples, only 1 of 2"),
    "one class weighs": ([[0.2, 0.8]] * 2, [1, 0], [1.0, 0.0], "class 0 has no examples"),
    "unknown class": ([[0.2, 0.8]] * 2, [0, 2], None, "labels lie from 0 to 2, and there are 2 outputs"),
    "no class": ([[0.2, 0.8]] * 2, [0.5, 1.0], None, "class indices"),
    "logits": ([[-1.0, 2.0]] * 2, [0, 1], None, "they are no probabilities"),
    "one output": ([0.2, 0.8], [0, 1], None, "2 classes or more"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_has_no_answer_is_refused(name: str) -> None:
    outputs, labels, weights, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        metrics.auroc(outputs, labels, weights)


def test_values_that_would_broadcast_or_do_not_vary_are_refused() -> None:
    with pytest.raises(ValueError, match=r"would broadcast.*squeeze"):
        metrics.rmse(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(ValueError, match="all equal"):
        metrics.r2([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="all equal"):
        metrics.r2([1.0, 2.0, 3.0], [1.0, 1.0, 5.0], [1.0, 1.0, 0.0])


# A model over a data set.


def make_data(examples: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(examples, 6, generator=generator), torch.randint(0, 3, (examples,), generator=generator)


def make_model() -> nn.Sequential:
    """With batch statistics and dropout: both differ between the modes, and dropout draws at random."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_metrics_are_of_the_whole_set_however_it_falls_into_batches(batch_size: int) -> None:
    x, y = make_data()
    model = make_model()
    with torch.no_grad():
        p = torch.softmax(model.eval()(x).double(), dim=1).numpy()
    model.train()
    loader = TensorLoader(x, y, batch_size=batch_size)
    found = evaluate_metrics(model, loader, ["auroc", "macro_f1", "accuracy"])
    assert list(found) == ["auroc", "macro_f1", "accuracy"]
    assert found["auroc"] == pytest.approx(reference.roc_auc_score(y, p, multi_class="ovr"), abs=1e-6)
    assert found["macro_f1"] == pytest.approx(reference.f1_score(y, p.argmax(1), average="macro"))
    assert found["accuracy"] == pytest.approx(evaluate(model, loader, F.cross_entropy).metric)


def test_evaluation_leaves_no_trace() -> None:
    model = make_model()
    model[1].eval()  # frozen
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    streams = torch.get_rng_state(), random.getstate(), str(np.random.get_state(legacy=False))

    class Drawing(TensorLoader):
        def __iter__(self) -> Any:
            torch.rand(2), np.random.rand(2), random.random()
            yield from super().__iter__()

    collect_outputs(model, Drawing(*make_data(), batch_size=8))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(streams[0], torch.get_rng_state())
    assert streams[1:] == (random.getstate(), str(np.random.get_state(legacy=False)))


def test_weights_and_own_metrics() -> None:
    x, y = make_data()
    loader = TensorLoader(x, y, batch_size=8)
    model = make_model()
    of_class = torch.tensor([1.0, 2.0, 0.0])
    shares = of_class[y].numpy()
    expected = evaluate_metrics(model, loader, ["accuracy"], weights=shares)
    assert evaluate_metrics(model, loader, ["accuracy"], weights=lambda labels: of_class[labels]) == expected
    outputs, labels = collect_outputs(model, loader)
    assert torch.equal(labels, y)
    assert expected["accuracy"] == pytest.approx(reference.accuracy_score(y, outputs.argmax(1), sample_weight=shares))

    def top2(outputs: torch.Tensor, labels: torch.Tensor, weights: None) -> float:
        return (outputs.topk(2).indices == labels[:, None]).any(1).float().mean().item()

    assert evaluate_metrics(model, loader, {"top 2": top2})["top 2"] == pytest.approx(
        reference.top_k_accuracy_score(y, outputs, k=2)
    )


def test_sequences_count_every_label_that_is_not_masked() -> None:
    torch.manual_seed(0)
    model = nn.Conv1d(2, 3, 1)
    x, y = torch.randn(5, 2, 4), torch.randint(0, 3, (5, 4))
    y[0, 2:] = -100
    batches = [(x[:3], y[:3]), (x[3:, :, :3], y[3:, :3])]  # of two lengths
    outputs, labels = collect_outputs(model, batches)
    assert outputs.shape == (3 * 4 + 2 * 3 - 2, 3)
    right = [(model(a).argmax(1)[b != -100] == b[b != -100]) for a, b in batches]
    assert evaluate_metrics(model, batches, ["accuracy"])["accuracy"] == pytest.approx(
        torch.cat(right).float().mean().item()
    )
    assert torch.equal(labels[:2], y[0, :2])


@pytest.mark.parametrize(
    ("loader", "names", "message"),
    [
        ([], ["accuracy"], "gave no labels"),
        ([(torch.zeros(2, 6), torch.zeros(3, dtype=torch.long))], ["accuracy"], "batch 1: outputs and labels"),
        ([make_data()], ["accurcy"], r"no metrics \['accurcy'\]; name some of accuracy"),
        ([make_data()], "accuracy", "in a list"),
    ],
    ids=["empty", "lengths", "unknown", "no list"],
)
def test_evaluations_that_cannot_be_are_refused(loader: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate_metrics(make_model(), loader, names)
