"""What an answer leaves changed in its process: put back, named, and without effect on another answer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from autograders.probes import observe_question
from autograders.questions.question import QUESTIONS, Question, encode_inputs
from lecture_lib.notebook import process_state
from lecture_lib.notebook.check import check_result
from lecture_lib.notebook.process_state import SETTINGS, reset_process, standard_process
from lecture_lib.notebook.replaced_functions import put_back_functions, remember_functions

kept: list[object] = []


def _enter(context: object) -> None:
    kept.append(context)  # PyTorch undoes some of these when the object goes
    context.__enter__()


CHANGES: dict[str, Callable[[], object]] = {
    "torch.is_grad_enabled() is False": lambda: torch.set_grad_enabled(False),
    "torch.is_inference_mode_enabled() is True": lambda: _enter(torch.inference_mode()),
    "torch.get_default_dtype() is torch.float64": lambda: torch.set_default_dtype(torch.float64),
    "torch.get_default_device() is meta": lambda: torch.set_default_device("meta"),
    "torch.is_autocast_enabled('cpu') is True": lambda: _enter(torch.autocast("cpu")),
    "torch.is_anomaly_enabled() is True": lambda: torch.autograd.set_detect_anomaly(True),
    "torch.are_deterministic_algorithms_enabled() is True": lambda: torch.use_deterministic_algorithms(True),
    "torch.get_float32_matmul_precision() is medium": lambda: torch.set_float32_matmul_precision("medium"),
    "torch.get_num_threads() is 7": lambda: torch.set_num_threads(7),
    "gc.isenabled() is False": lambda: __import__("gc").disable(),
    "sys.getrecursionlimit() is 12345": lambda: sys.setrecursionlimit(12345),
    "the working folder is another one": lambda: os.chdir("/"),
    "os.environ['HOME'] is changed": lambda: os.environ.update(HOME="/nowhere"),
    "sys.path is changed": lambda: sys.path.insert(0, "/nowhere"),
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_setting_is_put_back_and_named(told: str) -> None:
    before = [setting.read() for setting in SETTINGS], os.getcwd(), dict(os.environ), list(sys.path)  # noqa: PTH109
    left: list[str] = []
    with standard_process(left):
        CHANGES[told]()
    assert left == [told]
    before[2].update({name: os.environ[name] for name in os.environ.keys() - before[2]})  # PyTorch's own
    assert before == ([setting.read() for setting in SETTINGS], os.getcwd(), dict(os.environ), list(sys.path))  # noqa: PTH109
    kept.clear()


def test_settings_are_put_back_after_an_exception_as_well() -> None:
    left: list[str] = []

    def fail() -> None:
        with standard_process(left):
            torch.set_grad_enabled(False)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert torch.is_grad_enabled()
    assert len(left) == 1


def test_the_callers_own_settings_and_random_streams_stay() -> None:
    """A student who works in float64 keeps that; the observed code starts from the standard."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    try:
        drawn = []
        for _ in range(2):
            with standard_process([]):
                assert torch.get_default_dtype() is torch.float32
                drawn.append((torch.rand(1).item(), np.random.rand(), random.random()))
        assert drawn[0] == drawn[1]
        assert torch.get_default_dtype() is torch.float64
        after = torch.rand(1).item(), np.random.rand(), random.random()
    finally:
        torch.set_default_dtype(torch.float32)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    assert after == (torch.rand(1, dtype=torch.float64).item(), np.random.rand(), random.random())


@pytest.mark.parametrize("put_back", ["a part", "a cell"])
def test_weights_that_a_left_autocast_has_cast_are_forgotten(put_back: str) -> None:
    layer = nn.Linear(1, 1, bias=False)

    def leave() -> None:
        _enter(torch.autocast("cpu", dtype=torch.bfloat16))
        layer(torch.ones(1, 1))

    if put_back == "a part":
        with standard_process([]):
            leave()
    else:
        leave()
        reset_process()
    with torch.no_grad():
        layer.weight.fill_(3.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.ones(1, 1)).item() == 3.0
    kept.clear()


def test_warning_filters_are_put_back() -> None:
    before = list(warnings.filters)
    with standard_process([]):
        warnings.simplefilter("ignore")
    assert list(warnings.filters) == before


def _new_forward(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize(
    ("owner", "name", "value", "told"),
    [
        (nn.functional, "cross_entropy", lambda *_: None, "torch.nn.functional.cross_entropy was replaced"),
        (torch, "relu", lambda *_: None, "torch.relu was replaced"),
        (nn.Linear, "forward", _new_forward, "torch.nn.modules.linear.Linear.forward was replaced"),
        (torch.Tensor, "backward", lambda *_: None, "torch.Tensor.backward was replaced"),
        (torch.optim, "SGD", torch.optim.Adam, "torch.optim.SGD was replaced"),
        (np, "allclose", lambda *_: True, "numpy.allclose was replaced"),
        (np.linalg, "norm", lambda *_: 1, "numpy.linalg.norm was replaced"),
        (random, "shuffle", lambda *_: None, "random.shuffle was replaced"),
    ],
)
def test_a_replaced_function_is_put_back_and_named(owner: object, name: str, value: object, told: str) -> None:
    remember_functions()
    assert put_back_functions() == []
    original = getattr(owner, name)
    setattr(owner, name, value)
    assert put_back_functions() == [told]
    assert getattr(owner, name) is original
    assert put_back_functions() == []


def test_what_pytorch_wraps_itself_is_no_change_of_the_students() -> None:
    """An optimizer's `step` is wrapped when the first optimizer of its class is made; in a process of its own."""
    script = """
import torch
from lecture_lib.notebook.replaced_functions import put_back_functions, remember_functions
remember_functions()
torch.optim.Adagrad([torch.nn.Parameter(torch.zeros(1))]).step
import torch._dynamo
assert put_back_functions() == [], put_back_functions()
own = torch.optim.Adagrad.step
torch.optim.Adagrad.step = lambda *_: None
assert put_back_functions() == ["torch.optim.adagrad.Adagrad.step was replaced"]
assert torch.optim.Adagrad.step is own
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_hooks_and_function_modes_are_taken_away() -> None:
    remember_functions()
    nn.modules.module.register_module_forward_hook(lambda *_: 1 / 0)
    _enter(torch.device("meta"))
    assert reset_process() == [
        "torch.get_default_device() is meta",
        "a hook on all modules was registered",
        "a torch function mode was left on",
    ]
    assert nn.Linear(2, 3)(torch.zeros(1, 2)).device.type == "cpu"
    kept.clear()


BEHIND = {
    "gradients off": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled() is False"),
    "float64": ("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype() is torch.float64"),
    "a patched optimizer": (
        "torch.optim.SGD.step = lambda *_, **__: None",
        "torch.optim.sgd.SGD.step was replaced",
    ),
    "a patched loss": (
        "torch.nn.functional.cross_entropy = lambda *_, **__: torch.tensor(0.0)",
        "torch.nn.functional.cross_entropy was replaced",
    ),
}


def _functions(question: Question, source: str) -> tuple[Callable[..., object], ...]:
    from autograders.questions.verify import cells

    namespace: dict[str, object] = {}
    for cell in [*cells(question)[0], source]:
        exec(compile(cell, question.id, "exec"), namespace)
    return tuple(namespace[name] for name in question.public.functions)


@pytest.mark.parametrize("behind", BEHIND)
def test_an_answer_that_leaves_something_behind_costs_others_nothing_and_is_told(behind: str) -> None:
    line, told = BEHIND[behind]
    first, second = QUESTIONS["03b-buckets"], QUESTIONS["03a-evaluate"]
    functions = _functions(first, first.answers()[0].source)
    leaving = tuple(_leaving(function, line) for function in functions)
    cases = first.draw(b"test", "v", 0)
    published = observe_question(first.id, leaving, encode_inputs(cases))
    verdict = first.judge(cases, [published])
    assert verdict.points == first.points
    assert verdict.left == (told,)
    # The visible check of the same answer says so as well, and leaves the student's session alone.
    result = check_result(first.id, *leaving)
    assert result.left == (told,)
    assert told in repr(result)
    # The next question's right answer is worth what it is worth.
    functions = _functions(second, second.answers()[0].source)
    cases = second.draw(b"test", "v", 0)
    verdict = second.judge(cases, [observe_question(second.id, functions, encode_inputs(cases))])
    assert verdict.points == second.points
    assert verdict.left == ()


def _leaving(function: Callable[..., object], line: str) -> Callable[..., object]:
    def leaving(*arguments: object, **named: object) -> object:
        result = function(*arguments, **named)
        exec(line, {"torch": torch})
        return result

    return leaving


@pytest.mark.parametrize("left", [5, "text", [1, None, {"a": 1}], ["\x1b[31mred"], {"list": []}, [["nested"]]])
def test_what_is_not_a_list_of_plain_texts_is_passed_over(left: object) -> None:
    question = QUESTIONS["03b-buckets"]
    cases = question.draw(b"test", "v", 0)
    functions = _functions(question, question.answers()[0].source)
    published = observe_question(question.id, functions, encode_inputs(cases))
    verdict = question.judge(cases, [{**published, "left": left}])
    assert verdict.points == question.points
    assert verdict.left == ()


def test_many_changes_are_told_in_few_words() -> None:
    told = process_state.told_left([f"setting {number} is off" for number in range(20)])
    assert "setting 7 is off, and 12 more" in told
    assert "setting 8" not in told
    assert process_state.told_left([]) == ""
