"""Seeds, and the record of a run: what is written is read back, and what differs is said."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.data import load_digits
from lecture_lib.experiments import RunRecord, code_state, compare_records, content_id, hardware, set_seed
from lecture_lib.training import train

# Seeds.


def draws() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(()))]


def test_a_seed_fixes_all_streams_and_another_one_gives_others() -> None:
    set_seed(3)
    first = draws()
    assert draws() != first
    generator = set_seed(3)
    assert draws() == first
    assert generator.initial_seed() == 3
    set_seed(4)
    assert all(a != b for a, b in zip(draws(), first, strict=True))


class Drawn(Dataset):
    """Each example is what its worker draws from NumPy and Python."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index), float(np.random.rand()), random.random()], dtype=torch.float64)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loaders_order_and_its_workers_draws_can_be_had_again(workers: int) -> None:
    def epochs() -> list[torch.Tensor]:
        loader = DataLoader(Drawn(), batch_size=2, shuffle=True, num_workers=workers, generator=set_seed(5))
        return [torch.cat(list(loader)) for _ in range(2)]

    first, second = epochs()
    again = epochs()
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first[:, 1], second[:, 1])


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**32, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_a_seed_that_cannot_be_one_is_refused(seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="pass a whole number"):
        set_seed(seed)


def test_deterministic_algorithms_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        set_seed(0, deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


# Identity.


def test_content_ids_tell_values_shapes_and_types_apart() -> None:
    x = torch.arange(6.0)
    different = [
        x, x.reshape(2, 3), x.double(), x + 1e-6, x.int(), x.bfloat16(), x.flip(0), [x], [x, x], {"x": x}, [0, 1],
        [1, 0], "text", (1, 2), TensorDataset(x),
    ]  # fmt: skip
    ids = [content_id(one) for one in different]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 16 for one in ids)
    assert content_id(x.clone()) == content_id(x) == content_id(x.numpy())
    assert content_id(x.reshape(2, 3).T.contiguous().T) == content_id(x.reshape(2, 3))
    assert content_id(x.numpy().astype(">f4")) == content_id(x)
    assert content_id({"a": x, "b": 1}) == content_id({"b": 1, "a": x})
    little_endian = b"<i8(3,)" + bytes([0] * 8 + [1] + [0] * 7 + [2] + [0] * 7)
    assert content_id(np.arange(3)) == hashlib.sha256(little_endian).hexdigest()[:16]


def test_a_part_that_cannot_be_read_is_named() -> None:
    with pytest.raises(TypeError, match="cannot read a object"):
        content_id(object())


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_commit_and_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no repository" in code_state(tmp_path)["reason"]
    git(tmp_path, "init", "-q")
    assert code_state(tmp_path)["commit"] is None
    (tmp_path / "train.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    assert code_state(tmp_path) == {"commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "train.py").write_text("2")
    assert code_state(tmp_path)["dirty"] is True
    monkeypatch.setenv("PATH", "")
    assert code_state(tmp_path)["reason"] == "git is not installed"


def test_hardware_names_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    import platform

    found = hardware()
    assert found["torch"] == torch.__version__
    assert found["processor"]
    assert platform.node() not in json.dumps(found)


# The record.


@dataclass
class Config:
    learning_rate: float = 0.1
    widths: tuple[int, ...] = (8, 8)


def make_record(**changes: Any) -> RunRecord:
    options = {"config": {"learning_rate": 0.1, "model": {"width": 8}}, "seed": 0, "data_id": "d", **changes}
    record = RunRecord.start(options.pop("config"), **options)
    record.code = {"commit": "abc", "dirty": False}
    record.log(epoch=1, val_loss=0.5)
    record.log(epoch=2, val_loss=0.25, train_loss=float("nan"))
    return record


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    record = make_record(config=Config(), split_id=content_id([1, 2]), precision="bf16")
    record.add_checkpoint("first/best.pt", epoch=2)
    record.log(epoch=3, val_loss=float("inf"), rate=np.float32(0.5), norms={"layer": [1.0, -float("inf")]})
    record.finish()
    path = tmp_path / "run.json"
    record.save(path)
    text = path.read_text("utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert repr(RunRecord.load(path)) == repr(record)
    assert record.config == {"learning_rate": 0.1, "widths": [8, 8]}
    assert record.started <= (record.finished or "")
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_is_recorded_with_train(tmp_path: Path) -> None:
    digits = load_digits()
    generator = set_seed(0)
    x, y = digits.images[:64].flatten(1), digits.labels[:64]
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, generator=generator)
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with RunRecord.start({"learning_rate": 0.1}, seed=0, data_id=digits.data_id) as record:
        history = train(
            model, loader, loader, optimizer, F.cross_entropy, 2,
            gradient_norms=True, on_epoch=lambda row: record.log(**asdict(row)),
        )  # fmt: skip
    record.save(tmp_path / "run.json")
    found = RunRecord.load(tmp_path / "run.json")
    assert found.metrics == history.as_rows()
    assert found.status == "finished"


@pytest.mark.parametrize(("error", "status"), [(ValueError("no"), "failed"), (KeyboardInterrupt(), "stopped")])
def test_how_a_run_ended_is_noted(error: BaseException, status: str) -> None:
    record = make_record()
    with pytest.raises(type(error)), record:
        raise error
    assert record.status == status
    assert record.error is not None
    assert record.error.startswith(type(error).__name__)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model": {"layer": nn.Linear(1, 1)}}, r"config\['model'\]\['layer'\] is a Linear"),
        ({"sizes": [1, {2}]}, r"config\['sizes'\]\[1\] is a set"),
        ([1], "config is a list; pass a dict"),
    ],
    ids=["module", "set", "list"],
)
def test_a_setting_that_is_not_json_is_named(config: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        RunRecord.start(config)


def test_a_failed_save_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    make_record().save(path)
    before = path.read_bytes()
    changed = make_record(seed=1)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        changed.save(path)
    assert "an earlier file is unchanged" in caught.value.__notes__[0]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_takes_its_name_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    make_record().save(path)
    before = path.read_bytes()

    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(PermissionError):
        make_record(seed=1).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "no JSON"),
        ("[]", "no run record of format 1"),
        ('{"format": 9}', "no run record of format 1"),
        ('{"format": 1, "config": {}}', "damaged run record: checkpoints, code,"),
    ],
)
def test_what_is_no_record_is_named(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=says):
        RunRecord.load(path)


def test_paths_of_checkpoints_are_relative() -> None:
    with pytest.raises(ValueError, match="absolute path"):
        make_record().add_checkpoint("/runs/best.pt")
    with pytest.raises(ValueError, match="status is 'done'"):
        make_record().finish("done")


# Comparing.


def test_one_change_is_called_one_change() -> None:
    baseline, changed = make_record(), make_record(config={"learning_rate": 0.1, "model": {"width": 16}})
    changed.metrics[-1]["val_loss"] = 0.125
    found = compare_records(baseline, changed)
    assert found.changes == (("config.model.width", 8, 16),)
    assert found.verdict.startswith("one change")
    assert found.metrics[0] == ("val_loss", 0.25, 0.125, -0.125)
    assert "config.model.width: 8 -> 16" in str(found)
    assert "val_loss: 0.25 -> 0.125 (-0.125)" in str(found)
    assert '<th scope="row">config.model.width</th><td>8</td><td>16</td>' in found._repr_html_()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"config": {"learning_rate": 0.2, "model": {"width": 16}}}, ["config.learning_rate", "config.model.width"]),
        ({"config": {"model": {"width": 8}}, "seed": 1}, ["config.learning_rate", "seed"]),
        ({"data_id": "e", "precision": "bf16"}, ["data", "precision"]),
        (
            {"config": {"learning_rate": 0.1, "model": {"width": True}}, "split_id": "s"},
            ["config.model.width", "split"],
        ),
    ],
)
def test_several_changes_are_listed(changes: dict[str, Any], expected: list[str]) -> None:
    found = compare_records(make_record(), make_record(**changes))
    assert sorted(name for name, _, _ in found.changes) == expected
    assert found.verdict.startswith("2 change(s)")


def test_true_is_not_one() -> None:
    found = compare_records(make_record(config={"flag": True}), make_record(config={"flag": 1}))
    assert found.changes == (("config.flag", True, 1),)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ({"commit": "abc", "dirty": True}, "no change was chosen; files differed"),
        ({"commit": None, "dirty": None}, "no change was chosen; the code of one of them is not known"),
        ({"commit": "def", "dirty": False}, "one change"),
        ({"commit": "abc", "dirty": False}, "no change was chosen"),
    ],
    ids=["dirty", "unknown", "other commit", "same"],
)
def test_the_code_counts_too(code: dict[str, Any], says: str) -> None:
    other = make_record()
    other.code = code
    assert compare_records(make_record(), other).verdict.startswith(says)


def test_hardware_is_told_apart_and_html_is_escaped() -> None:
    other = make_record(config={"learning_rate": 0.1, "model": {"width": "<b>"}})
    other.hardware = {**other.hardware, "gpu": "T4"}
    found = compare_records(make_record(), other)
    assert found.hardware == (("gpu", "(none)", "T4"),)
    assert "&lt;b&gt;" in found._repr_html_()
