"""A bar over the steps of a run, in the terminal and in a notebook."""

from __future__ import annotations

import math
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .checks import count_batches
from .history import Epoch

if TYPE_CHECKING:
    from ..types import Batches


class Progress:
    """The bar, or nothing when it is not wanted.

    Args:
        enabled: whether there is a bar.
        loader: its length gives the number of steps.
        epochs: of the run.
        accumulate: batches in a step.
        steps_before: that an earlier process took.

    Raises:
        ImportError: it is wanted and tqdm is missing.

    """

    def __init__(self, enabled: bool, loader: Batches, epochs: int, accumulate: int, steps_before: int) -> None:
        self._bar: Any = None
        if not enabled:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True needs tqdm. Run: pip install tqdm") from None
        batches = count_batches(loader)
        total = None if batches is None else epochs * math.ceil(batches / accumulate)
        self._bar = tqdm(total=total, initial=steps_before, unit="step")

    def __enter__(self) -> Progress:
        return self

    def step(self) -> None:
        """One step further."""
        if self._bar is not None:
            self._bar.update()

    def epoch(self, row: Epoch) -> None:
        """Show the losses of an epoch."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"epoch {row.epoch}: loss {row.train_loss:.4g}, validation {row.val_loss:.4g}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
