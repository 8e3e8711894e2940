"""The benchmark of the learning-rate finder: its rows say the truth, and its problems are what they are said to be."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
import torch
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import lr_finder as benchmark
from contenders import lr_finders
from contenders.lr_problems import PROBLEMS, Problem, mlp
from harness import Timings

SMALL = Problem("digits", mlp, "SGD")


def rows_of(rates: list[float | None], ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """The rows of one problem with the course's rule and one other."""
    suggestions = {"p": {"ours, a": rates, "peer, b": [1e-3, 1e-2, None]}}
    return {row.what: row for row in benchmark.quality_rows(suggestions, {"p": {"ours, a": ours, "peer, b": theirs}})}


def test_the_rows_say_spread_and_regret() -> None:
    rows = rows_of([0.1, 0.19, 0.11], [1.0, 1.2, 1.1], [1.0, 4.0, 1.0])
    assert (rows["p: ours, a, spread"].value, rows["p: ours, a, spread"].holds) == (pytest.approx(1.9), True)
    assert (rows["p: peer, b, spread"].value, rows["p: peer, b, spread"].holds) == (pytest.approx(10), None)
    assert rows["all problems: ours, a, worst regret"].value == 1.2
    assert rows["all problems: peer, b, mean regret"].value == pytest.approx(math.cbrt(4))
    assert rows["all problems: peer, b, regret above 3"].value == 1
    assert rows["all problems: peer, b, no suggestion"].value == 1
    last = rows["all problems: ours, a, worst regret / least of the others'"]
    assert (last.value, last.holds) == (pytest.approx(0.3), True)


def test_a_missed_target_is_a_missed_target() -> None:
    rows = rows_of([0.1, 0.21, None], [1.0, 1.2, 5.0], [1.0, 4.0, 1.0])
    assert rows["p: ours, a, spread"].holds is False
    assert rows["all problems: ours, a, worst regret / least of the others'"].holds is False
    assert rows_of([None, 0.2, None], [1.0] * 3, [1.0] * 3)["p: ours, a, spread"].value is None


@pytest.mark.parametrize(("factor", "holds"), [(1.09, True), (1.11, False)])
def test_the_cost_is_a_ratio_to_the_loop_by_hand_with_the_same_loader(factor: float, holds: bool) -> None:
    rounds = {"by hand, DataLoader": [2.0, 4.0], "ours, DataLoader": [2.0 * factor, 4.0 * factor]}
    rows = {row.what: row for row in benchmark.cost_rows("SGD", Timings({**rounds, "peer, DataLoader": [3.0, 6.0]}))}
    ours, peer = (rows[f"cost, SGD: {name}, DataLoader / by hand"] for name in ("ours", "peer"))
    assert (ours.value, ours.holds) == (pytest.approx(factor), holds)
    assert (peer.value, peer.holds) == (pytest.approx(1.5), None)


def test_there_are_enough_problems_and_a_seed_fixes_one() -> None:
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS) >= 8
    for problem in PROBLEMS:
        losses = [problem.final_loss(seed, 1e-2, 3) for seed in (0, 0, 1)]
        assert losses[0] == losses[1] != losses[2], problem.name


def test_a_run_that_diverges_or_has_no_rate_counts_the_loss_before_training() -> None:
    before = SMALL.final_loss(0, None, 30)
    assert before == pytest.approx(math.log(10), abs=0.2)
    assert SMALL.final_loss(0, 1e9, 30) == before
    assert SMALL.final_loss(0, 0.1, 30) < 0.8 * before


def test_the_grid_holds_the_best_rate_and_ours_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "TRAINING_STEPS", 40)
    found, regrets = benchmark.try_problem(SMALL, {"ours": lr_finders.ours}, seeds=1, per_decade=1)
    assert list(found) == list(regrets) == ["ours, valley_floor", "ours, minimum_over_10", "ours, steepest"]
    assert regrets["ours, valley_floor"][0] < 2


def test_a_finder_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise ImportError("no module")

    monkeypatch.setattr(benchmark, "FINDERS", {"ours": lr_finders.ours, "absent": missing})
    assert benchmark.installed(SMALL) == ({"ours": lr_finders.ours}, ["absent"])


def test_by_hand_takes_as_many_steps_as_a_sweep() -> None:
    losses = benchmark.by_hand(SMALL, "TensorLoader")
    assert len(losses) == lr_finders.STEPS
    assert torch.get_default_dtype() == torch.float32
