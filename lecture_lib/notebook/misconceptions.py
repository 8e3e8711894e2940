"""Recognises a known mistake by its numbers: it must explain everything that was observed, not one case of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from .compare import agree
from .question import Misconception, PublicQuestion

Fields = Mapping[str, Mapping[str, Any]]
"""part -> field -> value."""


def mistake_of(form: str) -> str:
    """The mistake's id in the name of one of its forms ("id", "id/2", "id/3" …)."""
    return form.partition("/")[0]


def explains(
    observations: Sequence[Mapping[str, Any]],
    expected: Sequence[Fields],
    mistaken: Sequence[Fields],
    relative_tolerance: float,
    path: str | None = None,
) -> bool:
    """Whether a mistake gives what was observed, case by case, in every field that it changes on any of the cases.

    A field that a case does not have (its kind is not asked for it) says nothing about that case.

    Args:
        observations: for each case, part -> {"value": {field: value}} or {"raised": text}.
        expected: what is right on each case.
        mistaken: for each case, the fields that the mistake changes there; elsewhere it gives what is right.
        relative_tolerance: as in `compare.difference`.
        path: a field ("part.field") that the mistake must change on some case; default: any.

    """
    changed = {(part, name) for fields in mistaken for part, values in fields.items() for name in values}
    if not changed or (path is not None and tuple(path.split(".", maxsplit=1)) not in changed):
        return False
    return all(
        agree(_observed(observation, part, name), wrong.get(part, {}).get(name, right[part][name]), relative_tolerance)
        for observation, right, wrong in zip(observations, expected, mistaken, strict=True)
        for part, name in changed
        if name in right.get(part, {})
    )


NOTHING = object()
"""What is observed where no value came back. Not None, which an answer may return and a mistake may give."""


def _observed(observation: Mapping[str, Any], part: str, name: str) -> Any:
    fields = observation.get(part, {})
    values = fields.get("value") if isinstance(fields, Mapping) else None
    return values.get(name, NOTHING) if isinstance(values, Mapping) else NOTHING


CORNER_CASE = "corner-case"
SECOND_CALL = "second-call"
OVERWRITES = "overwrites-argument"
GENERAL = {
    "nothing-returned": Misconception(
        "None came back where a value is due", "whether every way through your function ends with `return`"
    ),
    "wrong-dtype": Misconception(
        "the numbers are right, in another dtype than asked for",
        "the `dtype` of your result, and of the array or tensor that it was made from",
    ),
    "wrong-shape": Misconception(
        "the numbers are right, in another shape than asked for",
        "the `shape` of your result beside the one that the question states",
    ),
    "wrong-size": Misconception(
        "the result has another number of entries than asked for",
        "what the length or the `shape` of the result depends on: which argument, or which entries",
    ),
    "raised": Misconception(
        "an input that the question allows stopped your code with an error",
        "the line that the error names, and which inputs of the question's wording it was not made for",
    ),
    "wrong-form": Misconception(
        "what came back has another form than the question asks for",
        "what the question says that the function returns: how many things, and of which type",
    ),
    "not-finite": Misconception(
        "nan or infinity came back where the right value is finite",
        "divisions, logarithms and differences of infinities, and the input at which they have no value",
    ),
    "sign": Misconception("the numbers are right but for their sign", "the order of each difference"),
    "axes-exchanged": Misconception(
        "the numbers are right, with their axes exchanged", "which axis of your result counts what"
    ),
    "wrong-order": Misconception("the right entries came back in another order", "what the question says of the order"),
    "nearly-right": Misconception(
        "the numbers are nearly right: off by less than a hundredth, and by more than rounding explains",
        "what is added, left out or rounded on the way, and in which precision it is computed",
    ),
    SECOND_CALL: Misconception(
        "called a second time with the same arguments, your function gives another result",
        "which of its arguments your code changes, and what it keeps from one call to the next",
    ),
    OVERWRITES: Misconception(
        "your function changes an argument, which whoever called it still needs",
        "what `clone()`, `copy()`, `list()` or `dict()` is for, and which of your lines works in place",
    ),
    CORNER_CASE: Misconception(
        "most kinds of inputs are right and a few are not; the message names one that is not",
        "what sets these inputs apart, and which line of your code did not expect them",
    ),
}
"""Mistakes that can be made in any question, and are told by the values alone."""


def words_of(question: PublicQuestion, mistake: str | None) -> Misconception | None:
    """The words for a mistake of this question or a general one; None for any other name."""
    return question.misconceptions.get(mistake or "") or GENERAL.get(mistake or "")


def general_mistake(value: Any, expected: Any, relative_tolerance: float) -> str | None:
    """Which of the general mistakes makes `value` differ from what is right, or None."""
    if _lacks(value, expected):
        return "nothing-returned"
    if _has_other_size(value, expected):
        return "wrong-size"
    for name, corrected in (
        ("wrong-dtype", _like(value, expected, reshape=False)),
        ("wrong-shape", _like(value, expected, reshape=True)),
    ):
        if agree(corrected, expected, relative_tolerance):
            return name
    if agree(value, expected, _CLOSE):
        return "nearly-right"  # what differs is rounding: no sign and no order of axes explains it
    leaves = list(_numbers(value, expected))
    if any(not np.isfinite(number).all() and np.isfinite(right).all() for number, right in leaves):
        return "not-finite"
    if _is_permuted(value, expected):
        return "wrong-order"
    wrong = [pair for pair in leaves if not agree(*pair, _CLOSE)]
    return next((name for name, alike in _RELATIONS.items() if wrong and all(alike(*pair) for pair in wrong)), None)


def _exchanged(number: np.ndarray, right: np.ndarray) -> bool:
    orders = permutations(range(number.ndim)) if 2 <= number.ndim <= _MOST_AXES else ()
    return any(agree(number.transpose(order), right, _CLOSE) for order in orders)


def _near(number: np.ndarray, right: np.ndarray) -> bool:
    size = float(np.abs(right).max(initial=0.0))
    return number.shape == right.shape and bool((np.abs(number - right) <= _NEARLY * size).all())


_CLOSE, _NEARLY, _MOST_AXES = 1e-5, 1e-2, 4
_RELATIONS: dict[str, Callable[[np.ndarray, np.ndarray], bool]] = {
    "sign": lambda number, right: agree(-number, right, _CLOSE),
    "axes-exchanged": _exchanged,
    "nearly-right": _near,
}
"""How wrong numbers are related to the right ones; the same relation must hold for each array that is wrong."""


def _numbers(value: Any, expected: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The floating-point arrays of both in pairs; whole numbers are counts or choices, where near means nothing."""
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        for name in expected.keys() & value.keys():
            yield from _numbers(value[name], expected[name])
    elif isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        for part, right in zip(value, expected, strict=False):
            yield from _numbers(part, right)
    elif isinstance(value, np.ndarray | float) and isinstance(expected, np.ndarray | float):
        pair = np.asarray(value), np.asarray(expected)
        if all(array.dtype.kind == "f" for array in pair):
            yield pair[0].astype(np.float64), pair[1].astype(np.float64)


def _is_permuted(value: Any, expected: Any) -> bool:
    """Whether two lists of words hold the same entries in different orders."""
    lists = [entry for entry in (value, expected) if isinstance(entry, list | tuple)]
    return (
        len(lists) == 2
        and all(isinstance(word, str) for words in lists for word in words)
        and list(value) != list(expected)
        and sorted(value) == sorted(expected)
    )


def _has_other_size(value: Any, expected: Any) -> bool:
    """Whether a list, or an array that is due, has more or fewer entries than the right one."""
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        return len(value) != len(expected) or any(map(_has_other_size, value, expected))
    arrays = isinstance(value, np.ndarray) and isinstance(expected, np.ndarray)
    return arrays and value.ndim == expected.ndim and value.size != expected.size


def _lacks(value: Any, expected: Any) -> bool:
    """Whether there is None in the place of something."""
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        return any(map(_lacks, value, expected))
    return value is None and expected is not None


def _like(value: Any, expected: Any, *, reshape: bool) -> Any:
    """`value` with the dtypes of `expected`, and with its shapes too where they hold as many numbers."""
    if isinstance(expected, list | tuple) and isinstance(value, list | tuple):
        return [_like(part, right, reshape=reshape) for part, right in zip(value, expected, strict=True)]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or isinstance(expected, str | dict | None):
        return value
    right = np.asarray(expected)
    shaped = value.reshape(right.shape) if reshape and value.size == right.size else value
    return shaped.astype(right.dtype) if right.dtype.kind == "f" else shaped
