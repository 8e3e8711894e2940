"""What names and numbers stand for: metrics by their definitions, ids by their numbering."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging.faults.id_rules import _highest_are_missing, numbered_anew
from lecture_lib.debugging.faults.metric_rules import line_at_a_half
from lecture_lib.debugging.faults.named_metrics import metric_is_another, reports_otherwise

PADDED = -100


def classes(metric: Any) -> Evidence:
    """Three classes of rows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    return evidence(x, x[:, :3].argmax(dim=1), nn.Linear(4, 3), F.cross_entropy, "classification", metric)


def tags(metric: Any = None, evaluate: Any = None, count: int = 5) -> Evidence:
    """A tag for each of five words, of which the last two of most sentences are padding."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 9, (200, 5), generator=generator)
    y = x % count
    y[:150, 3:] = PADDED
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, count))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    return evidence(x, y, model, loss, "sequence", metric, evaluate)


def numbers(metric: Any) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    y = x[:, :1] + 2
    return evidence(x, y, nn.Linear(4, 1), F.mse_loss, "regression", metric)


def yes_or_no(metric: Any) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    y = (x[:, :1] + x[:, 1:2] > 0).float()
    loss = F.binary_cross_entropy_with_logits
    return evidence(x, y, nn.Linear(4, 1), loss, "multi-label", metric)


def evidence(
    x: Tensor, y: Tensor, model: nn.Module, loss: Any, task: Any, metric: Any, evaluate: Any = None
) -> Evidence:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss,
        DataLoader(TensorDataset(x[:100], y[:100]), 20, shuffle=True, generator=torch.Generator().manual_seed(0)),
        DataLoader(TensorDataset(x[100:], y[100:]), 30),
        metric=metric,
        evaluate=evaluate,
    )
    return Evidence(program, Spec(task=task, epochs=1))


def accuracy(outputs: Tensor, y: Tensor) -> float:
    return float((outputs.argmax(dim=-1) == y)[y >= 0].double().mean())


def accuracy_with_padding(outputs: Tensor, y: Tensor) -> float:
    known = y >= 0
    return float((outputs.argmax(dim=-1) * known == y * known).double().mean())


def mean_of_sentences(outputs: Tensor, y: Tensor) -> float:
    known = y >= 0
    return float((((outputs.argmax(dim=-1) == y) & known).sum(dim=1) / known.sum(dim=1)).mean())


def r2(outputs: Tensor, y: Tensor) -> float:
    return 1 - float((outputs - y).square().sum() / (y - y.mean()).square().sum())


def r2_of_answers(outputs: Tensor, y: Tensor) -> float:
    return r2(y, outputs)


def r2_from_zero(outputs: Tensor, y: Tensor) -> float:
    return 1 - float((outputs - y).square().sum() / y.square().sum())


def of_logits(outputs: Tensor, y: Tensor) -> float:
    return float(((outputs > 0) == (y > 0)).double().mean())


def above_a_half(outputs: Tensor, y: Tensor) -> float:
    return float(((outputs > 0.5) == (y > 0)).double().mean())


def of_probabilities(outputs: Tensor, y: Tensor) -> float:
    return above_a_half(outputs.sigmoid(), y)


def brier(outputs: Tensor, y: Tensor) -> float:
    return -float((outputs.sigmoid() - y).square().mean())


def named(function: Any, name: str) -> Any:
    def metric(outputs: Tensor, y: Tensor) -> float:
        return float(function(outputs, y))

    metric.__name__ = name
    return metric


class TestMetricsAreWhatTheirNamesSay:
    @pytest.mark.parametrize(
        ("build", "metric", "name"),
        [
            (classes, accuracy, "accuracy"),
            (classes, lambda outputs, y: 100 * accuracy(outputs, y), "val_acc"),
            (tags, accuracy, "token_accuracy"),
            (tags, mean_of_sentences, "accuracy"),
            (numbers, r2, "r_squared"),
            (numbers, lambda outputs, y: -F.mse_loss(outputs, y), "mse"),
            (numbers, r2_of_answers, "explained"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_right_one_and_one_without_a_known_name_are_left_alone(self, build: Any, metric: Any, name: str) -> None:
        assert metric_is_another(build(named(metric, name))) is None

    @pytest.mark.parametrize(
        ("build", "metric", "name"),
        [
            (tags, accuracy_with_padding, "accuracy"),
            (numbers, r2_of_answers, "r2"),
            (numbers, r2_from_zero, "r_squared"),
            (numbers, lambda outputs, y: F.mse_loss(outputs, y), "rmse"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_wrong_formula_is_a_difference_in_the_metric(self, build: Any, metric: Any, name: str) -> None:
        found = metric_is_another(build(named(metric, name)))
        assert found is not None
        assert (found.part, found.kind, found.certain) == ("metric", "difference", False)

    @pytest.mark.parametrize(
        ("metric", "accused"), [(of_logits, False), (above_a_half, True), (of_probabilities, False), (brier, False)]
    )
    def test_a_logit_is_yes_from_zero_on(self, metric: Any, accused: bool) -> None:
        found = line_at_a_half(yes_or_no(metric))
        assert (found is not None) == accused

    def test_as_many_classes_as_places(self) -> None:
        """Either axis may be that of the classes, so both readings are allowed."""
        assert metric_is_another(tags(named(accuracy, "accuracy"), count=5)) is None

    @pytest.mark.parametrize("padded", [False, True])
    def test_an_evaluation_that_counts_padding_reports_another_number(self, padded: bool) -> None:
        def evaluate(program: Program) -> dict[str, float]:
            batches = [(program.model(x), y) for x, y in program.val_loader or ()]
            outputs, y = (torch.cat([batch[place] for batch in batches]) for place in (0, 1))
            return {"accuracy": accuracy_with_padding(outputs, y) if padded else accuracy(outputs, y)}

        found = reports_otherwise(tags(evaluate=evaluate))
        assert (found is not None) == padded


def table(seed: int, numbering: str, several: bool) -> Evidence:
    """Prices by city; validation has few rows, in which some of 40 cities are missing."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.randn(40, generator=generator)
    share = 1 / (1 + torch.arange(40.0))
    share = share if numbering == "by frequency" else share[torch.randperm(40, generator=generator)]
    city = torch.multinomial(share, 1100, replacement=True, generator=generator)
    price = level[city] + 0.1 * torch.randn(1100, generator=generator)
    known = city[:1000].unique()
    code = torch.searchsorted(known, city)
    if numbering == "its own":
        code[1000:] = torch.searchsorted(city[1000:].unique(), city[1000:])
    area = torch.randn(1100, 1, generator=generator)
    columns = (code, area) if several else (torch.stack([code, torch.zeros_like(code)], dim=1),)
    loaders = [DataLoader(TensorDataset(*(column[rows] for column in (*columns, price))), 50) for rows in SPLIT]
    model = nn.Embedding(40, 1)
    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        F.mse_loss,
        *loaders,
        unpack=(lambda batch: ((batch[0], batch[1]), batch[2])) if several else None,
    )
    return Evidence(program, Spec(task="regression"))


SPLIT = (slice(1000), slice(1000, None))


class TestIds:
    @pytest.mark.parametrize("several", [False, True], ids=["one table", "several inputs"])
    @pytest.mark.parametrize("numbering", ["as in training", "by frequency", "its own"])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_column_that_validation_numbers_by_itself(self, seed: int, numbering: str, several: bool) -> None:
        found = numbered_anew(table(seed, numbering, several))
        if numbering != "its own":
            assert found is None
        else:
            assert found is not None
            assert (found.fault, found.part) == ("D03", "inputs")

    def test_the_chance_that_just_the_last_ids_are_missing(self) -> None:
        """Beside drawing that often."""
        counts, draws = torch.tensor([30, 20, 8, 6, 4]), 12
        generator = torch.Generator().manual_seed(0)
        drawn = torch.multinomial(counts.double(), draws * 40000, replacement=True, generator=generator).view(-1, draws)
        present = torch.stack([(drawn == label).any(dim=1) for label in range(5)], dim=1)
        for size in (3, 4):
            of_that_size = present[present.sum(dim=1) == size]
            last = of_that_size[:, :size].all(dim=1).double().mean()
            assert _highest_are_missing(counts, size, draws) == pytest.approx(float(last), abs=0.06)
        assert _highest_are_missing(counts, 5, draws) == 1
