"""The benchmark on a GPU: without one it says so, and with `--quick` its loops do the same training."""

from __future__ import annotations

import sys

import pytest
import torch
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
import gpu as benchmark
import gpu_ladder as ladder


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows = benchmark.measure(quick=False)
    assert len(rows) == 6
    assert all(row.value is None and row.holds is None and row.target == benchmark.TARGET for row in rows)


@pytest.mark.parametrize("name", ["convolutional", "transformer"])
@pytest.mark.parametrize("precision", benchmark.FORMATS)
def test_the_recipe_and_the_loop_by_hand_train_alike(name: str, precision: str) -> None:
    workload = benchmark.workloads(torch.device("cpu"), small=True)[name]
    batches = benchmark.Repeated(workload, 3)
    trained = []
    for who in (benchmark.by_hand, benchmark.recipe):
        turn = benchmark.contender(who, workload, batches, precision, fused=False)
        turn()
        model = turn.args[0]
        trained.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    torch.manual_seed(0)
    before = torch.cat([parameter.detach().flatten() for parameter in workload.make().parameters()])
    assert float((trained[0] - before).abs().max()) > 1e-4
    assert float((trained[0] - trained[1]).abs().max()) <= 1e-5


def test_throughput_is_that_of_the_faster_loop_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"by_hand, plain": 2.0, "by_hand, fused": 1.0, "recipe, plain": 2.0, "recipe, fused": 1.25}
    timings = benchmark.harness.Timings({name: [value] * 3 for name, value in seconds.items()})
    monkeypatch.setattr(benchmark, "paired", lambda *_, **__: timings)
    workload = benchmark.workloads(torch.device("cpu"), small=True)["convolutional"]
    rows = {row.what: row.value for row in benchmark.rows_of("x", workload, "fp32", 2, 3)}
    assert rows["x: throughput, recipe / by hand"] == pytest.approx(0.8)
    assert rows["x, fused: step of the recipe"] == pytest.approx(625)


def test_the_ladder_without_a_gpu_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert all(row.value is None and row.holds is None for row in ladder.measure(quick=False))


def test_a_moved_program_gets_its_batches_where_its_model_is() -> None:
    """On the device "meta", which every machine has: there tensors have a shape and no values."""
    number = next(number for number, pair in enumerate(ladder.all_pairs()) if pair.name == "i/01_disease_progression")
    program, _ = ladder.made(number, "make", "meta")
    inputs, targets = program.parts(next(iter(program.train_loader)))
    assert {inputs.device.type, targets.device.type, program.outputs(inputs).device.type} == {"meta"}
