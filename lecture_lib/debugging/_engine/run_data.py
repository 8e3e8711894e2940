"""What is known of a program: its examples, and a recorded run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ..program import Spec
from .events import Recording

MOST = 4000  # examples that are looked at
BATCH = 256  # examples for which outputs are computed at once


@dataclass(frozen=True)
class Examples:
    """Inputs and targets of a loader, in its order.

    Attributes:
        x: inputs, [N, ...], on the CPU.
        y: targets, [N, ...], on the CPU.
        batch_size: of the first batch.
        device: where the loader puts them.

    """

    x: Tensor
    y: Tensor
    batch_size: int
    device: torch.device | str = "cpu"

    def flat(self) -> np.ndarray:
        """Inputs as rows, float64 [N, D]."""
        return self.x.reshape(len(self.x), -1).double().numpy()

    def part(self, rows: Any) -> Examples:
        """The examples at these positions."""
        return Examples(self.x[rows], self.y[rows], self.batch_size, self.device)

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """As a list of large batches."""
        return list(zip(self.x.split(BATCH), self.y.split(BATCH), strict=True))

    def dataset(self) -> TensorDataset:
        """As the program meets them: on the loader's device."""
        return TensorDataset(self.x.to(self.device), self.y.to(self.device))

    def loader(self, seed: int, batch_size: int = 0) -> DataLoader[Any]:
        """The same in batches, in another order each epoch."""
        generator = torch.Generator().manual_seed(seed)
        return DataLoader(self.dataset(), batch_size or self.batch_size, shuffle=True, generator=generator)


@dataclass
class EpochRow:
    """One epoch of a run: loss and metric by the ladder's own measure, and what the program reported."""

    train_loss: float
    val_loss: float
    val_metric: float
    reported: dict[str, float]


@dataclass
class RecordedRun:
    """A recorded run.

    Attributes:
        recording: its events.
        before: loss on training examples before the first step.
        untrained: what the program reports then.
        rows: an entry for each epoch.
        outputs: of the trained model in evaluation mode, for training and validation examples; None where there are
            none.
        outputs_of_test: the same for test examples.
        error: what ended it; None where it went through.
        line: the last line of the author's that the error passed.
        statistics: loss on training examples as it is, and with new statistics of batch normalisation.
        evaluates_a_copy: whether some batch normalisation was called in evaluation only, beside some that was trained.
        tested: how often the test loader was read.
        by_chance: what the author's evaluation reports with the targets of other examples.

    """

    recording: Recording
    before: float = math.nan
    untrained: dict[str, float] = field(default_factory=dict)
    rows: list[EpochRow] = field(default_factory=list)
    outputs: tuple[Tensor | None, Tensor | None] = (None, None)
    outputs_of_test: Tensor | None = None
    error: BaseException | None = None
    line: str = ""
    statistics: tuple[float, float] = (math.nan, math.nan)
    evaluates_a_copy: bool = False
    tested: int = 0
    by_chance: list[dict[str, float]] = field(default_factory=list)


def index_left_out(spec: Spec) -> int:
    """The label that the loss leaves out: as declared, or PyTorch's default."""
    return -100 if spec.ignore_index is None else spec.ignore_index


def counted(y: Tensor, spec: Spec) -> Tensor:
    """Where labels count, like y: neither negative nor the one that the loss leaves out."""
    return (y >= 0) & (y != index_left_out(spec))
