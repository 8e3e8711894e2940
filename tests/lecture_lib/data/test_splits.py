"""Splits by group and by time: nothing on both sides, sizes as asked for, bad columns refused."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lecture_lib.data import chronological_split, grouped_split, stratified_split


@st.composite
def grouped(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    groups = np.array(draw(st.lists(st.integers(0, 12), min_size=30, max_size=120)))
    return groups, np.random.default_rng(draw(st.integers(0, 99))).integers(3, size=len(groups))


@settings(max_examples=60, deadline=None)
@given(grouped(), st.sampled_from([(0.8, 0.2), (0.6, 0.2, 0.2), (0.5, 0.5)]), st.booleans())
def test_no_group_is_in_two_parts_and_every_example_is_in_one(drawn, fractions, with_labels):
    groups, labels = drawn
    if len(set(groups.tolist())) < len(fractions) or len(set(labels.tolist())) < 2:
        return
    parts = grouped_split(groups, fractions, labels=labels if with_labels else None, seed=1)
    assert sorted(torch.cat(parts).tolist()) == list(range(len(groups)))
    owners = [set(groups[part.numpy()].tolist()) for part in parts]
    assert all(owners)
    assert sum(map(len, owners)) == len(set.union(*owners))


def test_parts_are_as_large_as_asked_and_balanced_in_class():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), generator.integers(4, 14, 60))
    # A patient has mostly one class, so that a split by size alone is unbalanced.
    labels = (generator.random(len(groups)) < np.where(generator.random(60) < 0.2, 0.9, 0.05)[groups]).astype(int)
    train, validation = grouped_split(groups, (0.75, 0.25), labels=labels, seed=0)
    assert len(validation) / len(groups) == pytest.approx(0.25, abs=0.01)
    for seed in range(5):
        _, validation = grouped_split(groups, (0.75, 0.25), labels=labels, seed=seed)
        assert labels[validation].mean() == pytest.approx(labels.mean(), abs=0.01)
    folds = grouped_split(groups, (0.2,) * 5, seed=0)
    assert max(map(len, folds)) - min(map(len, folds)) <= 5
    assert not torch.equal(train, grouped_split(groups, (0.75, 0.25), labels=labels, seed=1)[0])
    assert torch.equal(train, grouped_split(groups, (0.75, 0.25), labels=labels, seed=0)[0])


def test_one_large_group_leaves_no_part_empty():
    parts = grouped_split([*["a"] * 97, "b", "c", "d"], (0.4, 0.3, 0.3), seed=0)
    assert all(map(len, parts))
    # Half of the examples are far more than a tenth, and still better than none.
    assert sorted(map(len, grouped_split([7, 8], (0.9, 0.1), seed=0))) == [1, 1]


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(lambda n: n, id="numbers"),
        pytest.param(lambda n: torch.from_numpy(n), id="tensor"),
        pytest.param(lambda n: np.datetime64("2024-01-01") + n.astype("timedelta64[h]"), id="datetime64"),
        pytest.param(
            lambda n: [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=int(h)) for h in n], id="list"
        ),
    ],
)
def test_each_part_is_older_than_the_next(times):
    hours = np.random.default_rng(0).permutation(100).repeat(3)
    first, second, third = chronological_split(times(hours), (0.5, 0.25, 0.25))
    assert [len(first), len(second), len(third)] == [150, 75, 75]
    assert sorted(torch.cat([first, second, third]).tolist()) == list(range(300))
    for earlier, later in ((first, second), (second, third)):
        assert hours[earlier].max() < hours[later].min()
    assert (np.diff(hours[first]) >= 0).all()


def test_equal_times_stay_together_and_the_gap_is_left_out():
    times = np.array([0, 1, 1, 1, 1, 1, 1, 2, 3, 4])
    train, validation = chronological_split(times, (0.5, 0.5))
    assert sorted(times[train]) in ([0], [0, 1, 1, 1, 1, 1, 1])
    days = np.arange(20)
    train, validation = chronological_split(days, (0.5, 0.5), gap=3)
    assert (days[train].max(), days[validation].min()) == (7, 10)
    dates = np.datetime64("2024-01-01") + days
    for gap in (datetime.timedelta(days=3), np.timedelta64(3, "D")):
        assert torch.equal(chronological_split(dates, (0.5, 0.5), gap=gap)[0], train)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        pytest.param(lambda: grouped_split(["a", None, "b"], (0.5, 0.5), seed=0), "1 of 3 are missing", id="none"),
        pytest.param(lambda: grouped_split([1.0, np.nan], (0.5, 0.5), seed=0), "missing .*number 1", id="nan"),
        pytest.param(lambda: grouped_split(["a", ""], (0.5, 0.5), seed=0), "missing", id="empty-text"),
        pytest.param(lambda: grouped_split("patient", (0.5, 0.5), seed=0), "pass the column itself", id="a-name"),
        pytest.param(lambda: grouped_split([[1, 2]], (0.5, 0.5), seed=0), "one value for each", id="table"),
        pytest.param(lambda: grouped_split([], (0.5, 0.5), seed=0), "one value for each", id="empty"),
        pytest.param(lambda: grouped_split([1, 1, 2], (0.2,) * 5, seed=0), r"2 group\(s\) for 5", id="few-groups"),
        pytest.param(
            lambda: grouped_split([1, 2, 3], (0.5, 0.5), labels=[0, 1], seed=0), "2 values for 3|3 values", id="lengths"
        ),
        pytest.param(
            lambda: grouped_split([1, 2], (0.5, 0.5), labels=[1, 1], seed=0), "one class only", id="one-class"
        ),
        pytest.param(lambda: grouped_split([1, 2], (0.5, 0.6), seed=0), "sum to 1.1", id="fractions"),
        pytest.param(lambda: stratified_split([1] * 10, (0.5, 0.5), seed=0), "one class only", id="stratified"),
        pytest.param(lambda: chronological_split([1, None], (0.5, 0.5)), "missing", id="time-none"),
        pytest.param(lambda: chronological_split([1, np.inf], (0.5, 0.5)), "not finite", id="time-infinite"),
        pytest.param(
            lambda: chronological_split(np.array(["2024-01-01", "NaT"], "datetime64[D]"), (0.5, 0.5)),
            "missing",
            id="time-nat",
        ),
        pytest.param(lambda: chronological_split(["monday", "friday"], (0.5, 0.5)), "numbers or dates", id="time-text"),
        pytest.param(lambda: chronological_split([5, 5, 5], (0.5, 0.5)), "1 different times", id="one-time"),
        pytest.param(lambda: chronological_split([1, 2, 3, 4], (0.5, 0.5), gap=9), "a part is empty", id="gap-large"),
        pytest.param(lambda: chronological_split([1, 2, 3, 4], (0.5, 0.5), gap=-1), "0 or more", id="gap-negative"),
        pytest.param(
            lambda: chronological_split([1, 2, 3, 4], (0.5, 0.5), gap=datetime.timedelta(1)),
            "timedelta for",
            id="gap-kind",
        ),
    ],
)
def test_bad_columns_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
