"""Runs a student's functions on a case and says what happened, in plain data.

Nothing here has an opinion: an observation holds returned values, or the text of an exception, or that the answer is
still the stub. Whether that is right is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .question import Functions, Inputs, PublicQuestion

UNANSWERED = {"unanswered": True}


class WriteItYourself(RuntimeError):  # noqa: N818 - the name is the message
    """Raised by a ready-made function while the question that asks for it is being checked."""


def observe(question: PublicQuestion, functions: Functions, inputs: Inputs) -> dict[str, dict[str, Any]]:
    """Observe every part of `question` on one case.

    Returns part -> {"value": {field: plain value}} or {"raised": text} or {"unanswered": True}. A part that fails
    says nothing about the others: each runs by itself.
    """
    with forbid_ready_made(question):
        return {part: _observe_part(run, functions, inputs) for part, run in question.parts.items()}


def _observe_part(
    run: Callable[[Functions, Inputs], dict[str, Any]], functions: Functions, inputs: Inputs
) -> dict[str, Any]:
    called: list[Callable[..., Any]] = []
    try:
        values = run(_Recording(functions, called), inputs)
        seen: dict[str, Any] = {"value": {field: plain(value) for field, value in values.items()}}
    except (Exception, SystemExit) as error:
        seen = {"raised": _told(error, called)}
    return dict(UNANSWERED) if any(is_stub(function) for function in called) else seen


def _told(error: BaseException, called: list[Callable[..., Any]]) -> str:
    """An exception in a line, with the line of the student's own code that raised it where that is known."""
    functions = [method for one in called for method in (_methods(one) if isinstance(one, type) else [one])]
    files = {function.__code__.co_filename for function in functions if hasattr(function, "__code__")}
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    where = f" (line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else ""
    return f"{type(error).__name__}: {error}{where}"


class _Recording(dict[str, Callable[..., Any]]):
    """The student's functions, remembering which of them a part asked for."""

    def __init__(self, functions: Functions, called: list[Callable[..., Any]]) -> None:
        super().__init__(functions)
        self._called = called

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = super().__getitem__(name)
        self._called.append(function)
        return function


def is_stub(function: Callable[..., Any]) -> bool:
    """Whether `function` has an empty body: `...`, `pass`, a docstring, or `raise NotImplementedError`.

    A class is a stub as long as one of its own methods is.
    """
    if isinstance(function, type):
        return any(is_stub(method) for method in _methods(function))
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    work = [step for step in dis.get_instructions(code) if step.opname not in {"RESUME", "NOP", "COPY_FREE_VARS"}]
    if code.co_names == ("NotImplementedError",):
        return any(step.opname == "RAISE_VARARGS" for step in work)
    loads = {step.opname for step in work}
    return (
        loads <= {"LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
        and work[-1].argval in (None, Ellipsis)
        and (work[0].argval in (None, Ellipsis))
    )


def _methods(cls: type) -> list[Callable[..., Any]]:
    """The functions that are defined in the class itself."""
    return [member for member in vars(cls).values() if hasattr(member, "__code__")]


def plain(value: Any) -> Any:
    """`value` as plain data: tensors and numbers become NumPy arrays, sets become sorted lists.

    Raises TypeError for anything else, naming its type, so that a wrong return type has a clear message.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, bool | int | float | np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    raise TypeError(f"cannot read a {type(value).__name__}: return tensors, numbers, text, or lists and dicts of them")


@contextlib.contextmanager
def forbid_ready_made(question: PublicQuestion) -> Iterator[None]:
    """While active, the functions that do what `question` asks for raise `WriteItYourself`. Advice, not a lock."""
    with contextlib.ExitStack() as stack:
        for path in question.ready_made:
            module_name, name = path.rsplit(".", 1)
            module = importlib.import_module(module_name)
            original = getattr(module, name)
            setattr(module, name, _refuse(path))
            stack.callback(setattr, module, name, original)
        yield


def _refuse(path: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise WriteItYourself(f"{path} does what this question asks for: write it yourself")

    return refused
