"""03b-lr: choose a learning rate from a finder's curve, or say that the curve allows no choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

_GOOD, _NONE = "within the good range", "no suggestion"
_ABOVE, _BELOW = "far above the lowest loss", "below the good range: the loss has hardly begun to fall"
_AT = "at the lowest loss, or just beside it"
_ANY = "a rate, on a curve that never falls"


def _choice(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"rate": functions["choose_rate"](inputs["rates"].copy(), inputs["losses"].copy())}


def _place(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Where a visible curve's choice lies, in words: a range cannot be compared with one number."""
    choose = functions["choose_rate"]
    if "good" not in inputs:
        return {}
    rate = choose(inputs["rates"].copy(), inputs["losses"].copy())
    if rate is None:
        return {"place": _NONE}
    return {"place": _words(float(rate), inputs["good"], inputs["lowest"]) if inputs["good"] else _ANY}


def _words(rate: float, good: tuple[float, float], lowest: float) -> str:
    smallest, largest = good
    if rate.is_integer() and rate not in (0.0, 1.0, 10.0):
        return f"{rate:g}, which is no rate of the sweep but could be a position in it"
    if smallest <= rate <= largest:
        return _GOOD
    if rate < smallest:
        return _BELOW
    if rate <= 2 * lowest:
        return _AT
    return _ABOVE


_SWEEP = np.geomspace(1e-6, 10.0, 71)


def finder_curve(
    rates: np.ndarray, start: float, fall: float, begin: float, lowest: float, flat: bool = False
) -> np.ndarray:
    """A finder's losses without noise: flat, an S-shaped fall from 10**begin to 10**lowest, then a steep rise.

    Args:
        rates: of the sweep, [N].
        start: the loss before the fall.
        fall: how far it falls.
        begin: log10 of the rate at which the fall begins.
        lowest: log10 of the rate of the lowest loss.
        flat: leave the fall out.

    Returns:
        The loss at each rate, [N].

    """
    exponents = np.log10(rates)
    share = np.clip((exponents - begin) / (lowest - begin), 0.0, 1.0)
    rise = 10 ** np.clip(1.5 * (exponents - lowest), 0.0, 12.0) - 1
    return np.asarray(start - (0.0 if flat else fall) * (3 * share**2 - 2 * share**3) + 0.1 * start * rise)


def good_range(begin: float, lowest: float) -> tuple[float, float]:
    """From the rate at which a tenth of the fall has happened to half the rate of the lowest loss."""
    return 10 ** (begin + 0.1958 * (lowest - begin)), 0.5 * 10**lowest


def _curve(begin: float, lowest: float, diverged: bool = False, flat: bool = False) -> dict[str, Any]:
    losses = finder_curve(_SWEEP, 2.3, 1.7, begin, lowest, flat)
    if diverged:
        losses[np.log10(_SWEEP) > lowest + 0.95] = np.nan
    good = None if flat else good_range(begin, lowest)
    return {"rates": _SWEEP, "losses": losses, "good": good, "lowest": 10**lowest}


def _at(place: str) -> dict[str, dict[str, str]]:
    return {"place": {"place": place}}


def _case(name: str, expected: str, curve: dict[str, Any], **mistakes: str) -> PublicCase:
    named = {mistake.replace("_", "-"): _at(place) for mistake, place in mistakes.items()}
    return PublicCase(name, curve, _at(expected), named)


_TABLE = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
QUESTION = PublicQuestion(
    id="03b-lr",
    title="choose a rate",
    functions=("choose_rate",),
    parts={"rate": _choice, "place": _place},
    cases=(
        _case(
            "the lecture's table: lowest loss at 0.1",
            _GOOD,
            {"rates": _TABLE, "losses": np.array([3.2, 2.5, 1.1, 0.9, 2.8]), "good": (1e-3, 0.05), "lowest": 0.1},
            at_the_minimum=_AT,
            too_large=_ABOVE,
            too_small=_BELOW,
            always_none=_NONE,
            position="2, which is no rate of the sweep but could be a position in it",
        ),
        _case("lowest at 0.01", _GOOD, _curve(-4.5, -2.0), at_the_minimum=_AT, too_large=_ABOVE, constant_answer=_AT),
        _case("lowest at 1, then nan", _GOOD, _curve(-2.5, 0.0, diverged=True), nan_blind=_NONE, too_large=_ABOVE),
        _case("flat, then rising", _NONE, _curve(-3.0, -0.5, flat=True), always_answers=_ANY),
        _case("nan from the first step", _NONE, {**_curve(-3.0, -0.5, flat=True), "losses": np.full(71, np.nan)}),
    ),
    misconceptions={
        "at-the-minimum": Misconception(
            "the rate of the lowest loss was chosen: one step further the sweep diverges, and a training stays there "
            "for thousands of steps",
            "how far from the edge your choice is",
        ),
        "too-large": Misconception(
            "the rate lies where the loss is already rising",
            "the losses on either side of your choice",
        ),
        "too-small": Misconception(
            "the rate lies before the fall: training would crawl",
            "where the loss has begun to fall",
        ),
        "position": Misconception(
            "a position in the array came back, not the rate that stands there",
            "the difference between argmin and what it points to",
        ),
        "always-answers": Misconception(
            "a rate was chosen on a curve that never falls",
            "what the lowest loss of that curve is, compared with the first",
        ),
        "always-none": Misconception(
            "no rate was chosen on a curve that falls to a third",
            "the condition under which your function gives no rate",
        ),
        "nan-blind": Misconception(
            "a curve that diverges at its end got no rate: the nan in its tail became the lowest loss",
            "what min and argmin do with nan",
        ),
        "constant-answer": Misconception(
            "the same rate came back for every curve",
            "what of the curve your rate depends on",
        ),
    },
)
