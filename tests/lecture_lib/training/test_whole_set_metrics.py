"""A metric is that of the whole data set, whoever computes it: a function, an object, several processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, f1_score, r2_score, roc_auc_score
from torch import Tensor, nn

from lecture_lib.analysis.metrics import macro_f1
from lecture_lib.data import TensorLoader
from lecture_lib.training import accuracy, evaluate, train
from lecture_lib.training._run.batches import Batch
from lecture_lib.training._run.processes import Processes
from lecture_lib.training._run.score import Score
from lecture_lib.training._run.terms import Terms


def make_batches(sizes: tuple[int, ...] = (20, 20, 7), masked: float = 0.0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    found = []
    for size in sizes:
        x = torch.randn(size, 6, generator=generator)
        y = (x[:, 0] > 0.5).long() + (x[:, 1] > 1).long()
        y[torch.rand(size, generator=generator) < masked] = -100
        found.append((x, y))
    return found


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(6, 3)


def everything(model: nn.Module, batches: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        outputs = torch.cat([model(x) for x, _ in batches])
    labels = torch.cat([y for _, y in batches])
    return outputs[labels != -100].numpy(), labels[labels != -100].numpy()


class ConfusionMatrix:
    """As those of torchmetrics: state, update, compute, reset; called, it would give the batch's own value."""

    def __init__(self) -> None:
        self.matrix = torch.full((3, 3), 1e6)  # from a run before

    def reset(self) -> None:
        self.matrix = torch.zeros(3, 3)

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.matrix += torch.bincount(target * 3 + preds.argmax(dim=1), minlength=9).reshape(3, 3)

    def compute(self) -> Tensor:
        right = self.matrix.diagonal()
        return (2 * right / (self.matrix.sum(0) + self.matrix.sum(1))).mean()

    def __call__(self, preds: Tensor, target: Tensor) -> Tensor:
        pytest.fail("the value of one batch is not wanted")


def by_scikit_learn(outputs: Any, labels: Any) -> float:
    return f1_score(labels, outputs.argmax(1), average="macro")


METRICS: dict[str, Callable[[], Any]] = {
    "object": ConfusionMatrix,
    "scikit-learn": lambda: by_scikit_learn,
    "the library's own": lambda: macro_f1,
    "a NumPy number": lambda: lambda outputs, labels: np.float64(by_scikit_learn(outputs, labels)),
    "a tensor": lambda: lambda outputs, labels: torch.tensor([by_scikit_learn(outputs, labels)]),
}


@pytest.mark.parametrize("masked", [0.0, 0.4])
@pytest.mark.parametrize("name", METRICS)
def test_macro_f1_is_that_of_all_examples(name: str, masked: float) -> None:
    model, batches = make_model(), make_batches(masked=masked)
    outputs, labels = everything(model, batches)
    expected = f1_score(labels, outputs.argmax(1), average="macro")
    means = [f1_score(y[y != -100], model(x).argmax(1)[y != -100], average="macro") for x, y in batches]
    assert abs(np.average(means, weights=[20, 20, 7]) - expected) > 1e-3  # the mean over batches is another number
    assert evaluate(model, batches, F.cross_entropy, metric=METRICS[name]()).metric == pytest.approx(expected)
    history = train(
        model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.0), F.cross_entropy, 2,
        metric=METRICS[name](),
    )  # fmt: skip
    assert [row.val_metric for row in history.rows] == pytest.approx([expected] * 2)


def test_an_area_under_the_curve_is_that_of_all_examples() -> None:
    model, batches = make_model(), make_batches()
    outputs, labels = everything(model, batches)

    def area(outputs: Tensor, labels: Tensor) -> float:
        return roc_auc_score(labels, outputs.softmax(1), multi_class="ovr")

    expected = area(torch.from_numpy(outputs), torch.from_numpy(labels))
    assert evaluate(model, batches, F.cross_entropy, metric=area).metric == pytest.approx(expected)


def test_accuracy_does_not_count_masked_labels() -> None:
    outputs = torch.eye(3)[[0, 1, 2, 0]]
    assert accuracy(outputs, torch.tensor([0, 1, -100, 2])) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"all 4 labels are masked \(-100\)"):
        accuracy(outputs, torch.full((4,), -100))
    batches = make_batches(masked=0.5)
    model = make_model()
    scores, labels = everything(model, batches)
    expected = accuracy_score(labels, scores.argmax(1))
    assert evaluate(model, batches, F.cross_entropy).metric == pytest.approx(expected)


@pytest.mark.parametrize("masked", [-100, -1, 255])
def test_accuracy_leaves_out_what_the_loss_ignores(masked: int) -> None:
    batches = [(x, torch.where(torch.arange(len(y)) % 3 == 0, masked, y)) for x, y in make_batches()]
    model = make_model()
    x, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    expected = accuracy(model(x)[y != masked], y[y != masked])
    for loss_fn, count in (
        (nn.CrossEntropyLoss(ignore_index=masked), None),
        (partial(F.cross_entropy, ignore_index=masked), None),
        (lambda outputs, labels: F.cross_entropy(outputs, labels, ignore_index=masked), None),
        (
            lambda outputs, labels: F.cross_entropy(outputs, labels, ignore_index=masked),
            lambda labels: (labels != masked).sum(),
        ),
    ):
        for data in (batches, [(x, y)]):
            found = evaluate(model, data, loss_fn, count=count)
            assert found.metric == pytest.approx(expected)
            assert found.examples == 47


def test_batches_of_different_shape_are_averaged_where_that_is_right() -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(n, t, 6, generator=generator), torch.randn(n, t, 3, generator=generator))
        for n, t in ((4, 3), (3, 7), (1, 2))
    ]
    model = make_model()

    def mean_error(outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs - labels).abs().mean()

    expected = sum(mean_error(model(x), y).item() * len(x) for x, y in batches) / 8
    assert evaluate(model, batches, F.mse_loss, metric=mean_error).metric == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"is no mean over examples .* Pad them to one shape"):
        evaluate(model, batches, F.mse_loss, metric=lambda outputs, labels: outputs.std())


@dataclass
class Output:
    logits: Tensor
    hidden: Tensor


class Pair(NamedTuple):
    logits: Tensor
    hidden: Tensor


STRUCTURES: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Tensor], str]] = {
    "dataclass": (lambda x: Output(x, x * 2), lambda found: found.logits, r"outputs\.logits"),
    "named tuple": (lambda x: Pair(x, x * 2), lambda found: found.logits, r"outputs\.logits"),
    "tuple": (lambda x: (x, x * 2), lambda found: found[0], r"outputs\[0\]"),
    "dict": (lambda x: {"logits": x, "hidden": x}, lambda found: found["logits"], r'outputs\["logits"\]'),
}


class Structured(nn.Module):
    def __init__(self, make: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.make = make_model(), make

    def forward(self, x: Tensor) -> Any:
        return self.make(self.layer(x))


@pytest.mark.parametrize("name", STRUCTURES)
def test_outputs_in_a_structure_are_joined_or_refused_with_the_part_to_take(name: str) -> None:
    make, logits, written = STRUCTURES[name]
    model, batches = Structured(make), make_batches()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def loss_fn(outputs: Any, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits(outputs), labels)

    def metric(outputs: Any, labels: Tensor) -> float:
        return by_scikit_learn(logits(outputs), labels)

    for wanting in (lambda o, y: F.cross_entropy(o, y), nn.MSELoss(), nn.CrossEntropyLoss(), lambda o, y: o.mean()):
        with pytest.raises((TypeError, ValueError), match=rf"cannot take what the model gives.*{written} \[20, 3\]"):
            train(model, batches, batches, optimizer, wanting, 1)
    with pytest.raises(TypeError, match=rf"metric=lambda outputs, labels: accuracy\({written}, labels\)"):
        train(model, batches, batches, optimizer, loss_fn, 1)
    expected = by_scikit_learn(*everything(model.layer, batches))
    history = train(model, batches, batches, optimizer, loss_fn, 1, metric=metric, accumulate=2)
    assert history.rows[0].val_metric == pytest.approx(expected)


REFUSED: dict[str, tuple[Any, str]] = {
    "a class": (ConfusionMatrix, r"metric is the class ConfusionMatrix\. Pass an instance"),
    "a name": ("f1", "metric is 'f1', of type str; pass a function"),
    "scikit-learn's own": (f1_score, r"scikit-learn's f1_score, which takes \(labels, predictions\)"),
    "of scikit-learn, prepared": (partial(f1_score, average="macro"), "metric=lambda outputs, labels: f1_score"),
    "of scikit-learn, silent when exchanged": (r2_score, "scikit-learn's r2_score"),
    "one number for each class": (lambda o, y: f1_score(y, o.argmax(1), average=None), "one number is kept"),
    "several metrics": (lambda o, y: {"f1": 0.5, "recall": 0.25}, "keys f1, recall"),
    "nothing": (lambda o, y: None, "gave a NoneType"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_metric_is_refused_with_the_remedy(name: str) -> None:
    metric, says = REFUSED[name]
    model, batches = make_model(), make_batches()
    with pytest.raises(TypeError, match=says):
        train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1, metric=metric)


def test_an_update_of_other_arguments_is_refused() -> None:
    class OfPairs(ConfusionMatrix):
        def update(self, output: Any) -> None:
            pytest.fail("not reached")

    with pytest.raises(TypeError, match=r"OfPairs: update\(output: .*\) .*does not take \(outputs, labels\)"):
        evaluate(make_model(), make_batches(), F.cross_entropy, metric=OfPairs())


class TwoProcesses(Processes):
    """What the other process gathered is handed in by the test."""

    others: list[Any] = []  # noqa: RUF012

    def gather(self, value: Any) -> list[Any]:
        return [value, self.others]


@pytest.mark.parametrize("name", METRICS)
def test_several_processes_see_the_whole(name: str) -> None:
    model, batches = make_model(), make_batches()
    expected = by_scikit_learn(*everything(model, batches))
    from lecture_lib.training._run.batches import unpack

    scores = [Score(METRICS[name](), TwoProcesses(rank, 2)) for rank in (0, 1)]
    for number, given in enumerate(batches):
        batch = unpack(given, number)
        scores[number % 2].add(model(batch.inputs), batch, None)
    values = []
    parts = [score._parts for score in scores]
    for score, other in zip(scores, reversed(parts), strict=True):
        TwoProcesses.others = other
        values.append(score.value())
    assert values == pytest.approx([expected] * 2)


def test_class_156_of_unsigned_labels_is_no_mask() -> None:
    """As an unsigned byte, -100 is 156."""
    generator = torch.Generator().manual_seed(0)
    model, x = nn.Linear(4, 200), torch.randn(60, 4, generator=generator)
    y = torch.arange(60) % 3 + 155
    by_dtype = {
        dtype: evaluate(model, TensorLoader(x, y.to(dtype), batch_size=7), lambda a, b: F.cross_entropy(a, b.long()))
        for dtype in (torch.int64, torch.uint8)
    }
    assert by_dtype[torch.uint8] == by_dtype[torch.int64]
    assert accuracy(F.one_hot(y, 200).float(), y.to(torch.uint8)) == 1
    known = Terms(nn.CrossEntropyLoss(), None, matters=True)
    assert known(Batch(x, y.to(torch.uint8), None, 0)) == 60


def test_an_example_whose_outputs_hold_nan_is_wrong() -> None:
    outputs = torch.tensor([[float("nan"), 1.0], [2.0, 1.0], [1.0, float("inf")]])
    assert accuracy(outputs, torch.tensor([0, 0, 1])) == pytest.approx(2 / 3)


def test_labels_that_are_true_or_false_are_no_class_indices() -> None:
    with pytest.raises(ValueError, match="integer class indices"):
        accuracy(torch.zeros(2, 2), torch.tensor([True, False]))
