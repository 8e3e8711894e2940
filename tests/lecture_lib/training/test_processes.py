"""Several processes train as one does: real ones, over Gloo, against the same program in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT, torchrun
from helpers import data_parallel
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from lecture_lib.data import TensorLoader
from lecture_lib.training._run.processes import ALONE, Processes, join_processes
from lecture_lib.training._run.sharing import Share

pytestmark = pytest.mark.slow

NAMES = list(data_parallel.programs(Path()))
EQUAL = [
    "even",
    "uneven",
    "last batch of one",
    "masked",
    "accumulate",
    "clipping and EMA",
    "DataLoader",
    "unused layer",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left of every program."""
    folder = tmp_path_factory.mktemp("processes")
    done = start(folder, [name for name in NAMES if name != "dying"])
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def start(folder: Path, names: list[str], count: int = 2) -> subprocess.CompletedProcess[str]:
    """Run programs under torchrun."""
    return torchrun(count, data_parallel.__file__, folder, *names)


def of(folder: Path, name: str, rank: int = 0) -> dict[str, Any]:
    return torch.load(folder / f"{name}-{rank}.pt", weights_only=True)


@cache
def alone(name: str) -> dict[str, Any]:
    """The same program in this process."""
    return data_parallel.programs(Path())[name]()


def difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert list(a) == list(b)
    return max(float((a[name] - b[name]).abs().max()) for name in a)


@pytest.mark.filterwarnings("ignore:.*processes, accumulate")
@pytest.mark.parametrize("name", EQUAL)
def test_two_processes_equal_one_with_the_joint_batch(folder: Path, name: str) -> None:
    one, first, second = alone(name), of(folder, name, 0), of(folder, name, 1)
    assert difference(first["model"], second["model"]) == 0
    assert difference(first["model"], one["model"]) <= 1e-6
    assert difference(first["best"], one["best"]) <= 1e-6
    assert first["rows"] == second["rows"]
    assert torch.allclose(torch.tensor(first["rows"]), torch.tensor(one["rows"]), rtol=1e-5)
    assert first["stopped"] == one["stopped"]
    assert all(first["grads"])


@pytest.mark.parametrize(("name", "largest"), [("bf16", 1e-2), ("fp16", 2e-3)])
def test_reduced_precision_agrees_to_its_rounding(folder: Path, name: str, largest: float) -> None:
    assert difference(of(folder, name)["model"], of(folder, name, 1)["model"]) == 0
    assert difference(of(folder, name)["model"], alone(name)["model"]) <= largest


@pytest.mark.parametrize("name", ["gradient", "gradient, masked"])
def test_the_gradient_of_an_uneven_batch_is_the_global_mean(folder: Path, name: str) -> None:
    """And would not be the mean of the processes' means, which DistributedDataParallel alone takes."""
    examples, masked = (5, 0) if name == "gradient" else (7, 4)
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    x, y = data_parallel.data(examples, masked)
    (expected,) = torch.autograd.grad(F.cross_entropy(net(x), y), [net.weight])
    parts = [torch.autograd.grad(F.cross_entropy(net(x[r::2]), y[r::2]), [net.weight])[0] for r in (0, 1)]
    found = of(folder, name)["gradient"]
    assert float((found - expected).abs().max()) <= 1e-6
    assert float((sum(parts) / 2 - expected).abs().max()) > 1e-3


def test_no_example_is_counted_twice_and_none_left_out(folder: Path) -> None:
    """11 examples in batches of 3: the last batch has 2, one for each process."""
    read = [(folder / f"read-{rank}.txt").read_text("utf-8").split() for rank in (0, 1)]
    # Before training nothing is read of the training data but by training.
    assert sorted(map(int, read[0] + read[1])) == list(range(11))
    assert sorted(map(len, read)) == [4, 7]


def test_the_first_process_draws_the_order_whatever_the_seeds(folder: Path) -> None:
    assert (
        difference(of(folder, "DataLoader, other seeds")["model"], of(folder, "DataLoader, other seeds", 1)["model"])
        == 0
    )
    assert difference(of(folder, "DataLoader, other seeds")["model"], alone("DataLoader, other seeds")["model"]) <= 1e-6


def test_all_processes_evaluate_and_end_with_the_same_running_statistics(folder: Path) -> None:
    first, second = of(folder, "BatchNorm"), of(folder, "BatchNorm", 1)
    assert difference(first["model"], second["model"]) == 0
    assert difference(first["best"], second["best"]) == 0
    assert first["rows"] == second["rows"]


def test_there_is_one_checkpoint(folder: Path) -> None:
    assert sorted(path.name for path in (folder / "workers").iterdir()) == ["best.pt", "last.pt"]


def test_a_loss_that_is_not_finite_in_one_process_stops_all(folder: Path) -> None:
    for rank in (0, 1):
        error = of(folder, "not finite", rank)["error"]
        assert error.startswith("NonFiniteError: process 1: epoch 1, step 3"), error
        assert "examples [" in error


def test_or_is_skipped_by_all(folder: Path) -> None:
    first, second = of(folder, "skipped"), of(folder, "skipped", 1)
    assert difference(first["model"], second["model"]) == 0
    assert all(value.isfinite().all() for value in first["model"].values())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list", "TypeError: train_loader is a list, which cannot be divided among processes. Pass"),
        ("sampler", "TypeError: train_loader has a DistributedSampler, which counts some examples twice."),
        ("other settings", "ValueError: accumulate is"),
        ("other data", "ValueError: the number of examples of train_loader is"),
    ],
)
def test_what_cannot_work_is_refused_in_every_process(folder: Path, name: str, text: str) -> None:
    for rank in (0, 1):
        assert of(folder, name, rank)["error"].startswith(text)


def test_a_run_resumes_bit_for_bit(folder: Path) -> None:
    """With dropout from each process's own stream, and an order that the first process's global stream gives."""
    for rank in (0, 1):
        found = of(folder, "resuming", rank)
        assert found["first"]["stopped"] == "asked to stop after step 6"
        assert difference(found["first"]["model"], found["whole"]["model"]) > 0
        for name in ("model", "best"):
            assert difference(found["resumed"][name], found["whole"][name]) == 0
        assert found["resumed"]["rows"] == found["whole"]["rows"]


def test_when_a_process_dies_the_others_say_so_and_keep_their_weights(tmp_path: Path) -> None:
    # Without torchrun, which would end the other one at once.
    script, port = data_parallel.__file__, free_port()
    members = [
        subprocess.Popen(
            [sys.executable, script, tmp_path, "dying"],
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(port),
            },
        )
        for rank in (0, 1)
    ]
    for member in members:
        member.communicate(timeout=120)
    assert members[1].returncode == -9
    found = of(tmp_path, "dying")
    assert found["error"].startswith("ProcessLostError: process 0 of 2 waited for another one that has ended.")
    assert all(found["grads"])
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    x, y = data_parallel.data(32)
    for start in (0, 8):
        gradients = torch.autograd.grad(
            F.cross_entropy(net(x[start : start + 8]), y[start : start + 8]), net.parameters()
        )
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    assert difference(found["model"], net.state_dict()) <= 1e-6


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def test_one_process_joins_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert join_processes() is ALONE
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert join_processes() is ALONE


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(4))


@pytest.mark.parametrize("loader", [DataLoader(Stream(), 2), DataLoader(torch.arange(4), batch_size=None)])  # type: ignore[arg-type]
def test_loaders_without_shares(loader: Any) -> None:
    with pytest.raises(TypeError, match="cannot be divided among processes"):
        Share(loader, Processes(0, 2), "train_loader")


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shares_are_the_batch(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(11.0)
    whole = [batch[0].tolist() for batch in TensorLoader(x, batch_size=4, shuffle=True, seed=0)]
    parts: list[list[float]] = [[] for _ in whole]
    monkeypatch.setattr(Processes, "from_first", lambda self, value: order if value is None else value)
    order = TensorLoader(x, batch_size=4, shuffle=True, seed=0).rows(), 0
    for rank in range(count):
        shared = Share(TensorLoader(x, batch_size=4, shuffle=True, seed=0), Processes(rank, count), "loader")
        for number, (rows,) in enumerate(shared):
            assert shared.ids.tolist() == rows.tolist()
            parts[number] += [] if shared.stands_in else rows.tolist()
    assert [sorted(part) for part in parts] == [sorted(batch) for batch in whole]
