"""The run record: what was run, on what, and what came of it, as one JSON file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from .identity import code_state, hardware

FORMAT = 1


@dataclass
class RunRecord:
    """What a run was made of and what came of it. As a `with` block it notes how the run ended::

        with RunRecord.start({"learning_rate": 0.1}, seed=0, data_id=digits.data_id) as record:
            train(..., on_epoch=lambda row: record.log(**asdict(row)))
        record.save("runs/first.json")

    Attributes:
        config: the settings of the run, JSON-able.
        seed: the seed, or None.
        data_id: which data; see `content_id`, and `Digits.data_id`.
        split_id: which split of it; see `content_id`.
        precision: 'fp32', 'bf16' or 'fp16'.
        code: commit and dirty flag, or a reason why they are not known.
        hardware: processor or GPU, and versions.
        metrics: a row for each call of `log`, in order.
        checkpoints: rows with 'path' (relative to the record's file) and what else was told.
        started, finished: UTC, ISO 8601; finished None while the run goes on.
        status: 'running', 'finished', 'stopped' or 'failed'.
        error: of a failed run.

    """

    config: dict[str, Any]
    seed: int | None = None
    data_id: str | None = None
    split_id: str | None = None
    precision: str = "fp32"
    code: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    started: str = ""
    finished: str | None = None
    status: str = "running"
    error: str | None = None

    @classmethod
    def start(
        cls,
        config: Any,
        *,
        seed: int | None = None,
        data_id: str | None = None,
        split_id: str | None = None,
        precision: str = "fp32",
        device: torch.device | str = "cpu",
        repository: str | Path | None = None,
    ) -> RunRecord:
        """Begin a record: now, with this code, on this machine.

        Args:
            config: a mapping or a dataclass of settings.
            seed: given to `set_seed`.
            data_id: which data.
            split_id: which split.
            precision: of the run.
            device: where the model is.
            repository: a folder in the code's repository; default: the present one.

        Raises:
            TypeError: a setting is not JSON-able; the message names it.

        """
        config = asdict(config) if is_dataclass(config) and not isinstance(config, type) else config
        if not isinstance(config, Mapping):
            raise TypeError(f"config is a {type(config).__name__}; pass a dict or a dataclass of settings.")
        return cls(
            _plain(config, "config"),
            seed,
            data_id,
            split_id,
            precision,
            code_state(repository),
            hardware(device),
            started=_now(),
        )

    def log(self, **values: Any) -> None:
        """Add a row of metrics: `record.log(epoch=1, val_loss=0.3)`. NaN and infinity are kept.

        Raises:
            TypeError: a value is not JSON-able.

        """
        self.metrics.append(_plain(values, "log"))

    def add_checkpoint(self, path: str | Path, **details: Any) -> None:
        """Note a checkpoint: its path relative to the record's file, and for example its epoch."""
        if Path(path).is_absolute():
            raise ValueError(f"checkpoint {path} is an absolute path; give it relative to the record's file.")
        self.checkpoints.append({"path": Path(path).as_posix(), **_plain(details, "add_checkpoint")})

    def finish(self, status: str = "finished", error: str | None = None) -> None:
        """Note how the run ended.

        Raises:
            ValueError: status is not 'finished', 'stopped' or 'failed'.

        """
        if status not in ("finished", "stopped", "failed"):
            raise ValueError(f"status is {status!r}; pass 'finished', 'stopped' or 'failed'.")
        self.status, self.error, self.finished = status, error, _now()

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The block called finish itself.
        if self.status != "running":
            return
        if error is None:
            self.finish()
        else:
            stopped = isinstance(error, KeyboardInterrupt)
            self.finish("stopped" if stopped else "failed", f"{type(error).__name__}: {error}")

    def save(self, path: str | Path) -> None:
        """Write the record, whole or not at all: an earlier file stays until the new one is complete.

        Raises:
            OSError: the folder does not exist or cannot be written; an earlier file is unchanged.

        """
        path = Path(path)
        text = json.dumps({"format": FORMAT, **_to_json(asdict(self))}, indent=2, ensure_ascii=False, allow_nan=False)
        # As with checkpoints: a complete file takes the place of the earlier one in one step.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            error.add_note(f"{path} was not written, and an earlier file is unchanged. Check the folder and its disk.")
            raise
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> RunRecord:
        """Read a record.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is no run record, or one of another format.

        """
        try:
            content = json.loads(Path(path).read_text("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no JSON: {error}. Is it a run record?") from None
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ValueError(f"{path} is no run record of format {FORMAT}. Was it written by another version?")
        names = set(cls.__dataclass_fields__)
        if set(content) != names:
            different = ", ".join(sorted(names ^ set(content)))
            raise ValueError(f"{path} is a damaged run record: {different} missing or unknown.")
        return cls(**_from_json(content))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _plain(value: Any, where: str) -> Any:
    """Numbers, texts, lists and dicts, copied; TypeError for what JSON has no form for."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(part, f"{where}[{key!r}]") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{where}[{position}]") for position, part in enumerate(value)]
    if isinstance(value, Path):
        return value.as_posix()
    if hasattr(value, "item") and getattr(value, "size", 0) != 0 and getattr(value, "shape", None) == ():
        return value.item()  # a number of NumPy's or torch's
    raise TypeError(
        f"{where} is a {type(value).__name__}, which JSON has no form for. Pass numbers, texts, lists or dicts, for "
        "example str(value) or value.tolist()."
    )


def _to_json(value: Any) -> Any:
    """JSON has neither NaN nor infinity: they become {"number": "nan"}."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    return [_to_json(part) for part in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"number"} and isinstance(value["number"], str):
            return float(value["number"])
        return {key: _from_json(part) for key, part in value.items()}
    return [_from_json(part) for part in value] if isinstance(value, list) else value
