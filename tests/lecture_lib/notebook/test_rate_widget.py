"""The finder's curve with a movable choice: the picture follows, the words are right, a static page has the plot."""

from __future__ import annotations

import math

import pytest

from lecture_lib.notebook import choose_rate_by_hand
from lecture_lib.notebook.rate_widget import describe_choice, rate_widget
from lecture_lib.training import LRFinderResult, suggest_learning_rates

RATES = tuple(10 ** (-5 + number / 10) for number in range(51))
LOSSES = tuple(2.0 - max(0.0, 1.0 - abs(math.log10(rate / 0.1))) for rate in RATES)  # a valley around 0.1


def sweep(losses: tuple[float, ...] = LOSSES) -> LRFinderResult:
    suggestions, reason = suggest_learning_rates(RATES, losses)
    return LRFinderResult(RATES, losses, losses, "reached stop", suggestions, reason)


def test_moving_the_slider_redraws_the_curve_and_says_what_the_choice_means() -> None:
    box = rate_widget(sweep())
    slider, words, picture = box.children
    assert slider.value == pytest.approx(RATES[25])  # half-way, not at the suggestion
    before = picture.value
    slider.value = 1e-4
    assert picture.value.split(" alt=")[0] != before.split(" alt=")[0]
    assert 'alt="The curve with a line at 1.0e-04: 0% of the fall' in picture.value
    assert words.value.startswith("1.0e-04: 0% of the fall has happened")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (1e-1, "1.0e-01: 100% of the fall has happened; 1.0 times below the rate of the lowest point."),
        (1e-4, "1.0e-04: 0% of the fall has happened; 1000.0 times below the rate of the lowest point."),
        (10.0, "100.0 times above the rate of the lowest point."),
    ],
)
def test_a_choice_is_told_in_words(rate: float, text: str) -> None:
    assert text in describe_choice(sweep(), rate)


def test_a_flat_curve_is_told_too() -> None:
    assert "never falls" in describe_choice(sweep((2.0,) * 51), 1e-2)


def test_one_lucky_batch_is_not_the_lowest_point() -> None:
    lucky = tuple(0.9 if place == 36 else loss for place, loss in enumerate(LOSSES))
    assert RATES[lucky.index(min(lucky))] < 0.05
    assert sweep(lucky).lowest == pytest.approx(0.1)
    assert "10.0 times below the rate of the lowest point" in describe_choice(sweep(lucky), 1e-2)


@pytest.mark.parametrize("losses", [LOSSES, (2.0,) * 51], ids=["falls", "flat"])
def test_the_static_page_has_the_plot_with_alt_text(losses, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **options: shown.append((data, options)))
    choose_rate_by_hand(sweep(losses))
    data, options = shown[0]
    assert data["image/png"].startswith(b"\x89PNG")
    assert "Loss over learning rates from 1.0e-05 to 1.0e+00" in options["metadata"]["image/png"]["alt"]
    assert ("No rate" in data["text/plain"]) == (losses != LOSSES)
