"""Widgets are shown to a reader who can work them, and to nobody else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from lecture_lib.notebook import choose_rate_by_hand, show_float_formats, show_walk
from lecture_lib.notebook.widgets import STARTED_FOR_A_READER, has_front_end
from lecture_lib.tape import Tensor
from lecture_lib.training import LRFinderResult

VIEW = "application/vnd.jupyter.widget-view+json"
SWEEP = LRFinderResult((0.1, 0.2, 0.4, 0.8), (4.0, 3.0, 2.0, 9.0), (4.0, 3.0, 2.0, 9.0), "loss diverged", {}, "none")


def walk() -> None:
    show_walk(Tensor(2.0, requires_grad=True) * 3.0, caption="A product.")


def formats() -> None:
    show_float_formats(0.1)


def rate() -> None:
    choose_rate_by_hand(SWEEP)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STARTED_FOR_A_READER:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    return shown


def has_widget(displayed: list[Any]) -> bool:
    return any(isinstance(data, dict) and VIEW in data for data in displayed)


@pytest.mark.parametrize("show", [walk, formats, rate])
def test_a_reader_gets_the_widget_and_an_executed_notebook_does_not(
    show: Callable[[], None], displayed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show()
    assert not has_widget(displayed)
    assert displayed or capsys.readouterr().out
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    show()
    assert has_widget(displayed)


@pytest.mark.parametrize("show", [walk, formats, rate])
def test_without_ipywidgets_what_does_not_move_is_shown(
    show: Callable[[], None], displayed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    show()
    assert not has_widget(displayed)
    assert displayed or capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "user_ns", "expected"),
    [
        ({}, {}, False),
        ({"JPY_SESSION_NAME": "a.ipynb"}, {}, True),
        ({"COLAB_RELEASE_TAG": "release"}, {}, True),
        ({}, {"__vsc_ipynb_file__": "a.ipynb"}, True),
    ],
    ids=["executed only", "Jupyter", "Colab", "VS Code"],
)
def test_who_sits_in_front(monkeypatch: pytest.MonkeyPatch, variables, user_ns, expected) -> None:
    class Shell:
        pass

    Shell.user_ns = user_ns
    monkeypatch.setattr("IPython.get_ipython", Shell)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_front_end() is expected
