"""The error-bucket labeller, the figures of runs and the quiz: what is counted, and what keys do."""

from __future__ import annotations

import base64
import io
import re
import sys
from typing import Any

import pytest
import torch

from lecture_lib.notebook import labeller
from lecture_lib.notebook.labeller import Labeller, Sorting, label_mistakes

BUCKETS = ("blur", "rare class", "other")
IMAGES = torch.stack([torch.full((1, 8, 8), value) for value in (0.1, 0.5, 0.9)])
TITLES = ["a, not b", "b, not c", "c, not a"]


class Shown:
    """What was displayed: data, or the text of a Markdown object, with the metadata beside it."""

    def __init__(self) -> None:
        self.data: list[Any] = []
        self.metadata: list[Any] = []

    def __call__(self, found: Any, raw: bool = False, metadata: Any = None) -> None:
        self.data.append(found if raw else getattr(found, "data", found))
        self.metadata.append(metadata)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Shown:
    import IPython.display

    screen = Shown()
    monkeypatch.setattr(IPython.display, "display", screen)
    return screen


def made() -> Labeller:
    return Labeller(IMAGES, TITLES, Sorting(BUCKETS, [None] * 3))


def test_a_key_puts_the_shown_mistake_into_its_bucket_and_goes_on() -> None:
    sorting = Sorting(BUCKETS, [None] * 3)
    assert [sorting.press(key) for key in "212"] == [True] * 3
    assert sorting.labels == ["rare class", "blur", "rare class"]
    assert list(sorting.counts().items()) == [("rare class", 2), ("blur", 1), ("other", 0)]
    assert sorting.state() == "all 3 seen, 3 sorted: rare class 2, blur 1, other 0"


def test_back_shows_the_one_before_and_a_new_key_replaces_its_bucket() -> None:
    sorting = Sorting(BUCKETS, [None] * 3)
    for key in "1203":
        sorting.press(key)
    assert sorting.labels == ["blur", "other", None]
    assert sorting.position == 2
    for key in "0000":
        sorting.press(key)
    assert sorting.position == 0
    assert sorting.labels == ["blur", "other", None]


@pytest.mark.parametrize("key", ["4", "9", "x", "", "²", "-1", "12"])
def test_other_keys_do_nothing(key: str) -> None:
    sorting = Sorting(BUCKETS, [None] * 3)
    assert not sorting.press(key)
    assert sorting.position == 0


def test_after_the_last_mistake_only_back_does_something() -> None:
    sorting = Sorting(BUCKETS, [None])
    for key in "123":
        sorting.press(key)
    assert sorting.labels == ["blur"]
    sorting.press("0")
    sorting.press("3")
    assert sorting.labels == ["other"]


def test_the_widget_can_be_used_by_buttons_and_by_keys_alone() -> None:
    widget = made()
    first = widget.picture.value
    assert widget.title.value == "a, not b"
    assert 'alt="mistake 1: a, not b"' in first
    assert [button.description for button in widget.buttons] == ["1 blur", "2 rare class", "3 other", "0 back"]
    widget.buttons[2].click()
    assert widget.sorting.labels == ["other", None, None]
    assert widget.title.value == "b, not c"
    assert widget.picture.value != first
    widget.keys.value = "1"  # what a key in the field does
    assert widget.sorting.labels == ["other", "blur", None]
    assert widget.sorting.labels == ["other", "blur", None]
    widget.keys.value = "1x0"  # typed so fast that one message tells of both
    assert widget.title.value == "b, not c"
    assert widget.state.value == "mistake 2 of 3, 2 sorted: blur 1, other 1, rare class 0"


def test_the_picture_keeps_its_brightness() -> None:
    """Each picture is drawn from 0, white as in the other figures, to 1: a faint one is not stretched."""
    import matplotlib.image

    widget = made()
    for level in (0.1, 0.5, 0.9):
        picture = base64.b64decode(re.search(r"base64,([^\"]+)", widget.picture.value)[1])
        pixel = matplotlib.image.imread(io.BytesIO(picture), format="png")[0, 0]
        assert pixel[:3] == pytest.approx([1 - level] * 3, abs=0.01)
        widget.buttons[0].click()


def test_without_interaction_there_is_a_grid_with_alt_text(screen: Shown) -> None:
    sorting = label_mistakes(IMAGES, TITLES, BUCKETS)
    assert sorting.labels == [None] * 3
    assert "image/png" in screen.data[0]
    alt = "A grid of 3 mistakes: 1 a, not b; 2 b, not c; 3 c, not a."
    assert screen.metadata[0]["image/png"]["alt"] == alt
    assert screen.data[1] == "*3 mistakes to sort into: blur, rare class, other.*"


def test_with_interaction_the_widget_is_shown_and_the_sorting_follows_it(screen: Shown) -> None:
    sorting = label_mistakes(IMAGES, TITLES, BUCKETS, interactive=True)
    buttons = screen.data[0].children[2].children
    buttons[1].click()
    assert sorting.counts()["rare class"] == 1


def test_without_ipywidgets_the_grid_stands_in(
    screen: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    label_mistakes(IMAGES, TITLES, BUCKETS, interactive=True)
    assert "pip install ipywidgets" in capsys.readouterr().out
    assert "image/png" in screen.data[0]


def test_more_mistakes_than_fit_a_row_are_all_in_the_grid() -> None:
    figure = labeller._grid(torch.rand(23, 1, 8, 8), [str(number) for number in range(23)])
    drawn = [axis for axis in figure.axes if axis.images]
    assert len(drawn) == 23
    assert drawn[-1].get_title() == "23 22"


@pytest.mark.parametrize(
    ("images", "titles", "buckets", "message"),
    [
        (IMAGES, TITLES[:2], BUCKETS, "3 images and 2 titles"),
        (IMAGES[:0], [], BUCKETS, "0 images"),
        (IMAGES, TITLES, (), "name one to nine"),
        (IMAGES, TITLES, ("blur", "blur"), "each once"),
        (IMAGES, TITLES, tuple("abcdefghij"), "one to nine"),
    ],
    ids=["titles", "none", "no bucket", "twice", "ten"],
)
def test_what_cannot_be_sorted_is_refused(images: Any, titles: Any, buckets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        label_mistakes(images, titles, buckets)
