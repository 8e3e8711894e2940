"""Diagnosis of curves: against real runs whose pattern is known, and against curves that sit beside a limit."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from torch import nn

from lecture_lib.analysis import diagnose
from lecture_lib.analysis._curve_texts import PATTERNS
from lecture_lib.data import TensorLoader
from lecture_lib.training import Epoch, History, train

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import itertools

import curves as benchmark
from contenders.curve_runs import WAYS, run_of

pytestmark = pytest.mark.slow

ALL = [(pattern, way) for pattern, ways in WAYS.items() for way in ways]


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("pattern", "way"), ALL, ids=[way.__name__ for _, way in ALL])
def test_a_real_run_gets_the_name_of_how_it_was_made(pattern: str, way: Any) -> None:
    run = run_of(way, 3000)
    found = diagnose(run)
    assert found.pattern == pattern, found
    if isinstance(run, History):  # the rows alone say the same
        assert diagnose(run.rows) == diagnose(run.as_rows()) == found


def test_the_table_has_a_text_for_every_pattern_of_the_lecture() -> None:
    assert set(WAYS) == set(PATTERNS)
    for meaning, actions in PATTERNS.values():
        assert meaning.endswith(".")
        assert len(actions) >= 2


def rows(train_losses: list[float], val_losses: list[float]) -> list[dict[str, float]]:
    return [{"train_loss": a, "val_loss": b} for a, b in zip(train_losses, val_losses, strict=True)]


def falling(end: float, epochs: int = 12) -> list[float]:
    """From 1 to `end` and settled there."""
    return [end + (1 - end) * math.exp(-i) for i in range(epochs)]


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize(
    ("train_end", "val_end", "pattern"),
    [
        (0.10, 0.15, "healthy"),
        (0.10, 0.20, "overfit"),
        (0.10, 0.08, "validation below training"),
        (0.30, 0.33, "healthy"),
        (0.50, 0.53, "underfit"),
        (0.50, 0.60, "underfit"),
        (0.50, 0.80, "overfit"),
        (0.02, 0.02, "leakage-like"),
        (0.97, 0.98, "flat"),
    ],
)
def test_ends_decide_whatever_the_losses_unit_is(unit: float, train_end: float, val_end: float, pattern: str) -> None:
    found = diagnose(
        rows([unit * one for one in falling(train_end)], [unit * one for one in falling(val_end)]),
    )
    assert found.pattern == pattern, found


def test_what_is_given_back_is_a_share_of_what_was_gained() -> None:
    train_losses = falling(0.2, 12)
    val = [*falling(0.25, 8), 0.3, 0.35, 0.4, 0.45]
    found = diagnose(rows(train_losses, val))
    assert found.pattern == "improves then worsens"
    assert "gave back 2" in found.evidence  # 0.45 and 0.4 against 0.25, of 0.75
    assert found.actions[0].startswith("take the best epoch's weights")


def test_a_slow_fall_is_told_from_a_plateau() -> None:
    steady = [2.3 - 0.05 * i for i in range(12)]
    assert diagnose(rows(steady, steady)).pattern == "healthy"


def test_validation_at_an_epochs_end_is_compared_with_training_at_that_moment() -> None:
    losses = [0.7**i for i in range(9)]
    train_losses, val = losses[:-1], [(a + b) / 2 for a, b in itertools.pairwise(losses)]
    assert all(b < 0.86 * a for a, b in zip(train_losses, val, strict=True))
    assert diagnose(rows(train_losses, val)).pattern == "healthy"


def test_jumps_count_where_the_loss_is_and_not_where_it_has_vanished() -> None:
    random.seed(0)
    jumps = [1.5 if i % 2 else 1.0 for i in range(12)]
    assert diagnose(rows(falling(0.9), jumps)).pattern == "oscillating"
    tiny = [1.0, 0.1, *[0.002 if i % 2 else 0.004 for i in range(10)]]
    assert diagnose(rows(tiny, tiny)).pattern == "leakage-like"


def test_a_perfect_metric_is_evidence_for_leakage() -> None:
    table = rows(falling(0.3), falling(0.1))
    assert diagnose(table).pattern == "validation below training"
    found = diagnose([{**row, "val_metric": 1.0} for row in table])
    assert (found.pattern, "perfect metric" in found.evidence) == ("leakage-like", True)


@pytest.mark.parametrize("name", ["train_loss", "val_loss"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_explosion_whatever_came_before(name: str, value: float) -> None:
    table = rows(falling(0.2), falling(0.3))
    table[-1][name] = value
    found = diagnose(table[-3:])
    assert (found.pattern, f"{name} is {value} in epoch 3" in found.evidence) == ("exploding", True)


def test_a_run_that_ended_by_an_error_is_read_from_the_error() -> None:
    x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
    x[20] = math.nan
    loader = TensorLoader(x, x[:, :1].nan_to_num(), batch_size=8)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with pytest.raises(FloatingPointError) as raised:
        train(model, loader, [(x[:8], x[:8, :1])], optimizer, F.mse_loss, 2, metric=lambda outputs, labels: 0.0)
    found = diagnose(raised.value)
    assert found.pattern == "exploding"
    assert "ended in epoch 1" in found.evidence
    assert "step 3" in found.evidence


def test_skipped_steps_are_an_explosion_too_but_not_a_few_at_the_start() -> None:
    def history(skipped: int) -> History:
        return History([Epoch(i + 1, a, a, 0.5, 0.1, 10 * (i + 1), skipped) for i, a in enumerate(falling(0.3))])

    assert diagnose(history(0)) == diagnose(history(3))
    found = diagnose(history(30))
    assert (found.pattern, "30 of 120 steps were skipped" in found.evidence) == ("exploding", True)


def test_an_interrupted_run_is_judged_by_its_rows() -> None:
    error = KeyboardInterrupt()
    error.history = History([Epoch(i + 1, a, a, 0.5, 0.1, 10) for i, a in enumerate(falling(0.3))])
    assert diagnose(error).pattern == "healthy"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(falling(0.2, 4), falling(0.3, 4)), r"4 epoch\(s\); a pattern needs 5 or more"),
        ([], r"0 epoch\(s\)"),
        (rows([-one for one in falling(0.2)], falling(0.3)), "a loss is -1"),
    ],
    ids=["short", "empty", "negative"],
)
def test_what_cannot_be_judged_is_refused(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(table)


def test_a_diagnosis_reads_as_text() -> None:
    found = diagnose(rows(falling(0.1), falling(0.4)))
    lines = str(found).splitlines()
    assert lines[0].startswith("overfit: from 1, training ends at 10% and validation at 40% of it")
    assert lines[1] == found.meaning
    assert lines[2:] == [f"- {action}" for action in found.actions]
    assert replace(found, actions=()).actions == ()


def test_the_benchmarks_rows_say_whether_their_targets_hold() -> None:
    right = Counter({(pattern, pattern): 30 for pattern in WAYS})
    rows_of = {row.what: row for row in benchmark.rows_of(right)}
    assert [row.holds for row in rows_of.values()] == [True] * 10
    wrong = right + Counter({("flat", "underfit"): 2})
    found = {row.what: row for row in benchmark.rows_of(wrong)}
    assert found["flat: named right in 32 runs"].value == pytest.approx(93.75)
    assert found["flat: named right in 32 runs"].holds is False
    assert found["confusions in 272 runs"].holds is False  # 2 of at most 1.36
    line = next(line for line in benchmark.confusion_table(wrong).splitlines() if line.startswith(" 2  flat"))
    assert line.split() == ["2", "flat", ".", "30", ".", ".", ".", "2", ".", ".", "."]
