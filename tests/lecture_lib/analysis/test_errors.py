"""Errors in tables, buckets and slices, and ceilings of pipelines: against counts by hand and planted rates."""

from __future__ import annotations

import math
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from conftest import ROOT
from scipy import stats

from lecture_lib.analysis import bucket_errors, ceiling_analysis, error_table, probabilities, slices
from lecture_lib.analysis.interventions import INTERVENTIONS, OTHER

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

# Tables.


def test_mistakes_with_the_largest_loss_first() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0], [0.2, 0.5, 0.3]])
    table = error_table(p, [0, 0, 0, 2, 2])
    assert [(row.example, row.true, row.predicted) for row in table] == [(3, 2, 0), (1, 0, 1), (2, 0, 2), (4, 2, 1)]
    assert [row.confidence for row in table] == [1.0, 0.6, 0.4, 0.5]
    assert [row.loss for row in table[1:]] == pytest.approx([-math.log(0.1), -math.log(0.3), -math.log(0.3)])
    assert math.isfinite(table[0].loss)
    assert error_table(p[:1], [0]) == []


def test_losses_are_the_cross_entropy() -> None:
    logits, labels = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 4
    table = error_table(probabilities(logits), labels)
    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    assert [row.loss for row in table] == pytest.approx(losses[[row.example for row in table]].tolist(), rel=1e-5)
    assert {row.example for row in table} == set(torch.nonzero(logits.argmax(1) != labels).flatten().tolist())
    with pytest.raises(ValueError, match="no probabilities"):
        error_table(logits, labels)


# Buckets.

WRONG = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
FLAGS = {
    "blur": np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 1], dtype=bool),
    "rare class": np.array([0, 1, 1, 0, 0, 0, 0, 0, 1, 0], dtype=bool),
    "rain": np.zeros(10, dtype=bool),
}


def test_shares_ceilings_and_overlaps_by_hand() -> None:
    found = bucket_errors(WRONG, FLAGS, interventions={"rain": "wait", "blur": "hold still"})
    rows = {row.name: row for row in found.rows}
    assert {name: (row.errors, row.share, row.only) for name, row in rows.items()} == {
        "blur": (2, 0.5, 1), "rare class": (2, 0.5, 1), "rain": (0, 0.0, 0),
    }  # fmt: skip
    assert [rows[name].ceiling for name in FLAGS] == pytest.approx([0.8, 0.8, 0.6])  # of 0.6
    assert (found.examples, found.unassigned, found.overlapping) == (10, 1, 1)
    assert found.cumulative == pytest.approx((0.5, 0.75, 0.75))  # each error once
    assert [rows[name].intervention for name in FLAGS] == ["hold still", INTERVENTIONS["rare class"], "wait"]
    text = str(found).splitlines()
    assert text[-2].split() == ["(no", "bucket)", "1"]
    assert text[-1].startswith("1 error(s) are in several buckets")
    assert found.as_rows()[0]["errors"] == 2


def test_labels_of_errors_alone_give_the_same_buckets_without_gains() -> None:
    asked = []

    def label(i: int) -> list[str]:
        asked.append(i)
        return [name for name, flag in FLAGS.items() if flag[i]]

    found, whole = bucket_errors(WRONG, label), bucket_errors(WRONG, FLAGS)
    assert asked == [0, 1, 2, 3]
    assert [(row.name, row.errors) for row in found.rows] == [("blur", 2), ("rare class", 2)]
    assert all(math.isnan(row.gain) for row in found.rows)
    assert (found.unassigned, found.overlapping) == (whole.unassigned, whole.overlapping)
    assert bucket_errors([1, 0], lambda i: ["odd"]).rows[0].intervention == OTHER


def test_the_gain_is_what_the_flag_adds_to_the_error_rate() -> None:
    """Planted: 10 % errors without a flag, blur adds 30 points, the rare class 20, and rain, the commonest, none."""
    generator = np.random.default_rng(0)
    n = 40_000
    flags = {name: generator.random(n) < rate for name, rate in (("rain", 0.5), ("rare", 0.05), ("blur", 0.2))}
    wrong = generator.random(n) < 0.1 + 0.3 * flags["blur"] + 0.2 * flags["rare"]
    found = bucket_errors(wrong, flags)
    assert [row.name for row in found.rows] == ["blur", "rare", "rain"]  # rain has most errors, and causes none
    assert max(found.rows, key=lambda row: row.errors).name == "rain"
    assert [row.gain for row in found.rows] == pytest.approx([0.3 * 0.2, 0.2 * 0.05, 0], abs=0.004)


def test_a_bucket_alone_gains_its_rate_above_the_rest() -> None:
    found = bucket_errors(WRONG, {"blur": FLAGS["blur"]})
    assert found.rows[0].gain == pytest.approx((2 / 3 - 2 / 7) * 3 / 10)


def test_the_pareto_chart() -> None:
    found = bucket_errors(WRONG, FLAGS)
    figure = found.plot()
    left, right = figure.axes
    assert [bar.get_height() for bar in left.patches] == [row.errors for row in found.rows]
    assert right.lines[0].get_ydata() == pytest.approx([100 * share for share in found.cumulative])
    assert left.get_ylabel() == "errors (examples)"
    _, own = plt.subplots()
    assert found.plot(own) is own.figure
    plt.close("all")


@pytest.mark.parametrize(
    ("wrong", "flags", "message"),
    [
        ([0, 0], {"a": [0, 1]}, "none of 2 examples is an error"),
        ([0, 1], {}, "there are no flags"),
        ([0, 1], lambda i: [], "there are no flags"),
        ([0, 1], {"a": [0, 1, 1]}, r"'a' has shape \[3\].*each of 2 examples"),
        ([0, 1], {"a": [0, 2]}, "expected true or false"),
        ([0.5, 1], {"a": [0, 1]}, "'wrong' has shape"),
        ([], {"a": []}, "'wrong' has shape"),
    ],
)
def test_what_has_no_buckets_is_refused(wrong: Any, flags: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bucket_errors(wrong, flags)


# Slices.


def test_slices_come_worst_first_with_intervals_for_all_together() -> None:
    right = [1, 1, 0, 1, 0, 0, 1, 1]
    column = ["day", "day", "night", "day", "night", "night", "night", "day"]
    night, day = slices(right, column, level=0.9)
    assert (night.value, night.examples, night.metric) == ("night", 4, 0.25)
    assert (day.value, day.metric) == ("day", 1.0)
    interval = stats.binomtest(1, 4).proportion_ci(0.95, method="wilson")
    assert (night.low, night.high) == pytest.approx((interval.low, interval.high))
    assert day.low < 1
    losses = slices([0.5, 1.5, 3.0, 0.2], [1, 1, 2, 1], higher_is_better=False)
    assert [one.value for one in losses] == [2, 1]
    assert (losses[0].low, losses[0].high) == (-math.inf, math.inf)  # of one example
    wide = stats.ttest_1samp([0.5, 1.5, 0.2], 0).confidence_interval(0.975)
    assert (losses[1].low, losses[1].high) == pytest.approx((wide.low, wide.high))


@pytest.mark.parametrize("binary", [True, False])
def test_all_intervals_hold_together_as_often_as_stated(binary: bool) -> None:
    generator = np.random.default_rng(0)
    column = np.repeat(np.arange(5), 40)
    hits = 0
    for _ in range(300):
        values = generator.random(200) < 0.7 if binary else generator.normal(0.7, 1, 200)
        hits += all(one.low <= 0.7 <= one.high for one in slices(values, column))
    assert stats.binomtest(hits, 300).proportion_ci(0.999).high >= 0.95
    assert hits < 300  # and not by being endless


@pytest.mark.parametrize(
    ("values", "column", "level"),
    [([1, 0], ["a"], 0.95), ([1, math.nan], ["a", "a"], 0.95), ([1, 0], ["a", "a"], 95)],
    ids=["lengths", "nan", "level"],
)
def test_what_cannot_be_sliced_is_refused(values: Any, column: Any, level: float) -> None:
    with pytest.raises(ValueError, match="expected finite numbers"):
        slices(values, column, level=level)


# Ceilings.


def test_the_ceilings_of_the_lectures_pipeline() -> None:
    """Alone 83, 91 and 83 of 82: the second component has most to give."""
    known = {(): 82, ("a",): 83, ("b",): 91, ("c",): 83, ("a", "b"): 93, ("a", "b", "c"): 100}
    asked = []

    def evaluate(replaced: tuple[str, ...]) -> float:
        asked.append(replaced)
        return known[replaced]

    rows = ceiling_analysis(evaluate, ["a", "b", "c"])
    assert [(row.name, row.accuracy, row.gain, row.alone) for row in rows] == [
        ("a", 83, 1, 83), ("b", 93, 10, 91), ("c", 100, 7, 83),
    ]  # fmt: skip
    assert sorted(asked) == sorted(known)  # each once
    assert sum(row.gain for row in rows) == 100 - 82


@pytest.mark.parametrize("stages", [[], ["a", "a"]])
def test_stages_that_are_none_are_refused(stages: list[str]) -> None:
    with pytest.raises(ValueError, match="each once"):
        ceiling_analysis(lambda replaced: 1.0, stages)
    with pytest.raises(ValueError, match="with nothing replaced the accuracy is nan"):
        ceiling_analysis(lambda replaced: math.nan, ["a"])
