"""A stopped run goes on as if it had never been stopped, and a checkpoint that does not fit changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import HELPERS, ROOT
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR

from lecture_lib.data import TensorLoader
from lecture_lib.training import train
from lecture_lib.training._run.guard import FiniteGuard
from lecture_lib.training._run.streams import loader_streams
from lecture_lib.training.checkpoint import load_checkpoint

pytestmark = pytest.mark.slow


class DeferredGuard(FiniteGuard):
    """The guard as a run on a GPU makes it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "deferred": True})


def test_a_run_killed_at_any_point_resumes_bit_for_bit(tmp_path: Path, repetitions: Callable[[int, int], int]) -> None:
    """Killed in mid-window, in mid-epoch and after an epoch; in `make test-full` in every micro-batch."""
    apart = repetitions(3, 1)
    done = subprocess.run(
        [sys.executable, HELPERS / "training_crashes.py", tmp_path, str(apart)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert [point["killed"] for point in points] == [-9] * repetitions(4, 12)
    assert [point for point in points if point["difference"] != 0 or point["resumed"] != 0] == []


def program(folder: Path | None, *, seed: int = 0, widths: int = 8, **options: Any) -> tuple[nn.Module, Any]:
    """A small run in this process, with a TensorLoader that shuffles."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, widths), nn.Dropout(0.2), nn.Tanh(), nn.Linear(widths, 3))
    x, y = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 3
    optimizer = options.pop("optimizer", torch.optim.SGD)(model.parameters(), lr=0.1)
    loader_seed = options.pop("loader_seed", 3)
    shuffle = {} if loader_seed is None else {"shuffle": True, "seed": loader_seed}
    loader = TensorLoader(x, y, batch_size=options.pop("batch_size", 8), **shuffle)

    def schedule(optimizer: torch.optim.Optimizer, total: int) -> OneCycleLR:
        return OneCycleLR(optimizer, max_lr=0.2, total_steps=total, cycle_momentum=False)

    options = {"resume": False, "epochs": 3, "schedule": schedule, **options}
    return model, train(
        model,
        loader,
        TensorLoader(x, y, batch_size=16),
        optimizer,
        F.cross_entropy,
        checkpoints=folder,
        **options,
    )


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("after", [1, 5, 7, 14])
def test_a_stop_request_and_a_resume_equal_an_uninterrupted_run(after: int, tmp_path: Path) -> None:
    steps = iter(range(1, 100))
    _, stopped = program(tmp_path, stop=lambda: next(steps) == after)
    assert stopped.stopped == f"asked to stop after step {after}"
    assert load_checkpoint(tmp_path / "last.pt")["position"]["step"] == after
    model, history = program(tmp_path, seed=7, resume=True)
    expected, reference = program(None)
    assert same(model, expected)
    assert history.as_rows() == reference.as_rows()
    assert all(torch.equal(history.best_state[name], value) for name, value in reference.best_state.items())


def test_a_run_that_fails_between_epochs_goes_on_with_the_next_order(tmp_path: Path) -> None:
    def fail(row: Any) -> None:
        if row.epoch == 1:
            raise OSError("the disk of the log is full")

    with pytest.raises(OSError, match="the log") as caught:
        program(tmp_path, on_epoch=fail)
    assert len(caught.value.history.rows) == 1  # type: ignore[attr-defined]
    model, _ = program(tmp_path, seed=7, resume=True)
    assert same(model, program(None)[0])


def test_a_finished_run_resumes_to_its_history_without_a_step(tmp_path: Path) -> None:
    model, history = program(tmp_path)
    again, resumed = program(tmp_path, seed=7, resume=True)
    assert same(model, again)
    assert resumed.as_rows() == history.as_rows()


def test_a_run_out_of_patience_stays_stopped(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 60, "patience": 1}
    _, history = program(tmp_path, **options)
    assert history.stopped
    _, resumed = program(tmp_path, resume=True, **options)
    assert len(resumed.rows) == len(history.rows) < 60
    assert resumed.stopped == history.stopped


def test_resume_without_a_checkpoint_begins(tmp_path: Path) -> None:
    model, _ = program(tmp_path / "new", resume=True)
    assert same(model, program(None)[0])


def test_best_is_the_best_weights_and_loads_with_weights_only(tmp_path: Path) -> None:
    _, history = program(tmp_path, ema=0.9)
    best = torch.load(tmp_path / "best.pt", weights_only=True)
    assert best.keys() == history.best_state.keys()
    assert all(torch.equal(best[name], value) for name, value in history.best_state.items())
    assert torch.load(tmp_path / "last.pt", weights_only=True)["position"]["epoch"] == 4


def test_an_earlier_run_is_not_overwritten(tmp_path: Path) -> None:
    program(tmp_path)
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(FileExistsError, match=r"last\.pt is of an earlier run.*resume=True"):
        program(tmp_path)
    assert (tmp_path / "last.pt").read_bytes() == before


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "settings": ({"max_norm": 1.0}, r"max_norm was None, now 1\.0.*another folder"),
    "schedule": ({"schedule": None}, "schedule was 'OneCycleLR', now 'NoneType'"),
    "batches": ({"batch_size": 20}, "batches was 5, now 2"),
    "order": ({"loader_seed": None}, "state of 1 generator.*this loader has 0"),
    "epochs": ({"epochs": 9}, "epochs was 3, now 9"),
    "model": ({"widths": 9}, r"another model: 0\.weight \[8, 6\] instead of \[9, 6\]"),
    "optimizer": ({"optimizer": torch.optim.AdamW}, "another optimizer: SGD.*AdamW"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_runs_checkpoint_is_refused_and_nothing_changes(name: str, tmp_path: Path) -> None:
    options, says = OTHERS[name]
    program(tmp_path)
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(ValueError, match=says):
        program(tmp_path, seed=7, resume=True, **options)
    assert (tmp_path / "last.pt").read_bytes() == before


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "another program's": lambda path: torch.save({"weights": torch.ones(2)}, path),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("weights"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_named(name: str, tmp_path: Path) -> None:
    program(tmp_path)
    DAMAGE[name](tmp_path / "last.pt")
    with pytest.raises(ValueError, match=r"last\.pt is (damaged|refused|no checkpoint of train)"):
        program(tmp_path, resume=True)


def test_a_stop_request_writes_no_checkpoint_of_a_step_that_a_deferred_guard_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU errors wait for a look; here the same guard on the CPU."""
    monkeypatch.setattr("lecture_lib.training._run.run.FiniteGuard", DeferredGuard)
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    x, y = torch.randn(40, 6), torch.arange(40) % 3
    x[20] = float("nan")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loaders = TensorLoader(x, y, batch_size=8), TensorLoader(x[:8], y[:8], batch_size=8)
    steps = iter(range(1, 100))
    with pytest.raises(FloatingPointError):
        train(model, *loaders, optimizer, F.cross_entropy, 2, checkpoints=tmp_path, stop=lambda: next(steps) == 4)
    assert load_checkpoint(tmp_path / "last.pt")["position"]["step"] == 0


def test_settings_that_are_numbers_of_numpy_and_milestones_can_be_saved_and_resumed(tmp_path: Path) -> None:
    def milestones(optimizer: torch.optim.Optimizer, total: int) -> MultiStepLR:
        return MultiStepLR(optimizer, [3, 6], gamma=np.float64(0.5))

    options: dict[str, Any] = {
        "epochs": np.int64(2),
        "max_norm": np.float64(2),
        "schedule": milestones,
        "optimizer": partial(torch.optim.SGD, momentum=np.float64(0.9)),
    }
    steps = iter(range(1, 100))
    program(tmp_path, stop=lambda: next(steps) == 4, **options)
    model, _ = program(tmp_path, seed=7, resume=True, **options)
    assert same(model, program(None, **options)[0])


def test_a_refused_resume_leaves_the_loaders_stream_as_it_was(tmp_path: Path) -> None:
    program(tmp_path)
    x, y = torch.randn(40, 6), torch.arange(40) % 3
    loader = TensorLoader(x, y, batch_size=8, shuffle=True, seed=5)
    before = loader_streams(loader)
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.2), nn.Tanh(), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="weight"):
        train(
            model, loader, TensorLoader(x, y, batch_size=16), optimizer, F.cross_entropy, 3, checkpoints=tmp_path,
            resume=True, schedule=lambda o, total: OneCycleLR(o, max_lr=0.2, total_steps=total, cycle_momentum=False),
        )  # fmt: skip
    assert all(torch.equal(now, then) for now, then in zip(loader_streams(loader), before, strict=True))
