"""Ablations: intervals against SciPy, the stated error rate against simulation, and what is refused."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from conftest import ROOT
from scipy import stats

from lecture_lib.experiments import Ablation, ablate

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import ablation as benchmark

BASE = {"rate": 0.1, "width": 32, "salt": 0}


def noisy(config: dict[str, Any], seed: int) -> tuple[float, float]:
    """The rate and the width help or harm, the salt only draws; seeds matter to all alike."""
    drawn = np.random.default_rng([seed, config["salt"], config["width"], int(10 * config["rate"])])
    shared = np.random.default_rng(seed).normal()
    metric = shared + 10 * (config["rate"] - 0.1) - (config["width"] - 32) / 10 + 0.1 * drawn.normal()
    return float(metric), float(config["width"])


CHANGES = {"faster": {"rate": 0.2}, "wider": {"width": 64}, "salted": {"salt": 7}}


def test_verdicts_gains_intervals_and_costs() -> None:
    seeds = range(6)
    found = ablate(noisy, BASE, CHANGES, seeds)
    assert [effect.verdict for effect in found.effects] == ["likely useful", "worse", "noise"]
    assert [effect.cost_ratio for effect in found.effects] == [1, 2, 1]
    for effect, change in zip(found.effects, CHANGES.values(), strict=True):
        with_it, without = ([noisy(config, seed)[0] for seed in seeds] for config in (BASE | change, BASE))
        interval = stats.ttest_rel(with_it, without).confidence_interval(1 - 0.05 / 3)
        assert effect.gain - effect.needed == pytest.approx(interval.low)
        assert effect.gain + effect.needed == pytest.approx(interval.high)
        assert effect.pairs == 6


def test_a_loss_gains_by_falling() -> None:
    up, down = (ablate(noisy, BASE, CHANGES, range(4), higher_is_better=better).effects for better in (True, False))
    assert [effect.gain for effect in up] == [-effect.gain for effect in down]
    assert down[1].verdict == "likely useful"


def test_every_configuration_gets_the_same_seeds_and_its_own_copy() -> None:
    asked = []

    def run(config: dict[str, Any], seed: int) -> float:
        asked.append((config["layers"][0], config["rate"], seed))
        config["layers"].append(0)
        return float(seed * config["rate"])

    base = {"layers": [8], "rate": 1.0}
    found = ablate(run, base, {"a": {"rate": 2.0}, "b": {"layers": [16]}}, [3, 5])
    assert base == {"layers": [8], "rate": 1.0}
    assert asked == [(8, 1, 3), (8, 2, 3), (16, 1, 3), (8, 1, 5), (8, 2, 5), (16, 1, 5)]
    assert {seed: metric for seed, (metric, _) in found.changed["a"].items()} == {3: 6.0, 5: 10.0}
    assert all(cost >= 0 for _, cost in found.base.values())  # seconds, when none are given


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("changes", [1, 4])
def test_without_effect_the_false_positive_rate_is_the_stated_one(seeds: int, changes: int) -> None:
    draws = np.random.default_rng(0).normal(size=(3000, seeds, changes + 1))
    wrong = 0
    for trial in draws:
        named = {str(i): {j: (trial[j, i + 1], 1.0) for j in range(seeds)} for i in range(changes)}
        base = {j: (trial[j, 0], 1.0) for j in range(seeds)}
        found = Ablation(tuple(range(seeds)), 0.05, True, base, named, {})
        wrong += any(effect.verdict != "noise" for effect in found.effects)
    low, high = stats.binomtest(wrong, 3000).proportion_ci(0.999)
    assert low <= 0.05  # at most the stated rate, over all changes together
    assert high >= (0.05 if changes == 1 else 0.02)  # and for one change that rate itself


@pytest.mark.parametrize("seeds", [3, 4, 5, 6, 7])
def test_what_tests_without_normality_can_reach_is_counted(seeds: int) -> None:
    """The smallest p, by going through all ways to flip signs and to divide into two groups."""
    found = ablate(noisy, BASE, {"salted": {"salt": 1}}, range(seeds))
    flipped = [abs(sum(signs)) for signs in itertools.product([1, -1], repeat=seeds)]
    flips = flipped.count(seeds) / len(flipped)
    groups = [sum(group) for group in itertools.combinations(range(2 * seeds), seeds)]
    extreme = [min(groups), max(groups)]
    ranks = sum(group in extreme for group in groups) / len(groups)
    assert f"of {seeds} seeds is {flips:.3g} (sign flips) or {ranks:.3g} (unpaired ranks)" in found.statement
    assert "sign flips need 6 seeds" in found.statement
    if seeds == 3:
        assert flips == 0.25
        assert ranks == 0.1


def test_the_statement_names_the_smallest_effect_that_gets_a_verdict() -> None:
    found = ablate(noisy, BASE, CHANGES, range(3))
    assert found.needed_spreads(3) == pytest.approx(stats.t.ppf(1 - 0.05 / 6, 2) / 3**0.5)
    assert f"{found.needed_spreads(3):.2f} of their standard deviations" in found.statement
    assert "false-positive rate of at most 5.0% over all changes" in found.statement
    one = Ablation((0, 1, 2), 0.05, True, {}, {"a": {}}, {})
    assert one.needed_spreads(3) == pytest.approx(2.484, abs=1e-3)
    for gain, verdict in ((2.48, "noise"), (2.49, "likely useful"), (-2.49, "worse")):
        differences = {0: (gain - 1, 1.0), 1: (gain, 1.0), 2: (gain + 1, 1.0)}  # standard deviation 1
        base = dict.fromkeys(range(3), (0.0, 1.0))
        (effect,) = Ablation((0, 1, 2), 0.05, True, base, {"a": differences}, {}).effects
        assert effect.verdict == verdict


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_equal_differences_are_no_evidence(gain: float) -> None:
    found = ablate(
        lambda config, seed: 0.7 + 0.1 * seed + gain * config["rate"], {"rate": 0}, {"a": {"rate": 1}}, [1, 2, 3]
    )
    assert found.effects[0].verdict == "noise"
    assert found.effects[0].needed == (math.inf if gain else 0)


def test_a_failed_run_is_reported_and_the_others_are_kept() -> None:
    def run(config: dict[str, Any], seed: int) -> float:
        if config["width"] == 64 and seed == 1:
            raise RuntimeError("out of memory")
        return math.nan if config["rate"] == 0.2 and seed > 0 else noisy(config, seed)[0]

    found = ablate(run, BASE, CHANGES, range(4))
    assert [(effect.pairs, effect.verdict) for effect in found.effects] == [
        (1, "not judged"),
        (3, "worse"),
        (4, "noise"),
    ]
    assert list(found.failures) == [("faster", 1), ("wider", 1), ("faster", 2), ("faster", 3)]
    assert "failed: wider, seed 1: RuntimeError('out of memory')" in str(found)
    assert "run returned metric nan" in str(found.failures["faster", 2])


def test_a_failed_base_costs_its_pair() -> None:
    def run(config: dict[str, Any], seed: int) -> float:
        if config == BASE and seed == 2:
            raise RuntimeError
        return noisy(config, seed)[0]

    found = ablate(run, BASE, CHANGES, range(5))
    assert [effect.pairs for effect in found.effects] == [4, 4, 4]
    assert list(found.failures) == [("base", 2)]


def test_an_interrupt_carries_what_was_finished() -> None:
    def run(config: dict[str, Any], seed: int) -> float:
        if seed == 2:
            raise KeyboardInterrupt
        return noisy(config, seed)[0]

    with pytest.raises(KeyboardInterrupt) as raised:
        ablate(run, BASE, CHANGES, range(5))
    assert [effect.pairs for effect in raised.value.ablation.effects] == [2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "extra", "message"),
    [
        ({"a": {"rates": 0.2}}, {}, "sets 'rates', which is not a setting of base: rate, width, salt"),
        ({"a": {"rate": 0.2, "width": 64}}, {}, r"sets 2 settings \(rate, width\).*combined=\['a'\]"),
        ({"a": {}}, {}, "sets 0 settings"),
        ({"a": {"rate": 0.2}}, {"combined": ["a"]}, "sets 1 settings"),
        ({"a": {"rate": 0.1}}, {}, "sets 'rate' to 0.1, as base does"),
        ({"": {"rate": 0.2}}, {}, "change ''"),
        ({}, {}, r"changes are \[\]"),
        (CHANGES, {"level": 1.0}, "level is 1.0"),
        (CHANGES, {"seeds": [1]}, r"seeds are \[1\]; pass two or more"),
        (CHANGES, {"seeds": [1, 1]}, "each once"),
    ],
)
def test_what_is_no_ablation_is_refused_before_anything_runs(changes: Any, extra: dict[str, Any], message: str) -> None:
    def run(config: dict[str, Any], seed: int) -> float:
        raise AssertionError("it ran")

    with pytest.raises(ValueError, match=message):
        ablate(run, BASE, changes, **({"seeds": range(3)} | extra))


def test_two_settings_may_change_when_that_is_declared() -> None:
    found = ablate(noisy, BASE, CHANGES | {"both": {"rate": 0.2, "width": 64}}, range(3), combined=["both"])
    assert found.effects[-1].name == "both"
    with pytest.raises(TypeError, match="run is 3"):
        ablate(3, BASE, CHANGES, range(3))


def test_the_table_and_the_plot(capsys: pytest.CaptureFixture[str]) -> None:
    found = ablate(noisy, BASE, CHANGES, range(4), progress=True)
    assert "16/16" in capsys.readouterr().err
    rows = found.as_rows()
    assert [row["name"] for row in rows] == list(CHANGES)
    assert set(rows[0]) == {"name", "pairs", "gain", "needed", "cost_ratio", "verdict"}
    text = str(found).splitlines()
    assert text[0].split() == ["change", "gain", "needed", "cost", "seeds", "verdict"]
    assert text[2].split()[0] == "wider"
    assert text[2].endswith("2.00x  4      worse")
    assert text[-1] == found.statement
    figure = found.plot()
    (ax,) = figure.axes
    assert [label.get_text().splitlines()[0] for label in ax.get_yticklabels()] == [
        f"{row['name']}: {row['verdict']}" for row in rows
    ]
    ends = [bar.get_paths()[0].vertices[:, 0] for bar in ax.collections]
    for row, (low, high) in zip(rows, ends, strict=True):
        assert (low, high) == pytest.approx((row["gain"] - row["needed"], row["gain"] + row["needed"]))
    _, own = plt.subplots()
    assert found.plot(own) is own.figure
    plt.close("all")


def test_the_benchmark_trains_for_real_and_judges_its_rate() -> None:
    torch.set_num_threads(1)
    config = {"rate": 0.1, "salt": 0}
    first = benchmark.train_digits(config, 0)
    assert first == benchmark.train_digits(config, 0)
    assert first != benchmark.train_digits(config | {"salt": 1}, 0)
    assert first[0] < 1  # it learns: ln 10 is 2.3
    for wrong, holds in ((0, True), (10, True), (30, False)):
        (row, *_) = benchmark.rate_rows("x", wrong, 200)
        assert row.value == pytest.approx(wrong / 2)
        assert row.holds is holds
