"""The walk over the tape as a widget, and what is shown where no widget can run."""

from __future__ import annotations

import re
import sys
from typing import Any

import IPython.display
import pytest

from lecture_lib.notebook import widgets
from lecture_lib.notebook.walk import show_walk, walk_widget
from lecture_lib.tape import Tensor, Trace, picture, trace

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def square() -> tuple[Tensor, dict[str, Tensor]]:
    """The lecture's L = (w·x + b)²; w is used a second time, so that its gradient grows on the way."""
    w, x, b = (Tensor(number, requires_grad=True) for number in (3.0, 2.0, 1.0))
    loss = (w * x + b) ** 2 + w
    return loss, {"w": w, "x": x, "b": b, "L": loss}


@pytest.fixture
def rows(square: tuple[Tensor, dict[str, Tensor]]) -> Trace:
    loss, names = square
    return trace(loss, **names)


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is displayed, and nobody in front of the kernel."""
    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda data, **_: shown.append(data))
    for name in widgets.STARTED_FOR_A_READER:
        monkeypatch.delenv(name, raising=False)
    return shown


def parts(widget: Any) -> tuple[Any, dict[str, Any], Any, Any]:
    slider, buttons, sentence, shown = widget.children
    return slider, {button.description: button for button in buttons.children}, sentence, shown


def numbers_of(svg: str) -> list[str]:
    """The text of the boxes."""
    return re.findall(r">((?:value|gradient) [^<]*)</text>", svg)


def test_every_step_shows_what_is_known_then_and_nothing_else(rows: Trace) -> None:
    slider, _, sentence, shown = parts(walk_widget(rows))
    for position in range(rows.last_position + 1):
        slider.value = position
        moment = rows.at(position)
        assert f"Step {position} of {rows.last_position}. {moment.sentence}" in sentence.value
        numbers = numbers_of(shown.value)
        assert sum(text.startswith("value") for text in numbers) == len(moment.values)
        assert sum(text.startswith("gradient") for text in numbers) == len(moment.gradients)
        assert shown.value.count('stroke-width="5"') == (moment.active is not None)
        assert shown.value.count("not computed yet") == len(rows) - len(moment.values)
    assert numbers == numbers_of(picture(rows).svg)


def test_a_gradient_that_still_grows_is_shown_as_far_as_it_is_known(rows: Trace) -> None:
    slider, _, _, shown = parts(walk_widget(rows))
    seen = []
    for slider.value in range(rows.last_position + 1):
        seen += re.findall(r"Leaf w: value 3, gradient (\d+)", shown.value)
    assert list(dict.fromkeys(seen)) == ["1", "29"]


def test_the_boxes_keep_their_places(rows: Trace) -> None:
    places = [
        re.findall(r'<rect x="\S+" y="\S+" width="\S+" height="\S+"', picture(rows, rows.at(position)).svg)
        for position in range(rows.last_position + 1)
    ]
    assert all(found == places[-1] for found in places)
    assert len(places[-1]) > len(rows)


def test_the_buttons_move_and_stop_at_the_ends(rows: Trace) -> None:
    slider, buttons, _, _ = parts(walk_widget(rows))
    assert list(buttons) == ["First", "Back", "Forward", "Last"]
    visited = [slider.value]
    for name in ("Back", "Forward", "Forward", "Back", "Last", "Forward", "First"):
        buttons[name].click()
        visited.append(slider.value)
    last = rows.last_position
    assert visited == [0, 0, 1, 2, 1, last, last, 0]


def test_every_control_is_reached_by_keyboard_and_the_sentence_is_read_aloud(rows: Trace) -> None:
    slider, buttons, sentence, _ = parts(walk_widget(rows))
    for control in (slider, *buttons.values()):
        for position in (0, rows.last_position):
            slider.value = position
            assert not control.disabled
            assert control.tabbable is not False
        assert control.description
    assert all(button.tooltip for button in buttons.values())
    assert 'role="alert"' in sentence.value


def test_without_a_reader_the_finished_picture_is_shown(square, rows: Trace, displayed: list[Any]) -> None:
    loss, names = square
    show_walk(loss, caption="A caption.", **names)
    data, caption = displayed
    assert data["image/svg+xml"] == picture(rows).svg
    assert "gradient 29" in data["text/plain"]
    assert VIEW not in data
    assert caption.data == "*A caption.*"


def test_without_ipywidgets_too(square, displayed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    show_walk(square[0], caption="")
    assert VIEW not in displayed[0]
    assert displayed[0]["image/svg+xml"].startswith("<svg")


def test_with_a_reader_the_picture_is_folded_in_an_output_below_the_widget(
    square, displayed: list[Any], monkeypatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    show_walk(square[0], caption="")
    assert displayed[0][VIEW]["model_id"]
    assert VIEW not in displayed[1]
    assert re.fullmatch(
        r'<details><summary>.*</summary><img src="data:image/svg\+xml;base64,\S+" alt="Computation graph .*></details>',
        displayed[1]["text/html"],
    )
    assert "Computation graph" in displayed[1]["text/plain"]


def test_walking_leaves_the_graph_and_the_gradients_alone(square, displayed: list[Any], monkeypatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    loss, names = square
    show_walk(loss, caption="", **names)
    assert names["w"].grad is None
    loss.backward()
    assert float(names["w"].grad) == 29.0
