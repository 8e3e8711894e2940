"""How a program is looked at: its loaders, its loss, its errors."""

from __future__ import annotations

import traceback
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from torch import Tensor

from ..program import Program, UnknownBatchError
from ..recorder import Recorder
from .assumptions import NotAskedError
from .run_data import RecordedRun

PROGRAM = getsourcefile(Program)


def watch(program: Program, recorder: Recorder, run: RecordedRun) -> None:
    """Put the recorder between a program and its loaders and loss."""
    own, parts = program.loss_fn, program.parts
    if own is not None:

        def loss_fn(outputs: Any, targets: Any) -> Tensor:
            loss = own(outputs, targets)
            recorder.loss("loss_fn", (outputs, targets), {}, loss)
            return loss

        program.loss_fn = loss_fn

    def inputs_of(batch: Any) -> Any:
        try:
            return parts(batch)[0]
        except Exception:  # the author's own loop knows what is in a batch, and must not stop for it
            return batch[0] if isinstance(batch, (tuple, list)) and batch else None

    if program.train_loader is not None:
        program.train_loader = recorder.watched(program.train_loader, inputs_of)
    if program.test_loader is not None:

        def counted(batch: Any) -> Any:
            run.tested += 1

        program.test_loader = recorder.watched(program.test_loader, counted)


def why_not(error: Exception) -> str:
    """Why a question could not be asked: a reason that was given, the author's code that objects, or a slip of ours."""
    if isinstance(error, (NotAskedError, UnknownBatchError)):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    if any(frame.filename == PROGRAM for frame in traceback.extract_tb(error.__traceback__)):
        where = f" ({line})" if (line := authors_line(error)) else ""
        return f"the program does not take the batches that this is asked with, {text}{where}"
    return f"this rule could not be asked: {text}"


def authors_line(error: BaseException) -> str:
    """File and line that raised, the last one outside of installed packages and of this library."""
    own = Path(__file__).parents[1]
    frames = traceback.extract_tb(error.__traceback__)
    outside = [
        frame for frame in frames if "site-packages" not in frame.filename and own not in Path(frame.filename).parents
    ]
    return f"{Path(outside[-1].filename).name}, line {outside[-1].lineno}: {outside[-1].line}" if outside else ""
