"""How far a run has come: what an epoch adds up, and what decides when the run ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..accumulation import Window
from ..evaluate import Evaluation
from .history import Epoch
from .processes import Processes


@dataclass
class TrainingState:
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

    def add(
        self, window: Window, loss_sum: Tensor | float, taken: bool, layer_norms: Mapping[str, float | None]
    ) -> None:
        """Count a window that was trained on."""
        self.step += 1
        self.batches += window.read
        self.skipped += not taken
        self.taken += taken
        if taken:
            self.loss_sum = self.loss_sum + loss_sum
            self.loss_count += window.count
            for layer, norm in layer_norms.items():
                self.norms[layer] = self.norms.get(layer, 0.0) + (norm or 0.0)

    def share(self, processes: Processes) -> None:
        """Give each process an equal part of all processes' sums."""
        # Equal parts can be shared again without changing the total, as a checkpoint in mid-epoch does.
        total, count = processes.sum(float(self.loss_sum), self.loss_count)
        self.loss_sum, self.loss_count = total / processes.count, count / processes.count

    def require_examples(self) -> None:
        """ValueError when an epoch is over and nothing was learned in it."""
        if self.loss_count == 0:
            if self.skipped:
                raise ValueError(
                    f"train_loader led to no step in epoch {self.epoch}: each was skipped, because a loss, a gradient "
                    "or the weights after it were not finite. non_finite='raise' names the first; look at the rate, "
                    f"{self.learning_rate:g}, and at the inputs."
                )
            why = "gave 0 examples" if self.batches == 0 else "gave nothing to learn from (all labels masked)"
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
