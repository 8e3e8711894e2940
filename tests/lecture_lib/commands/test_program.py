"""`lecture train`: what it leaves, resumed, in two processes, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import torchrun
from torch import nn

from lecture_lib.__main__ import main
from lecture_lib.commands import train as program
from lecture_lib.commands.train.models import SCHEDULES, make_loss, make_schedule
from lecture_lib.data import image_data
from lecture_lib.experiments import RunRecord
from lecture_lib.training import load_checkpoint

pytestmark = pytest.mark.slow

LEFT = ["best.pt", "curve.png", "finder.png", "last.pt", "record.json"]


def test_a_run_leaves_its_record_checkpoints_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--epochs", "12", "--to", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == LEFT
    record = RunRecord.load(tmp_path / "record.json")
    assert (record.status, len(record.metrics), record.seed, record.precision) == ("finished", 12, 0, "fp32")
    assert record.config["learning_rate"] > 0
    assert record.config["processes"] == 1
    best = max(record.metrics, key=lambda row: -row["val_loss"])
    assert record.checkpoints == [{"path": "best.pt", "epoch": best["epoch"], "val_loss": best["val_loss"]}]
    assert best["val_metric"] > 0.93
    data = image_data("digits", seed=0)
    model = program.make_model("mlp", data)
    model.load_state_dict(load_checkpoint(tmp_path / "best.pt"))
    x, y = data.validation
    assert (model(x).argmax(1) == y).float().mean().item() == pytest.approx(best["val_metric"])
    assert "digits: 1438 training and 359 validation images" in printed
    assert f"best: epoch {best['epoch']}" in printed


def test_a_stopped_run_goes_on_with_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["train", "--learning-rate", "0.1", "--epochs", "3", "--model", "cnn", "--batch-size", "256"]
    assert main([*arguments, "--to", str(tmp_path / "whole")]) == 0
    log = RunRecord.log

    def interrupted(self: RunRecord, **row: Any) -> None:
        log(self, **row)
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunRecord, "log", interrupted)
    assert main([*arguments, "--to", str(tmp_path / "parts")]) == 130
    stopped = RunRecord.load(tmp_path / "parts" / "record.json")
    assert (stopped.status, len(stopped.metrics)) == ("stopped", 2)
    assert (tmp_path / "parts" / "curve.png").exists()
    monkeypatch.setattr(RunRecord, "log", log)
    assert main(["train", "--resume", "--to", str(tmp_path / "parts")]) == 0
    whole, resumed = (RunRecord.load(tmp_path / name / "record.json") for name in ("whole", "parts"))
    assert resumed.metrics == whole.metrics
    assert resumed.config == whole.config
    ends = [load_checkpoint(tmp_path / name / "best.pt") for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_two_processes_leave_one_run_which_is_that_of_one(tmp_path: Path) -> None:
    arguments = ["--epochs", "3", "--accumulate", "2"]
    done = torchrun(2, "-m", "lecture_lib", "train", *arguments, "--to", tmp_path / "two")
    assert done.returncode == 0, done.stderr[-2000:]
    assert main(["train", *arguments, "--to", str(tmp_path / "one")]) == 0
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == LEFT
    assert done.stdout.count("epoch   3/3") == 1
    one, two = (RunRecord.load(tmp_path / name / "record.json") for name in ("one", "two"))
    assert two.config == {**one.config, "processes": 2}
    for ours, theirs in zip(two.metrics, one.metrics, strict=True):
        assert ours["val_metric"] == pytest.approx(theirs["val_metric"], abs=1e-6)
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-4)


def test_a_process_that_fails_ends_all_with_its_reason(tmp_path: Path) -> None:
    done = torchrun(2, "-m", "lecture_lib", "train", "--data", "cifar10", "--cache", tmp_path)
    assert done.returncode != 0
    for rank in (0, 1):
        assert f"lecture train (process {rank}): {tmp_path / 'cifar-10-batches-py' / 'data_batch_1'}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "fashion-mnist", "--cache", "nowhere"], "train-images-idx3-ubyte is missing. Fetch FashionMNIST"),
        (["--resume"], "holds no run to resume (no record.json). Name its folder: --to DIR"),
        (["--epochs", "0"], "epochs is 0; pass a whole number, 1 or more."),
        (["--device", "tpu"], "device"),
        (["--learning-rate", "-1"], "max_lr is -1.0; pass a rate above 0"),
        (["--batch-size", "0"], "batch_size is 0; a batch holds 1 example or more."),
        (["--seed", "-1"], "seed is -1"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    assert main(["train", *arguments, "--to", str(place)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("lecture train: ")
    assert message in error
    assert not (place / "last.pt").exists()


def test_an_earlier_run_is_kept_and_a_resumed_one_keeps_its_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--epochs", "1", "--learning-rate", "0.1", "--to", str(tmp_path)]
    assert main(arguments) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(arguments) == 1
    assert "holds a run. Go on with it: --resume, or name another folder: --to DIR" in capsys.readouterr().err
    assert main([*arguments[:2], "2", *arguments[3:], "--resume"]) == 1
    assert f"--epochs is 2 and the run in {tmp_path} has 1; leave it out" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_sweep_without_a_fall_asks_for_a_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["lecture_lib.commands.train.run"], "make_model", lambda *_: Constant())
    assert main(["train", "--to", str(tmp_path)]) == 1
    assert "the finder suggests no rate" in capsys.readouterr().err
    assert (tmp_path / "finder.png").exists()


class Constant(torch.nn.Module):
    """Says the same whatever it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 10) * self.weight


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "torchrun --nproc-per-node 2 -m lecture_lib train" in text
    for name in program.Settings.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_reaches_the_rate_that_was_asked_for(name):
    """The groups keep their ratio, the first step is below the peak, and only the constant schedule ends there."""
    groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": rate} for rate in (0.1, 0.02)]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    scheduler = make_schedule(name, 0.4)(optimizer, 40)
    rates = []
    for _ in range(40):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    first = [rate for rate, _ in rates]
    assert max(first) == pytest.approx(0.4)
    assert first == pytest.approx([5 * second for _, second in rates])
    assert 0 < first[0] < 0.4
    assert (first[-1] == pytest.approx(0.4)) == (name == "constant")


def test_the_smoothed_loss_is_that_of_the_lecture():
    """(1 - ε) · one-hot + ε / C against the log-softmax, by hand."""
    logits = torch.tensor([[2.0, 0.0, -1.0]])
    target = 0.9 * torch.tensor([1.0, 0.0, 0.0]) + 0.1 / 3
    by_hand = -(target * logits.log_softmax(dim=1)).sum()
    assert make_loss("smoothed")(logits, torch.tensor([0])) == pytest.approx(by_hand.item())
    assert make_loss("cross-entropy")(logits, torch.tensor([0])) == pytest.approx(-logits.log_softmax(1)[0, 0].item())
