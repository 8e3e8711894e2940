"""Runs a student's functions on a case and says what happened, in plain data.

Nothing here has an opinion: an observation holds returned values, or the text of an exception, or that the answer is
still the stub. Whether that is right is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import importlib
import inspect
import re
import traceback
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .compare import agree
from .process_state import standard_process
from .question import Functions, Inputs, PublicQuestion

UNANSWERED = {"unanswered": True}
_observed: Counter[str] = Counter()
"""How often each question was observed: random streams start elsewhere each time, whatever other answers drew."""
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?")
_MOST_CHARACTERS = 300
_CONSTANT = int, float, str, type(None), np.generic, torch.dtype  # no function can change these
_SAME = 1e-9  # relative: two runs of the same sum may differ in their last digits


class WriteItYourself(RuntimeError):  # noqa: N818 - the name is the message
    """Raised by a ready-made function while the question that asks for it is being checked."""


def observe(question: PublicQuestion, functions: Functions, inputs: Inputs) -> dict[str, dict[str, Any]]:
    """Observe every part of `question` on one case.

    Returns part -> {"value": {field: plain value}}, {"raised": text} when the student's code raised, {"unusable": text}
    when what it returned is not of the form asked for, {"overwritten": text} when it changed an argument that has to
    stay as it is, or {"unanswered": True}. A part that fails says nothing about the others: each runs by itself, on
    inputs of its own, in a process with the standard settings.
    What it left changed in the process is put back and named: {"left": [text]} beside the rest. Every second time the
    parts are observed in the opposite order, because a function must not need what another one has stored; and of two
    calls of a repeatable function the second counts. {"again": True} says that a result was another one then.
    """
    _observed[question.id] += 1
    # Not hash(), which Python salts anew in every process.
    seeds = {part: zlib.crc32(f"{question.id} {part} {_observed[question.id]}".encode()) for part in question.parts}
    order = list(question.parts)[:: 1 if _observed[question.id] % 2 else -1]
    with forbid_ready_made(question):
        outcomes = {
            part: _observe_part(
                question.parts[part], _Recording(functions, question), copy.deepcopy(inputs), seeds[part]
            )
            for part in order
        }
    return {part: outcomes[part] for part in question.parts}


def _observe_part(
    run: Callable[[Functions, Inputs], dict[str, Any]], recording: _Recording, inputs: Inputs, seed: int
) -> dict[str, Any]:
    left: list[str] = []
    with standard_process(left, seed):
        try:
            values = run(recording, inputs)
            outcome: dict[str, Any] = {"value": {field: plain(value) for field, value in values.items()}}
        # SystemExit: an exit() in an answer must end neither the notebook's kernel nor the grading.
        except (Exception, SystemExit) as error:
            outcome = {"raised": _described(error, recording.called)}
            if recording.returned is not None and not _own_frames(error, recording.called):
                outcome = {"unusable": recording.unusable(error)}
    # After the run: a question may have several functions, and a part needs only those that it called.
    if any(is_stub(function) for function in recording.called):
        return dict(UNANSWERED)
    if recording.overwritten and "value" in outcome:
        outcome = {"overwritten": recording.overwritten}
    return outcome | ({"left": left} if left else {}) | ({"again": True} if recording.differs_again else {})


def _own_frames(error: BaseException, called: list[Callable[..., Any]]) -> list[traceback.FrameSummary]:
    """The frames of the student's own code that an exception passed through."""
    files = {
        code.__code__.co_filename for item in called for code in [item, *_methods(item)] if hasattr(code, "__code__")
    }
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]


def _described(error: BaseException, called: list[Callable[..., Any]]) -> str:
    """An exception in a line, with the line of the student's own code that raised it where that is known."""
    own = _own_frames(error, called)
    where = f" (line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else ""
    return f"{type(error).__name__}: {_in_a_line(str(error))}{where}"


def _in_a_line(text: str) -> str:
    """A message without colours and line breaks; PyTorch's on unpickling have both and fill a page."""
    line = " ".join(_ESCAPES.sub("", text).split())
    printable = "".join(character for character in line if character.isprintable())
    return printable if len(printable) <= _MOST_CHARACTERS else f"{printable[:_MOST_CHARACTERS]}…"


class _Recording(dict[str, Callable[..., Any]]):
    """The student's functions, remembering which of them a part asked for and what the last call returned.

    A repeatable one is called twice with the same arguments; `differs_again` says that a second result was another one.
    `overwritten` names the first argument that a function changed although it has to leave it as it is. Only what is
    plain data is looked at: a model that is trained is another one afterwards.
    """

    def __init__(self, functions: Functions, question: PublicQuestion) -> None:
        super().__init__(functions)
        self._repeatable, self._may_overwrite = question.repeatable, question.may_overwrite
        self.differs_again = False
        self.overwritten = ""
        self.called: list[Callable[..., Any]] = []
        self.returned: tuple[str, Any] | None = None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = super().__getitem__(name)
        self.called.append(function)
        # A class stays as it is: behind a wrapper it would be no class any more.
        if not isinstance(function, types.FunctionType):
            return function

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.returned = None
            values = [] if name in self._may_overwrite else [*args, *kwargs.values()]
            kept = [(value, _readable(value)) for value in values if not isinstance(value, _CONSTANT)]
            result = function(*args, **kwargs)
            changed = next((value for value, before in kept if not _same(_readable(value), before)), None)
            if changed is not None and not self.overwritten:
                arguments = inspect.signature(function).bind(*args, **kwargs).arguments
                argument = next((argument for argument, value in arguments.items() if value is changed), "*args")
                self.overwritten = f"{name} changes its argument `{argument}`"
            if name in self._repeatable:
                # Read before the second call, which may change what the first one returned.
                before, result = _readable(result), function(*args, **kwargs)
                self.differs_again |= not agree(_readable(result), before, _SAME)
            self.returned = name, result
            return result

        return recorded

    def unusable(self, error: BaseException) -> str:
        """What is wrong with the value of the last call, where the call itself went well."""
        assert self.returned is not None
        name, result = self.returned
        if result is None:
            return f"{name} returned None: is a `return` missing?"
        kind = (
            f"{type(result).__name__} of {len(result)}" if isinstance(result, list | tuple) else type(result).__name__
        )
        return f"{name} returned a {kind}, which is not what the question asks for ({_in_a_line(str(error))})"


def _readable(value: Any) -> Any:
    """A value as plain data; "" where it has a form that cannot be read."""
    try:
        return plain(value)
    except Exception:
        return ""


def _same(value: Any, before: Any) -> bool:
    """Whether plain data is what it was, bit by bit but for nan, which is equal to nan here."""
    if isinstance(before, dict):
        keys = isinstance(value, dict) and list(value) == list(before)
        return keys and all(map(_same, value.values(), before.values()))
    if isinstance(before, list):
        return isinstance(value, list) and len(value) == len(before) and all(map(_same, value, before))
    if isinstance(before, np.ndarray):
        kind = isinstance(value, np.ndarray) and value.dtype == before.dtype
        return kind and np.array_equal(value, before, equal_nan=before.dtype.kind in "fc")
    return type(value) is type(before) and value == before


def is_stub(function: Callable[..., Any]) -> bool:
    """Whether `function` has an empty body: `...`, `pass`, a docstring, or `raise NotImplementedError`.

    A class is one when a method of its own is: an answer cell that asks for a class leaves only methods open.
    """
    if isinstance(function, type):
        return any(is_stub(method) for method in _methods(function))
    code = getattr(function, "__code__", None)
    return code is not None and _does_nothing(code)


@functools.lru_cache(maxsize=64)  # asked for every function in every case
def _does_nothing(code: types.CodeType) -> bool:
    # Bytecode, not source: comments and layout make no difference, and no file is needed to read it from.
    return _steps(code) in _empty_bodies()


@functools.cache
def _empty_bodies() -> list[list[tuple[str, Any]]]:
    # Compiled here, because each version of Python has its own bytecode.
    bodies = "...", "return ...", *(f"raise NotImplementedError{message}" for message in ("", "()", "('text')"))
    compiled = [compile(f"def stub(): {body}", "stub", "exec") for body in bodies]
    return [_steps(code) for module in compiled for code in module.co_consts if isinstance(code, types.CodeType)]


def _steps(code: types.CodeType) -> list[tuple[str, Any]]:
    """The instructions of a function; of a constant text they say only that it is one."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in {"RESUME", "NOP", "COPY_FREE_VARS"}]
    text = [step.opcode in dis.hasconst and isinstance(step.argval, str) for step in steps]
    return [(step.opname, "" if is_text else step.argval) for step, is_text in zip(steps, text, strict=True)]


def _methods(item: Any) -> list[Callable[..., Any]]:
    """The methods that a class defines itself; none of anything else."""
    return [member for member in vars(item).values() if hasattr(member, "__code__")] if isinstance(item, type) else []


def plain(value: Any) -> Any:
    """`value` as plain data: tensors and numbers become NumPy arrays, sets become sorted lists.

    Raises TypeError for anything else, naming its type, so that a wrong return type has a clear message.
    """
    if value is None or isinstance(value, str):
        return value
    # Copies: an array would share memory with a tensor or array that the answer may change later.
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, bool | int | float | np.ndarray | np.generic):
        return np.array(value)
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
            # By a stack, so that all are put back when an answer raises, or when a later path does not exist.
            stack.callback(setattr, module, name, original)
        yield


def _refuse(path: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise WriteItYourself(f"{path} does what this question asks for: write it yourself")

    return refused
