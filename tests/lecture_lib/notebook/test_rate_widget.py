"""The finder's curve with a movable choice: the picture follows, the words are right, a static page has the plot."""

from __future__ import annotations

import math

import pytest

from lecture_lib.notebook import choose_rate_by_hand
from lecture_lib.notebook.rate_widget import describe_choice, rate_widget
from lecture_lib.training import LRFinderResult, suggest_learning_rates

RATES = tuple(10 ** (-5 + number / 10) for number in range(51))
LOSSES = tuple(2.0 if rate < 1e-3 else 2.0 - 0.5 * math.log10(rate / 1e-3) for rate in RATES)


def sweep(losses: tuple[float, ...] = LOSSES) -> LRFinderResult:
    suggestions, reason = suggest_learning_rates(RATES, losses)
    return LRFinderResult(RATES, losses, losses, "reached stop", suggestions, reason)


def test_moving_the_slider_redraws_the_curve_and_says_what_the_choice_means() -> None:
    box = rate_widget(sweep())
    slider, words, picture = box.children
    assert slider.value == pytest.approx(sweep().suggestion)
    before = picture.value
    slider.value = 1e-4
    assert picture.value.split(" alt=")[0] != before.split(" alt=")[0]
    assert 'alt="The curve with a line at 1.0e-04: 0% of the fall' in picture.value
    assert words.value.startswith("1.0e-04: 0% of the fall has happened")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (1e-1, "1.0e-01: 67% of the fall has happened; 10.0 times below the rate of the lowest loss."),
        (1e-4, "1.0e-04: 0% of the fall has happened; 10000.0 times below the rate of the lowest loss."),
        (10.0, "10.0 times above the rate of the lowest loss."),
    ],
)
def test_a_choice_is_told_in_words(rate: float, text: str) -> None:
    assert text in describe_choice(RATES, LOSSES, rate)


def test_curves_that_allow_no_words_are_told_too() -> None:
    assert "never falls" in describe_choice(RATES, (2.0,) * 51, 1e-2)
    assert "no finite loss" in describe_choice(RATES, (math.nan,) * 51, 1e-2)


@pytest.mark.parametrize("losses", [LOSSES, (2.0,) * 51], ids=["falls", "flat"])
def test_the_static_page_has_the_plot_with_alt_text(losses, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **options: shown.append((data, options)))
    choose_rate_by_hand(sweep(losses))
    data, options = shown[0]
    assert data["image/png"].startswith(b"\x89PNG")
    assert "Loss over learning rates from 1.0e-05 to 1.0e+00" in options["metadata"]["image/png"]["alt"]
    assert ("No rate" in data["text/plain"]) == (losses != LOSSES)
