"""The visible check of a question: runs its public cases and says, case by case, what happened and what to look at."""

from __future__ import annotations

import copy
import html
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .compare import agree, difference, show
from .misconceptions import GENERAL, OVERWRITES, SECOND_CALL, explains, general_mistake, mistake_of, words_of
from .observe import observe
from .process_state import told_left
from .question import PublicCase, PublicQuestion
from .replaced_functions import put_back_functions, remember_functions

RIGHT, UNANSWERED, WRONG = "right", "not answered yet", "not yet"
_MARK = {RIGHT: "✓", UNANSWERED: "…", WRONG: "✗"}
# Okabe-Ito green, grey and vermilion, dark enough on white and light enough on black; the mark says it without colour.
_COLOUR = {RIGHT: "#009E73", UNANSWERED: "#808080", WRONG: "#D55E00"}


_MOST_OF_INPUTS = 200
"""Characters of a case's inputs that a message shows."""
_DRAWN = "a case of this kind: make one, and work it by hand"
_MOST_WRONG = 3
"""Further cases of which the check tells what is wrong."""

_practice_is_skipped = threading.Event()

LATEST: dict[str, CheckResult] = {}
"""What `check` showed last for each question in this session, for `show_progress`."""


@dataclass(frozen=True)
class Line:
    """What one part of a question did on one case: its state, what happened, what to look at."""

    case: str
    part: str
    state: str
    what: str = ""
    look_at: str = ""
    misconception: str | None = None


@dataclass(frozen=True)
class CheckResult:
    """The visible check's lines, shown as a table in a notebook and as text elsewhere."""

    title: str
    lines: tuple[Line, ...]
    left: tuple[str, ...] = ()
    """What the answer left changed in the process, which was put back."""
    right: str = RIGHT
    """What the heading says when every line is right."""

    @property
    def state(self) -> str:
        """`right` when every line is, `not answered yet` when no line is answered, else `not yet`."""
        states = {line.state for line in self.lines}
        return states.pop() if len(states) == 1 else WRONG

    def __repr__(self) -> str:
        rows = [self._head()]
        for mark, where, message, look_at in self._rows():
            rows.append(f"  {mark} {where}: {message}")
            if look_at:
                rows.append(f"      look at: {look_at}")
        rows += [f"  {self._tail()}"] if self._tail() else []
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        items = [
            f'<li style="margin:0.3em 0">{mark} <em>{html.escape(where)}</em>: {html.escape(message)}'
            + (f"<br><strong>Look at</strong> {html.escape(look_at)}" if look_at else "")
            + "</li>"
            for mark, where, message, look_at in self._rows()
        ]
        listed = f'<ul style="list-style:none;padding-left:1em;margin:0.4em 0">{"".join(items)}</ul>' if items else ""
        return (
            f'<div role="status" style="border-left:4px solid {_COLOUR[self.state]};padding:0.4em 0.8em">'
            f"<div><strong>{html.escape(self._head())}</strong></div>{listed}<div>{html.escape(self._tail())}</div></div>"
        )

    def _head(self) -> str:
        return f"{_MARK[self.state]} {self.title}: {self.right if self.state == RIGHT else self.state}"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Mark, case, what happened and what to look at for each line; what was said before is not said again."""
        if self.state == UNANSWERED:
            return []
        one_part = len({line.part for line in self.lines if line.part}) == 1
        first_places: dict[str, str] = {}
        rows = []
        for line in self.lines:
            message = (line.what or line.state).removeprefix(f"{line.part}: ")
            key = line.misconception or message
            where = line.case if one_part or not line.part else f"{line.case}, {line.part}"
            first = first_places.setdefault(key, where)
            repeated = line.state == WRONG and first != where
            text, look_at = (f"the same as in “{first}”", "") if repeated else (message, line.look_at)
            rows.append((_MARK[line.state], where, text, look_at))
        return rows

    def _tail(self) -> str:
        tail = {
            UNANSWERED: "Write your answer in the cell above, run it, then run this cell again.",
            RIGHT: "The visible cases agree. Hidden cases, on other inputs, decide the points.",
        }
        return " ".join(filter(None, [tail.get(self.state), told_left(self.left)]))


def skip_practice() -> None:
    """From now on checks in this process try their visible cases alone: hidden ones follow, and time is limited."""
    _practice_is_skipped.set()


def check(question_id: str, *functions: Callable[..., Any]) -> None:
    """Run the visible check of a question on the functions you wrote, and show the result.

    Args:
        question_id: for example `"03a-clip"`.
        functions: the functions of the answer cell, in the order in which the question names them.

    Raises:
        KeyError: there is no such question; the message lists those there are.
        TypeError: the number of functions is not the question's.

    """
    from IPython.display import display

    LATEST.pop(question_id, None)  # a check that fails to run leaves no older result standing
    LATEST[question_id] = check_result(question_id, *functions)
    display(LATEST[question_id])


def check_result(question_id: str, *functions: Callable[..., Any]) -> CheckResult:
    """As `check`, but returns the result instead of showing it."""
    from .registry import find_question

    question = find_question(question_id)
    named = name_functions(question, functions)
    remember_functions()
    lines: list[Line] = []
    left: dict[str, None] = {}
    observations = [observe(question, named, case.inputs) for case in question.cases]
    for case, observation in zip(question.cases, observations, strict=True):
        left.update(dict.fromkeys(text for outcome in observation.values() for text in outcome.get("left", ())))
        lines += [_check_part(question, case, part, observations, observation[part]) for part in case.expected]
    if not _practice_is_skipped.is_set() and all(line.state == RIGHT for line in lines):
        lines += _practised(question, named)
    left.update(dict.fromkeys(put_back_functions()))
    return CheckResult(f"{question.id} · {question.title}", tuple(lines), tuple(left), question.heading or RIGHT)


def _practised(question: PublicQuestion, functions: Mapping[str, Callable[..., Any]]) -> list[Line]:
    """What goes wrong on cases drawn like the hidden ones, for the first few; or one line that all are right."""
    wrong: list[Line] = []
    for case in question.practice:
        observation = observe(question, functions, case.inputs)
        lines = [_check_part(question, case, part, None, observation[part]) for part in case.expected]
        wrong += [replace(line, case=f"a further case: {line.case}") for line in lines if line.state != RIGHT]
        if len({line.case for line in wrong}) >= _MOST_WRONG:
            break
    if wrong or not question.practice:
        return wrong
    return [Line(f"{len(question.practice)} further cases, drawn like the hidden ones", "", RIGHT, "right")]


def name_functions(
    question: PublicQuestion, functions: tuple[Callable[..., Any], ...]
) -> dict[str, Callable[..., Any]]:
    """Pair the functions with the names that `question` gives them."""
    if len(functions) != len(question.functions):
        wanted = ", ".join(question.functions)
        raise TypeError(f"{question.id} checks {len(question.functions)} functions ({wanted}), got {len(functions)}")
    return dict(zip(question.functions, functions, strict=True))


def _check_part(
    question: PublicQuestion,
    case: PublicCase,
    part: str,
    observations: list[dict[str, Any]] | None,
    outcome: dict[str, Any],
) -> Line:
    """What a part did; `observations` of all cases tell a known mistake, where each case says what it gives there."""
    if "unanswered" in outcome:
        return Line(case.name, part, UNANSWERED)
    if "raised" in outcome:
        return Line(case.name, part, WRONG, f"your code raised {outcome['raised']}", "what that line was given here")
    if "unusable" in outcome:
        return Line(case.name, part, WRONG, outcome["unusable"], "what the question says that the function returns")
    if "overwritten" in outcome:
        general = GENERAL[OVERWRITES]
        return Line(case.name, part, WRONG, f"{general.what} ({outcome['overwritten']})", general.look_at, OVERWRITES)
    values, expected = outcome["value"], case.expected[part]
    wrong = difference(values, expected, question.relative_tolerance, part)
    if wrong is None:
        return Line(case.name, part, RIGHT, question.told.get(part) or _exactness(values, expected))
    explained = None if observations is None else _explaining(question, case, part, observations, values)
    again = SECOND_CALL if "again" in outcome else None
    mistake = explained or again or _general(question, values, expected)
    words = words_of(question, mistake)
    if words is not None:
        return Line(case.name, part, WRONG, f"{words.what} ({wrong})", words.look_at, mistake)
    return Line(case.name, part, WRONG, wrong, question.look_at or _inputs_told(question, case))


def _explaining(
    question: PublicQuestion, case: PublicCase, part: str, observations: list[dict[str, Any]], values: dict[str, Any]
) -> str | None:
    """The mistake that gives these values; where every case says what it gives, on all cases."""
    tolerance = question.relative_tolerance
    wrong = [name for name, value in case.expected[part].items() if not agree(values.get(name), value, tolerance)]
    expected = [public.expected for public in question.cases]
    forms = dict.fromkeys(name for public in question.cases for name in public.mistakes)
    # In the order of the description, in which the judge takes them too.
    for name in sorted(forms, key=lambda form: list(question.misconceptions).index(mistake_of(form))):
        mistaken = [public.mistakes.get(name, {}) for public in question.cases]
        if any(explains(observations, expected, mistaken, tolerance, f"{part}.{entry}") for entry in wrong):
            return mistake_of(name)
    return None


def _general(question: PublicQuestion, values: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """The general mistake that explains every wrong value of a part."""
    tolerance = question.relative_tolerance
    wrong = [name for name, value in expected.items() if not agree(values.get(name), value, tolerance)]
    names = {general_mistake(values.get(name), expected[name], tolerance) for name in wrong}
    return "wrong-size" if "wrong-size" in names else names.pop() if len(names) == 1 else None


def _inputs_told(question: PublicQuestion, case: PublicCase) -> str:
    """What a case gives to the functions, where that fits on a line or two; else how to get it."""
    inputs = ", ".join(f"{name} = {show(value)}" for name, value in case.inputs.items())
    if len(inputs) > _MOST_OF_INPUTS:
        call = f"lecture_lib.notebook.case_inputs({question.id!r}, {case.name!r})"
        is_visible = any(case is each for each in question.cases)
        return f"this case, and work it by hand; its inputs: {call}" if is_visible else _DRAWN
    return f"this case, and work it by hand; its inputs: {inputs}"


def case_inputs(question_id: str, name: str) -> dict[str, Any]:
    """The inputs of a visible case, to work through by hand.

    Args:
        question_id: such as '03b-shift'.
        name: of the case, as `check` prints it.

    Returns:
        What the case gives to the functions, by name; arrays are copies.

    Raises:
        KeyError: no such question, or no visible case of this name; the message lists the names.

    """
    from .registry import find_question

    cases = {case.name: case for case in find_question(question_id).cases}
    if name not in cases:
        raise KeyError(f"{question_id} has no case {name!r}; it has {', '.join(map(repr, cases))}")
    return copy.deepcopy(dict(cases[name].inputs))


def _exactness(values: Any, expected: Any) -> str:
    # Up to float64's own rounding, which differs from processor to processor.
    return "exact" if agree(values, expected, 1e-12) else "right, within rounding"
