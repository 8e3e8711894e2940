"""How a program is looked at: its loaders, its loss, its errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from .observed import Run
from .program import Program
from .recorder import Recorder

MOST = 4000  # examples that are looked at


def watch(program: Program, recorder: Recorder, run: Run) -> None:
    """Put the recorder between a program and its loaders and loss."""
    own, parts = program.loss_fn, program.parts
    if own is not None:

        def loss_fn(outputs: Any, targets: Any) -> Tensor:
            loss = own(outputs, targets)
            recorder.loss("loss_fn", (outputs, targets), {}, loss)
            return loss

        program.loss_fn = loss_fn
    program.train_loader = recorder.watched(program.train_loader, lambda batch: parts(batch)[0])
    if program.test_loader is not None:

        def counted(batch: Any) -> Any:
            run.tested += 1

        program.test_loader = recorder.watched(program.test_loader, counted)


def authors_line(error: BaseException) -> str:
    """File and line that raised, the last one outside of installed packages and of this library."""
    own = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)
    outside = [one for one in frames if "site-packages" not in one.filename and Path(one.filename).parent != own]
    return f"{Path(outside[-1].filename).name}, line {outside[-1].lineno}: {outside[-1].line}" if outside else ""


def _some(loader: Iterable[Any], parts: Callable[[Any], tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    seen = 0
    for batch in loader:
        inputs, targets = parts(batch)
        yield inputs, targets
        seen += len(inputs)
        if seen >= MOST:
            return


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"a {type(value).__name__} where a tensor was expected")
    return value.detach().cpu()


def _attribute(model: Any, path: str) -> Any:
    for name in path.split("."):
        model = getattr(model, name, None)
    return model
