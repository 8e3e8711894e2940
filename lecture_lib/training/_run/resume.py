"""What a checkpoint of a run holds, and how a run goes on from it as if it had never been stopped."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..checkpoint import load_checkpoint, restore_module, restore_optimizer, save_atomically
from ..precision import Precision
from ..types import Batches
from .averages import ExponentialMovingAverage
from .history import Epoch, History
from .processes import Processes
from .state import TrainingState
from .streams import loader_streams, random_streams, restore_loader_streams, restore_random_streams

FORMAT = "lecture-lib training 2"


@dataclass
class Checkpoints:
    """What a checkpoint holds, and where it goes back to.

    Attributes:
        model, optimizer, loader, history: as in `train`.
        scheduler, average: None without.
        precision: holds the scaler.
        settings: what a resumed run must share with the run that it goes on with.
        folder: of `last.pt` and `best.pt`; None: nothing is written.
        every: steps between two writes of `last.pt`; None: after each epoch.
        processes: of the run; the first one writes for all.

    """

    model: nn.Module
    optimizer: Optimizer
    loader: Batches
    history: History
    scheduler: LRScheduler | None
    average: ExponentialMovingAverage | None
    precision: Precision
    settings: dict[str, Any]
    folder: Path | None
    every: int | None
    processes: Processes

    def batches(self, state: TrainingState) -> Iterator[Any]:
        """The epoch's remaining batches, in the order that the epoch had when it began.

        An epoch that was interrupted begins again with the random streams that it began with, and the batches that were
        read are read again: otherwise the loader's workers, its sampler and its data set would draw other numbers.
        """
        if not state.streams:
            state.streams = {"random": random_streams(), "loader": loader_streams(self.loader)}
            return iter(self.loader)
        now = random_streams()
        restore_random_streams(state.streams["random"])
        restore_loader_streams(self.loader, state.streams["loader"])
        batches = iter(self.loader)
        for _ in islice(batches, state.batches):
            pass
        # Making the iterator draws from the streams, and so may a data set in this process.
        restore_random_streams(now)
        return batches

    def due(self, state: TrainingState) -> bool:
        """Whether this step is one to write `last.pt` after."""
        return self.every is not None and state.step % self.every == 0

    def save(self, state: TrainingState) -> None:
        """Write `last.pt`: everything, whole or not at all."""
        if self.folder is None:
            return
        state.share(self.processes)  # on a GPU: waits for the sum
        streams = {
            "epoch": state.streams,
            "random": random_streams(),
            "loader": loader_streams(self.loader),
        }
        of_each = self.processes.gather(streams)
        if not self.processes.first:
            return
        content = {
            "format": FORMAT,
            "settings": _plain_numbers(self.settings),
            "position": {name: value for name, value in vars(state).items() if name != "streams"},
            "streams": of_each,
            "model": self.model.state_dict(),
            "optimizer": {"class": type(self.optimizer).__name__, **_plain_numbers(self.optimizer.state_dict())},
            "scheduler": None if self.scheduler is None else _plain_numbers(self.scheduler.state_dict()),
            "precision": self.precision.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "rows": self.history.as_rows(),
            "best": self.history.best_state if self.history.has_best else None,
        }
        save_atomically(content, self.folder / "last.pt")

    def save_best(self) -> None:
        """Write `best.pt`: the best weights as a state_dict."""
        if self.folder is not None and self.processes.first:
            save_atomically(self.history.best_state, self.folder / "best.pt")

    def resumed(self) -> TrainingState:
        """Restore everything from `last.pt`; a new state where there is no file. Raises before anything is changed."""
        if self.folder is None:
            return TrainingState()
        path = self.folder / "last.pt"
        # One process reads for all, so that all continue from the same file.
        stored = self.processes.from_first(_stored(path) if self.processes.first else None)
        if isinstance(stored, Exception):
            raise stored
        if stored is None:
            return TrainingState()
        _require_same_settings(stored["settings"], self.settings, path)
        streams = stored["streams"][self.processes.rank]
        # That the model or the optimizer does not fit is noticed only after what comes before it was restored.
        before, streams_before = copy.deepcopy(self.model.state_dict()), loader_streams(self.loader)
        try:
            restore_loader_streams(self.loader, streams["loader"])
            restore_module(self.model, stored["model"])
            restore_optimizer(self.optimizer, stored["optimizer"])
        except BaseException:
            restore_module(self.model, before)
            restore_loader_streams(self.loader, streams_before)
            raise
        if self.scheduler is not None:
            self.scheduler.load_state_dict(stored["scheduler"])
        self.precision.load_state_dict(stored["precision"])
        if self.average is not None:
            self.average.load_state_dict(stored["average"])
        self.history.rows[:] = [Epoch(**row) for row in stored["rows"]]
        if stored["best"] is not None:
            self.history.best_state = stored["best"]
        restore_random_streams(streams["random"])
        return TrainingState(**stored["position"], streams=streams["epoch"])


def _plain_numbers(value: Any) -> Any:
    """NumPy's numbers as Python's, which a checkpoint may hold: a rate of np.logspace is one of NumPy's."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {_plain_numbers(key): _plain_numbers(part) for key, part in value.items()}
    return type(value)(map(_plain_numbers, value)) if type(value) in (list, tuple) else value


def _stored(path: Path) -> dict[str, Any] | Exception | None:
    """What the file holds, None without a file, or the error, which is returned so that every process hears of it."""
    if not path.exists():
        return None
    try:
        state = load_checkpoint(path)
    except (OSError, ValueError) as error:
        return error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        return ValueError(f"{path} is no checkpoint of train ({FORMAT}). Was it written by something else?")
    return state


def _require_same_settings(saved: dict[str, Any], own: dict[str, Any], path: Path) -> None:
    """ValueError when the checkpoint belongs to a run with other settings."""
    different = [f"{name} was {saved.get(name)!r}, now {own[name]!r}" for name in own if saved.get(name) != own[name]]
    if different:
        raise ValueError(
            f"{path} is of a run with other settings: {'; '.join(different)}. Resume with the same ones, or begin a "
            "new run in another folder."
        )
