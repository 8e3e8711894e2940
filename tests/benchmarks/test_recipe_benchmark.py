"""The benchmark of the recipe: its rows say the truth, and a contender that trains something else is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import recipe as benchmark
from contenders import training_loop
from harness import Timings


@pytest.mark.parametrize(("above", "holds"), [(-10e-6, True), (24e-6, True), (26e-6, False)])
def test_the_rows_say_what_a_step_costs_above_the_loop_by_hand(above: float, holds: bool) -> None:
    steps, by_hand = 100, 300e-6
    rounds = {
        "by hand, DataLoader": [600e-6 * steps] * 3,
        "the recipe, DataLoader": [(600e-6 + above) * steps] * 3,
        "by hand, TensorLoader": [by_hand * steps, 2 * by_hand * steps, by_hand * steps],
        "the recipe, TensorLoader": [
            (by_hand + above) * steps,
            (2 * by_hand + above) * steps,
            (by_hand + above) * steps,
        ],
        "Lightning, DataLoader": [1500e-6 * steps] * 3,
    }
    rows = {row.what: row for row in benchmark.step_rows(Timings(rounds), steps)}
    for kind in ("DataLoader", "TensorLoader"):
        row = rows[f"step: the recipe, {kind}, above by hand"]
        assert row.value == pytest.approx(above * 1e6)
        assert row.holds is holds
    peer = rows["step: Lightning, DataLoader, above by hand"]
    assert (peer.value, peer.holds) == (pytest.approx(900), None)
    assert rows["step: the recipe, TensorLoader / by hand, DataLoader"].holds is True


def test_the_recipe_and_the_loop_by_hand_end_with_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "PEERS", {})
    assert benchmark.agreeing() == ({}, [])

    def slower(network: Any, batches: Any, epochs: int) -> Any:
        return training_loop.by_hand(network, list(batches)[:5], epochs)

    monkeypatch.setattr(benchmark, "PEERS", {"slower": slower})
    with pytest.raises(AssertionError, match=r"slower and the loop by hand differ by \d"):
        benchmark.agreeing()


def test_a_trainer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise ImportError("no module")

    monkeypatch.setattr(benchmark, "PEERS", {"absent": missing})
    assert benchmark.agreeing() == ({}, ["absent"])


def test_the_average_is_measured_beside_torchs() -> None:
    rows = benchmark.average_rows(rounds=2)
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert torch.get_default_dtype() == torch.float32
