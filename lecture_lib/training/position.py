"""A run's position: everything that a resumed run needs to go on as if it had never been stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .batches import Batches
from .checkpoint import load_checkpoint, restore_module, restore_optimizer, save_atomically
from .ema import ExponentialMovingAverage
from .evaluate import Evaluation
from .history import Epoch, History
from .precision import Precision
from .processes import Processes
from .streams import loader_streams, random_streams, restore_loader_streams, restore_random_streams
from .windows import Window

FORMAT = "lecture-lib training 2"


@dataclass
class Position:
    """How far a run has come.

    Attributes:
        epoch: the epoch in progress, counted from 1.
        batches: read from the loader in this epoch.
        taken: steps of this epoch that changed weights.
        step: windows trained on since the run began, taken or not.
        skipped: how many of them changed no weights.
        loss_sum: the epoch's losses, each times its count; of several processes each has its own part.
        loss_count: what the epoch's mean loss is the mean of, likewise.
        learning_rate: the first parameter group's in the latest step.
        best_loss: lowest validation loss so far.
        bad_epochs: epochs since that one.
        norms: the epoch's sums of each layer's gradient norms.
        streams: the random streams and the loader's as they were when the epoch began.

    """

    epoch: int = 1
    batches: int = 0
    taken: int = 0
    step: int = 0
    skipped: int = 0
    loss_sum: Tensor | float = 0.0
    loss_count: float = 0.0
    learning_rate: float = 0.0
    best_loss: float = math.inf
    bad_epochs: int = 0
    norms: dict[str, float] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)

    def add(self, window: Window, loss_sum: Tensor | float, taken: bool) -> None:
        """Count a window that was trained on."""
        self.step += 1
        self.batches += window.read
        self.skipped += not taken
        self.taken += taken
        if taken:
            self.loss_sum = self.loss_sum + loss_sum
            self.loss_count += window.count

    def share(self, processes: Processes) -> None:
        """Give each process an equal part of all processes' sums."""
        total, count = processes.sum(float(self.loss_sum), self.loss_count)
        self.loss_sum, self.loss_count = total / processes.count, count / processes.count

    def require_examples(self) -> None:
        """ValueError when an epoch is over and nothing was learned in it."""
        if self.loss_count == 0:
            why = "gave 0 examples" if self.batches == 0 else "gave nothing to learn from (all labels masked)"
            if self.skipped:
                why = f"led to no step ({self.skipped} skipped: a loss or gradient was not finite)"
            raise ValueError(f"train_loader {why} in epoch {self.epoch}. Pass one with data for every epoch.")

    def row(self, validation: Evaluation) -> Epoch:
        """The epoch's row in the history."""
        return Epoch(
            self.epoch,
            float(self.loss_sum) / self.loss_count,
            validation.loss,
            validation.metric,
            self.learning_rate,
            self.step,
            self.skipped,
            {layer: norm / self.taken for layer, norm in self.norms.items()},
        )

    def judge(self, loss: float, improved: bool) -> None:
        """Remember the best epoch."""
        self.best_loss = loss if improved else self.best_loss
        self.bad_epochs = 0 if improved else self.bad_epochs + 1

    def out_of(self, patience: int | None) -> str:
        """Why the run stops early; empty when it does not."""
        if patience is None or self.bad_epochs < patience:
            return ""
        return f"no lower validation loss for {self.bad_epochs} epoch(s)"

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.batches = 0
        self.loss_sum = self.loss_count = 0.0
        self.norms = {}
        self.taken = 0
        self.streams = {}


@dataclass
class Run:
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

    def batches(self, position: Position) -> Iterator[Any]:
        """The epoch's batches from the position on, in the order that the epoch had, or gets now.

        An epoch that was interrupted is begun again with the streams that it began with, and what was read is read
        again: only so do the loader's workers, its sampler and its data set draw what they drew before.
        """
        if not position.streams:
            position.streams = {"random": random_streams(), "loader": loader_streams(self.loader)}
            return iter(self.loader)
        now = random_streams()
        restore_random_streams(position.streams["random"])
        restore_loader_streams(self.loader, position.streams["loader"])
        batches = iter(self.loader)
        for _ in islice(batches, position.batches):
            pass
        # Making the iterator draws from the streams, and so may a data set in this process.
        restore_random_streams(now)
        return batches

    def due(self, position: Position) -> bool:
        """Whether this step is one to write `last.pt` after."""
        return self.every is not None and position.step % self.every == 0

    def save(self, position: Position) -> None:
        """Write `last.pt`: everything, whole or not at all."""
        if self.folder is None:
            return
        position.share(self.processes)  # on a GPU: waits for the sum
        streams = {
            "epoch": position.streams,
            "random": random_streams(),
            "loader": loader_streams(self.loader),
        }
        of_each = self.processes.gather(streams)
        if not self.processes.first:
            return
        state = {
            "format": FORMAT,
            "settings": self.settings,
            "position": {name: value for name, value in vars(position).items() if name != "streams"},
            "streams": of_each,
            "model": self.model.state_dict(),
            "optimizer": {"class": type(self.optimizer).__name__, **self.optimizer.state_dict()},
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "precision": self.precision.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "rows": self.history.as_rows(),
            "best": self.history.best_state if self.history.has_best else None,
        }
        save_atomically(state, self.folder / "last.pt")

    def save_best(self) -> None:
        """Write `best.pt`: the best weights as a state_dict."""
        if self.folder is not None and self.processes.first:
            save_atomically(self.history.best_state, self.folder / "best.pt")

    def resumed(self) -> Position:
        """Put everything in `last.pt` back; a new position when there is none. Raises before anything is changed."""
        if self.folder is None:
            return Position()
        path = self.folder / "last.pt"
        state = self.processes.from_first(_stored(path) if self.processes.first else None)
        if isinstance(state, Exception):
            raise state
        if state is None:
            return Position()
        _require_same_settings(state["settings"], self.settings, path)
        streams = state["streams"][self.processes.rank]
        restore_loader_streams(self.loader, streams["loader"])
        restore_module(self.model, state["model"])
        restore_optimizer(self.optimizer, state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.precision.load_state_dict(state["precision"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.history.rows[:] = [Epoch(**row) for row in state["rows"]]
        if state["best"] is not None:
            self.history.best_state = state["best"]
        restore_random_streams(streams["random"])
        return Position(**state["position"], streams=streams["epoch"])


def _stored(path: Path) -> dict[str, Any] | Exception | None:
    """What the file holds, None when there is none, or what is wrong with it: every process is to hear of it."""
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
