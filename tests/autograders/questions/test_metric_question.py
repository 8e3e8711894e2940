"""03a-metric: the reference against PyTorch and scikit-learn, what every set holds, and messages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from autograders.questions.cases import Case
from autograders.questions.coverage import ALLOWED
from autograders.questions.descriptions import metric, metric_cases, metric_measures
from autograders.questions.domain import sample
from autograders.questions.question import QUESTIONS
from lecture_lib.analysis.metrics import macro_f1
from lecture_lib.notebook import check_result

METRIC = QUESTIONS["03a-metric"]
DRAWN = [case for index in range(8) for case in METRIC.draw(b"test", "test", index)]


@pytest.mark.parametrize("cases", [DRAWN, sample(METRIC.description, 200)], ids=["drawn", "domain"])
def test_the_reference_agrees_with_pytorch_and_scikit_learn(cases: list[Case]) -> None:
    for case in cases:
        logits, labels = (np.concatenate(case.inputs[name]) for name in ("logits", "labels"))
        right = metric.reference(case)
        loss = torch.nn.functional.cross_entropy(torch.tensor(logits).double(), torch.tensor(labels))
        assert right["measure.loss"] == pytest.approx(loss.item(), rel=1e-12)
        logits, labels = logits[labels >= 0], labels[labels >= 0]
        predicted = logits.argmax(axis=1)
        assert right["measure.accuracy"] == pytest.approx(accuracy_score(labels, predicted))
        with np.errstate(all="ignore"):
            of_sklearn = f1_score(labels, predicted, average="macro", zero_division=0.0)
        assert right["measure.macro F1"] == pytest.approx(of_sklearn)
        assert right["measure.macro F1"] == pytest.approx(macro_f1(logits, labels))
        for column, (index, best) in enumerate(zip(right["preferred.models"], (min, max, max), strict=True)):
            values = [row[column] for row in case.inputs["measured"]]
            assert values[index] == best(values)
            assert best(values) not in values[:index]


def test_inputs_keep_to_the_wording() -> None:
    for case in [*DRAWN, *sample(METRIC.description, 200)]:
        logits, labels = (np.concatenate(case.inputs[name]) for name in ("logits", "labels"))
        assert len({batch.dtype for batch in case.inputs["logits"]}) == 1
        assert min(map(len, case.inputs["labels"])) >= 1
        assert np.abs(logits).max() <= 20
        top = np.sort(logits, axis=1)
        assert (top[:, -1] > top[:, -2]).all()
        assert labels.dtype == np.int64
        assert set(labels) <= {-100, *range(logits.shape[1])}
        assert (labels >= 0).any()
        assert len(case.inputs["measured"]) >= 2


def test_a_part_says_which_classes_it_looks_at() -> None:
    """The wording: every class is predicted correctly at least once, or some class is not."""
    for case in DRAWN:
        found = metric_measures.counts(metric_measures.joined(metric_measures.batches_of(case)))
        assert case.kind == ALLOWED or found.both.all() == (case.kind in metric_cases.EVERY_CLASS)


def test_nan_from_a_batch_without_labels_is_named() -> None:
    def measure(batches):
        total = count = 0
        for logits, labels in batches:
            weight = (labels >= 0).sum()
            total += weight * torch.nn.functional.cross_entropy(logits, labels)
            count += weight
        return total / count, 0.5, 0.5

    lines = check_result("03a-metric", measure, lambda measured: [0, 0, 0]).lines
    assert "empty-batch" in {line.misconception for line in lines}


def test_the_librarys_macro_f1_is_switched_off_while_checked() -> None:
    def measure(batches):
        logits, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
        return 0.0, 0.0, macro_f1(logits[labels >= 0], labels[labels >= 0])

    assert "does what this question asks for" in repr(check_result("03a-metric", measure, lambda measured: [0, 0, 0]))
