"""Checkpoints: whole or not at all, loadable without running code, and never another program's."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import HELPERS, ROOT
from torch import nn

from lecture_lib.training import save_atomically
from lecture_lib.training.checkpoint import load_checkpoint, restore_module, restore_optimizer

pytestmark = pytest.mark.slow


def killed(folder: Path, kills: int, seed: int, environment: dict[str, str]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, HELPERS / "checkpoint_crashes.py", folder, str(kills), str(seed)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("temporary", ["same", "other"])
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(temporary: str, tmp_path: Path, request: Any) -> None:
    """Also when the folder for temporary files is another file system, where a move would be a copy."""
    environment = {}
    if temporary == "other":
        shared_memory = Path("/dev/shm")
        if not shared_memory.is_dir() or shared_memory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is no second file system (/dev/shm)")
        environment = {"TMPDIR": str(shared_memory)}
    kills = 100 if request.config.getoption("--full") else 20
    *lines, files = killed(tmp_path, kills, seed=len(temporary), environment=environment)
    assert len(lines) == kills
    assert [line for line in lines if not line["whole"] or line["step"] < line["complete"]] == []
    # Killed at different moments: some in mid-save, after which the file is of the next step or of the last one.
    assert len({line["complete"] for line in lines}) > kills / 2
    assert files == ["last.pt"]


def limited(path: Path) -> None:
    """In a process of its own: a disk that takes no more than 2,000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    try:
        save_atomically({"weights": torch.zeros(10_000)}, path)
    except OSError as error:
        os.write(1, str(error).encode())


def test_a_full_disk_leaves_the_earlier_checkpoint_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_atomically({"step": 1}, path)
    script = "import sys; from pathlib import Path; import test_checkpoint; test_checkpoint.limited(Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(Path(__file__).parent)])}
    said = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, env=environment, check=True
    ).stdout
    assert f"cannot save {path}" in said
    assert "The file that was there is unchanged. Free space" in said
    assert load_checkpoint(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_move_that_fails_leaves_the_earlier_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.pt"
    save_atomically({"step": 1}, path)

    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match=r"cannot save .*Permission denied.*is unchanged"):
        save_atomically({"step": 2}, path)
    assert load_checkpoint(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_only_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    names = [f".last.pt.{child.pid}.tmp", ".last.pt.1.tmp", ".other.pt.99999999.tmp", ".last.pt.notes.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    save_atomically({}, path)
    assert {file.name for file in tmp_path.iterdir()} == {"last.pt", *names[1:]}


ALLOWED: dict[str, Any] = {
    "numbers": {"a": 1, 2: 2.5, "c": None, "d": True, "e": float("inf")},
    "tensors": [torch.ones(2), nn.Parameter(torch.ones(3)), torch.ones(2, dtype=torch.bfloat16), torch.tensor(1)],
    "kinds": (torch.Size([2]), torch.float32, torch.device("cpu"), b"bytes", "text"),
    "state": OrderedDict(nn.BatchNorm1d(3).state_dict()),
    "optimizer": torch.optim.AdamW(nn.Linear(2, 2).parameters()).state_dict(),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_saved_loads_with_weights_only(name: str, tmp_path: Path) -> None:
    save_atomically(ALLOWED[name], tmp_path / "last.pt")
    found = load_checkpoint(tmp_path / "last.pt")
    assert repr(found) == repr(ALLOWED[name])


class Thing:
    pass


REFUSED: dict[str, tuple[Any, str]] = {
    "object": ({"state": {"thing": Thing()}}, r"checkpoint\['state'\]\['thing'\] is a Thing"),
    "numpy number": ({"losses": [1.0, np.float64(2)]}, r"checkpoint\['losses'\]\[1\] is a float64.*value\.item\(\)"),
    "array": ([np.ones(2)], r"checkpoint\[0\] is a ndarray"),
    "function": ({"f": len}, "is a builtin_function_or_method"),
    "key": ({Thing: 1}, "a key of checkpoint is a type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_load_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    value, says = REFUSED[name]
    path = tmp_path / "last.pt"
    save_atomically({"step": 1}, path)
    with pytest.raises(TypeError, match=says):
        save_atomically(value, path)
    assert load_checkpoint(path) == {"step": 1}


class Malicious:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize(
    "write", [torch.save, lambda obj, path: path.write_bytes(pickle.dumps(obj))], ids=["torch", "pickle"]
)
def test_a_file_that_would_run_code_is_refused_and_runs_none(write: Callable[..., Any], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    write({"weights": Malicious(marker)}, tmp_path / "last.pt")
    with pytest.raises(ValueError, match=r"last\.pt is (refused|damaged)"):
        load_checkpoint(tmp_path / "last.pt")
    assert not marker.exists()


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7])
def test_a_flipped_bit_does_not_load_as_another_weight(place: float, tmp_path: Path) -> None:
    """torch.load itself gives the other weight."""
    path = tmp_path / "last.pt"
    save_atomically({"weights": torch.zeros(10_000)}, path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    assert torch.load(path, weights_only=True)["weights"].count_nonzero() == 1
    with pytest.raises(ValueError, match=r"last\.pt is damaged: .* fails its checksum"):
        load_checkpoint(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*last\.pt"):
        load_checkpoint(tmp_path / "last.pt")


OTHER_MODELS: dict[str, tuple[nn.Module, str]] = {
    "shape": (nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4)), r"1\.weight \[5, 3\] instead of \[4, 3\]"),
    "missing": (
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5), nn.Linear(5, 5)),
        r"missing 2\.bias; missing 2\.weight",
    ),
    "unknown": (nn.Sequential(nn.Linear(2, 3)), r"unknown 1\.bias"),
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_another_models_state_is_refused_and_the_model_stays(name: str) -> None:
    """torch's load_state_dict has copied 0.weight when it finds that 1.weight does not fit."""
    model, says = OTHER_MODELS[name]
    state = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5)).state_dict()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=says):
        restore_module(model, state)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_another_optimizers_state_is_refused() -> None:
    model = nn.Linear(2, 2)
    sgd, adam = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.AdamW(model.parameters())
    state = {"class": "AdamW", **adam.state_dict()}
    with pytest.raises(ValueError, match="another optimizer: AdamW"):
        restore_optimizer(sgd, state)
    other = torch.optim.AdamW([model.weight])
    with pytest.raises(ValueError, match=r"groups of \[2\] parameters; this is AdamW over \[1\]"):
        restore_optimizer(other, state)
    restore_optimizer(adam, state)
