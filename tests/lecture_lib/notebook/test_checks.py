"""The visible check: what a student reads for right, wrong, unanswered and broken answers."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
import torch

from autograders.questions.question import QUESTIONS, UNANSWERED
from autograders.questions.verify import cells as cells_of
from lecture_lib.notebook import case_inputs, check_result
from lecture_lib.notebook.check import CheckResult
from lecture_lib.notebook.compare import agree, difference
from lecture_lib.notebook.misconceptions import CORNER_CASE, general_mistake, mistake_of, words_of
from lecture_lib.notebook.observe import WriteItYourself, forbid_ready_made, is_stub, observe, plain
from lecture_lib.notebook.predict import predict, reveal
from lecture_lib.notebook.registry import find_question, public_questions

pytestmark = pytest.mark.slow

BANK = [(question, answer) for question in QUESTIONS.values() for answer in question.answers()]
# What the log of the script of 03b-debug does not show: who is blamed, and means that differ too little.
NOT_SHOWN = {("03b-debug", mistake) for mistake in ("misnamed", "own-statistics", "mean-of-means")}


@functools.cache
def checked(question_id: str, name: str) -> CheckResult:
    """What the visible check says of an answer of the bank."""
    question, answer = next(pair for pair in BANK if (pair[0].id, pair[1].name) == (question_id, name))
    return check_result(question_id, *functions_of(question, answer.source))


def functions_of(question, source: str) -> tuple:
    namespace: dict[str, object] = {}
    for text in [*cells_of(question)[0], source]:
        exec(compile(text, question.id, "exec"), namespace)
    return tuple(namespace[name] for name in question.public.functions)


@pytest.mark.parametrize(("question", "answer"), BANK, ids=lambda value: getattr(value, "name", None) or value.id)
def test_the_visible_check_agrees_with_the_bank(question, answer) -> None:
    result = checked(question.id, answer.name)
    not_shown = (question.id, answer.misconception) in NOT_SHOWN
    assert (result.state == "right") == (answer.points == question.points or not_shown)
    assert result.left == ()


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_an_unanswered_question_says_so_and_nothing_else(question) -> None:
    setup, stub = cells_of(question)
    namespace: dict[str, object] = {}
    for text in [*setup, stub]:
        exec(text, namespace)
    result = check_result(question.id, *(namespace[name] for name in question.public.functions))
    assert result.state == "not answered yet"
    assert "not answered yet" in repr(result)
    assert "✗" not in repr(result)
    assert 'role="status"' in result._repr_html_()


# The visible cases are small and fixed: these mistakes show in them only as a wrong number.
HIDDEN_ONLY = {"constant-answer", CORNER_CASE, "single-precision"}  # said of many cases together, or of a rare one
RAISED = [pair for pair in BANK if pair[1].misconception == "raised"]  # the error's own words are the message
MISTAKEN = [pair for pair in BANK if pair[1].misconception and pair[1].misconception not in {*HIDDEN_ONLY, "raised"}]
# Nothing is named that students are to find.
MISTAKEN = [pair for pair in MISTAKEN if not pair[0].variants]


@pytest.mark.parametrize(("question", "answer"), MISTAKEN, ids=lambda value: getattr(value, "name", None) or value.id)
def test_a_known_mistake_gets_its_own_message(question, answer) -> None:
    result = checked(question.id, answer.name)
    assert answer.misconception in {line.misconception for line in result.lines}
    known = words_of(question.public, answer.misconception)
    assert known.what in repr(result)
    assert known.look_at in repr(result)


@pytest.mark.parametrize(("question", "answer"), RAISED, ids=lambda value: getattr(value, "name", None) or value.id)
def test_an_answer_that_an_error_stops_gets_the_error(question, answer) -> None:
    assert "your code raised " in repr(checked(question.id, answer.name))


def test_numbers_that_are_wrong_by_their_rounding_alone_are_nearly_right() -> None:
    """As of weights that were saved in float32, where every bit counts; the message said that the sign was wrong."""
    expected = np.array([[0.1, -0.7]])
    assert general_mistake(expected.astype(np.float32).astype(np.float64), expected, 0.0) == "nearly-right"
    assert general_mistake(-expected, expected, 0.0) == "sign"


def test_right_numbers_beside_a_wrong_word_have_no_general_name() -> None:
    numbers = np.array([0.1, -0.7])
    assert general_mistake({"a": numbers, "b": "no"}, {"a": numbers, "b": "yes"}, 1e-6) is None


def test_the_worked_numbers_of_the_lecture_are_the_public_cases() -> None:
    worked = find_question("03a-accumulate").cases[0]
    assert worked.expected["epoch"]["weight"].item() == pytest.approx(0.8, abs=1e-12)
    assert worked.mistakes["no-division"]["epoch"]["weight"].item() == pytest.approx(1.6, abs=1e-12)
    clipped = find_question("03a-clip").cases[0].expected["clipping"]
    assert [value.item() for value in clipped["clipped"]] == [0.6, 0.8]
    assert clipped["norm"] == 5.0


def test_an_exception_in_the_answer_is_told_in_its_own_words() -> None:
    def broken(y_train, y_val, classes):
        raise ValueError("no such class")

    text = repr(check_result("03b-baseline", broken))
    assert "your code raised ValueError: no such class" in text
    assert "Traceback" not in text


def test_a_missing_return_is_not_called_unanswered() -> None:
    def forgot(y_train, y_val, classes):
        y_train.sum()

    result = check_result("03b-baseline", forgot)
    assert result.state == "not yet"


def test_the_wrong_number_of_functions_and_an_unknown_question_are_clear_errors() -> None:
    with pytest.raises(TypeError, match=r"checks 2 functions \(clip_by_global_norm, per_parameter_cosine\), got 1"):
        check_result("03a-clip", max)
    with pytest.raises(KeyError, match="there are: 03a-accumulate"):
        check_result("03a-clap")


def test_ready_made_functions_are_switched_off_while_checked_and_back_afterwards() -> None:
    original = torch.nn.utils.clip_grad_norm_
    question = find_question("03a-clip")
    with forbid_ready_made(question), pytest.raises(WriteItYourself, match="write it yourself"):
        torch.nn.utils.clip_grad_norm_([], 1.0)
    assert torch.nn.utils.clip_grad_norm_ is original
    result = check_result("03a-clip", lambda g, m: (g, torch.nn.utils.clip_grad_norm_(g, m)), lambda g, m: 1.0)
    assert "write it yourself" in repr(result)
    assert torch.nn.utils.clip_grad_norm_ is original


def test_every_misconception_has_words_and_is_recognised_somewhere() -> None:
    for public in public_questions().values():
        mistakes = {mistake_of(form) for case in public.cases for form in case.mistakes}
        judge = QUESTIONS[public.id].file.read_text("utf-8")
        judged = {name for name in public.misconceptions if f'"{name}"' in judge}
        assert mistakes | judged == set(public.misconceptions)
        assert UNANSWERED not in public.misconceptions


def stub_with_dots(x): ...


def stub_with_text(x):
    """Only a docstring."""


def stub_that_passes(x):
    pass


def stub_that_raises(x):
    raise NotImplementedError


def stub_that_raises_with_text(x):
    """Text."""
    raise NotImplementedError("write it")


def stub_with_everything(x):
    """Text."""
    pass
    ...
    return None


def stub_that_raises_before_an_answer(x):
    raise NotImplementedError()
    return x


def refuses_some_arguments(x, n):
    if n < 0:
        raise NotImplementedError("n must not be negative")
    return x * n


class RefusesSomeArguments:
    def __init__(self, n):
        if n < 0:
            raise NotImplementedError(f"n = {n}")

    def times(self, x):
        return x


def returns_its_argument(x):
    return x


def returns_a_number(x):
    return 1


def raises_another(x):
    raise ValueError("NotImplementedError")


@pytest.mark.parametrize(
    "stub",
    [
        stub_with_dots,
        stub_with_text,
        stub_that_passes,
        stub_that_raises,
        stub_that_raises_with_text,
        stub_with_everything,
        stub_that_raises_before_an_answer,
    ],
)
def test_a_stub_is_recognised(stub) -> None:
    assert is_stub(stub)


@pytest.mark.parametrize(
    "answer",
    [returns_its_argument, returns_a_number, raises_another, refuses_some_arguments, RefusesSomeArguments, max],
)
def test_an_answer_is_no_stub(answer) -> None:
    assert not is_stub(answer)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (np.zeros(2), np.zeros(3), "shape [2], expected [3]"),
        (np.zeros((1, 3)), np.zeros(3), "shape [1, 3], expected [3]"),
        (np.zeros(3, np.float32), np.zeros(3), "dtype float32, expected float64"),
        (np.array([1.0, 2.5]), np.array([1.0, 2.0]), "off by 0.5 at [1]: got 2.5, expected 2"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "off by nan at [1]"),
        (np.asarray(0.5), 0.25, "got 0.5, expected 0.25"),
        (None, 0.25, "is a `return` missing?"),
        ("0.25", 0.25, "expected a number, got a str"),
        ([np.asarray(1.0)], [np.asarray(1.0)] * 2, "got [1.], expected"),
        (np.asarray(1.0), [np.asarray(1.0)], "expected a sequence of 1, got a number"),
        (["b"], ["a"], "got ['b'], expected ['a']"),
        ({"a": 1}, {"b": 1}, "expected the entries ['b']"),
        (np.asarray("x"), np.asarray(1.0), "expected numbers, got dtype <U1"),
    ],
)
def test_a_difference_is_told_in_words(actual, expected, message: str) -> None:
    assert message in str(difference(actual, expected, 1e-6))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.asarray(0.25), 0.25),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-9])),
        ([], []),
        (["a", "b"], ["a", "b"]),
        ({"a": np.asarray(1)}, {"a": 1.0}),
    ],
)
def test_values_that_agree(actual, expected) -> None:
    assert agree(actual, expected, 1e-6)
    assert (difference(actual, expected, 1e-6) is None) is agree(actual, expected, 1e-6)


@pytest.mark.parametrize("expected", ["a text", None])
def test_an_array_in_the_place_of_a_text_or_of_nothing_differs(expected) -> None:
    assert not agree(np.array([1.0, 2.0]), expected, 1e-6)


def test_plain_data_copies_and_refuses_what_it_cannot_read() -> None:
    tensor = torch.tensor([1.0], requires_grad=True)
    copy = plain(tensor)
    with torch.no_grad():
        tensor += 1
    assert copy.tolist() == [1.0]
    assert plain({"b", "a"}) == ["a", "b"]
    with pytest.raises(TypeError, match="cannot read a object"):
        plain(object())


@pytest.mark.parametrize(
    ("guess", "actual", "message"),
    [
        (None, 2.0, "You made no prediction."),
        (2.1, 2.0, "right, or close"),
        (3, 2.0, "You predicted 3, 1 too high. Find out why"),
        (-18, 18.0, "You predicted -18, 36 too low."),
        (0.001, 1.5, "You predicted 0.001, too low by a factor of 1.5e+03."),
        ("flat", "flat", 'You predicted "flat": right.'),
        ("rising", "flat", "Find out why"),
        ("two", 2.0, "not a number"),
    ],
)
def test_a_prediction_is_compared_with_what_happened(capsys, guess, actual, message: str) -> None:
    predict("key", guess)
    reveal("key", actual)
    assert message in capsys.readouterr().out


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("guess", "actual", "message"),
    [
        (NAN, NAN, "It is nan. You predicted nan: right"),
        (INF, INF, "It is inf. You predicted inf: right"),
        (-INF, INF, "It is inf. You predicted -inf, not inf. Find out why"),
        (INF, 3.0, "It is 3. You predicted inf, not 3. Find out why"),
        (NAN, 3.0, "It is 3. You predicted nan, not 3. Find out why"),
        (3.0, INF, "It is inf. You predicted 3, not inf. Find out why"),
        (3.0, NAN, "It is nan. You predicted 3, not nan. Find out why"),
        (INF, NAN, "It is nan. You predicted inf, not nan. Find out why"),
    ],
    ids=str,
)
@pytest.mark.parametrize("tolerance", [None, 0.5])
def test_a_number_that_is_not_finite_is_compared_too(capsys, guess, actual, message: str, tolerance) -> None:
    predict("key", guess)
    reveal("key", actual, tolerance=tolerance)
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("guess", "actual", "meaning"),
    [
        (INF, 3.0, "It never ends."),
        (NAN, 3.0, "0 / 0"),
        (3.0, INF, "Find out why"),
        (0.1, INF, "Find out why"),
        (1.0, 3.0, "Find out why"),
    ],
)
def test_a_usual_wrong_prediction_may_not_be_finite(capsys, guess, actual, meaning: str) -> None:
    predict("key", guess)
    reveal("key", actual, usual={0.0: "Nothing is left.", np.float64(NAN): "0 / 0", INF: "It never ends."})
    assert f". {meaning}" in capsys.readouterr().out


def loss(number: float) -> torch.Tensor:
    return torch.tensor(float(number), requires_grad=True)


@pytest.mark.parametrize("kind", [torch.tensor, loss, np.float32, np.int64, np.array])
@pytest.mark.parametrize("guess", [2, 20_000])
def test_a_result_may_be_a_tensor_or_array_of_one_number(capsys, kind, guess) -> None:
    predict("key", guess)
    reveal("key", kind(20_000), "items", usual={2.0: "That is the dimension."})
    verdict = "You predicted 2 items, too low by a factor of 1e+04. That is the dimension."
    verdict = "You predicted 20,000 items: right, or close to it." if guess == 20_000 else verdict
    assert capsys.readouterr().out.endswith(f"It is 20,000 items. {verdict}\n")


@pytest.mark.parametrize(
    ("guess", "actual", "usual", "end"),
    [
        (12, 2.0, {11.0: "That counts both."}, "10 items too high. That counts both."),
        (6, 2.0, {11.0: "That counts both."}, "4 items too high. Find out why before you read on."),
        (10, 86.0, {9.0: "Only one layer.", 10.0: "The square is missing."}, "too low. The square is missing."),
        (0.3, 9.0, {1.0: "Nothing changes."}, "too low by a factor of 30. Find out why before you read on."),
        (0.3, 9.0, {0.0: "Nothing is left."}, "too low by a factor of 30. Nothing is left."),
        (2.05, 2.0, {2.0: "never shown"}, "You predicted 2.05 items: right, or close to it."),
        (
            "Flat ",
            "rising",
            {"flat": "It would be flat without data."},
            'You predicted "Flat ". It would be flat without data.',
        ),
    ],
)
def test_a_usual_wrong_prediction_is_told_what_it_would_have_meant(capsys, guess, actual, usual, end: str) -> None:
    predict("key", guess)
    reveal("key", actual, "items", tolerance=1.5, usual=usual)
    assert capsys.readouterr().out.strip().endswith(end)


def test_a_prediction_at_the_very_limit_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    """2.2 - 2.1 is a little more than 0.1 in floating point."""
    predict("key", 2.1)
    reveal("key", 2.2, tolerance=0.1)
    assert capsys.readouterr().out.endswith("right, or close to it.\n")


def test_a_message_has_no_escape_codes_and_one_line() -> None:
    def answer(*_: object) -> object:
        raise RuntimeError("\x1b[1mWeights only\x1b[0m load\nfailed\x1b]0;title\x07" + " again" * 100)

    question = QUESTIONS["03b-baseline"]
    named = dict.fromkeys(question.public.functions, answer)
    seen = observe(question.public, named, question.public.cases[0].inputs)
    raised = next(iter(seen.values()))["raised"]
    assert raised.startswith("RuntimeError: Weights only load failed again again")
    assert raised.isprintable()
    assert len(raised) < 450


def test_a_message_says_how_to_get_inputs_that_are_too_long_for_it() -> None:
    lines = check_result("03b-shift", lambda x, *_: "label" if x.sum() % 2 else "concept").lines
    line = next(line for line in lines if "by hand" in line.look_at)
    call = re.search(r"case_inputs\('(.*)', '(.*)'\)$", line.look_at)
    assert call is not None, line
    inputs = case_inputs(*call.groups())
    case = next(case for case in QUESTIONS["03b-shift"].public.cases if case.name == line.case)
    assert inputs.keys() == case.inputs.keys()
    inputs["x_train"][:] = 7
    assert (case.inputs["x_train"] != 7).any()
    with pytest.raises(KeyError, match="03b-shift has no case 'typo'; it has 'nothing but"):
        case_inputs("03b-shift", "typo")


def test_the_check_of_an_answer_that_saves_objects_is_readable() -> None:
    question = QUESTIONS["03a-checkpoint"]
    answer = next(answer for answer in question.answers() if answer.name == "wrong_objects")
    result = check_result(question.id, *functions_of(question, answer.source))
    assert all(line.what.isprintable() for line in result.lines)
