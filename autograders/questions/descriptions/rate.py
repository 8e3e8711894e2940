"""03b-lr: a choice in the good range of curves whose true shape is known, and none where there is no fall."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.rate import GOOD, NO_RATE, place

from ..cases import Case, Observation, draw_until, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

PLACE = "rate.place"
Choice = Callable[[np.ndarray, np.ndarray], Any]
"""Rates and losses to a rate or None."""


def finder_curve(rates: np.ndarray, start: float, fall: float, begin: float, lowest: float) -> np.ndarray:
    """A finder's losses without noise: flat, an S-shaped fall from 10**begin to 10**lowest, then a steep rise.

    Args:
        rates: of the sweep, [N].
        start: the loss before the fall.
        fall: how far it falls; 0 for a curve that is flat and then rises.
        begin: log10 of the rate at which the fall begins.
        lowest: log10 of the rate of the lowest loss.

    Returns:
        The loss at each rate, [N].

    """
    exponents = np.log10(rates)
    share = np.clip((exponents - begin) / (lowest - begin), 0.0, 1.0)
    rise = 10 ** np.clip(1.5 * (exponents - lowest), 0.0, 12.0) - 1
    return np.asarray(start - fall * (3 * share**2 - 2 * share**3) + 0.1 * start * rise)


def good_range(rates: np.ndarray, losses: np.ndarray, begin: float, lowest: float) -> tuple[float, float]:
    """From the rate at which a tenth of the fall has happened to half the rate of the lowest loss, without noise.

    The sweep's lowest loss may lie one step beyond the curve's own: half its rate is right, too. So is the rate at
    which a straight line between two losses of the sweep has fallen by a tenth.
    """
    falling = slice(0, int(losses.argmin()) + 1)
    share = (losses[0] - losses[falling]) / (losses[0] - losses.min()) if losses.min() < losses[0] else [0.0]
    straight = np.interp(0.1, share, np.log10(rates[falling]))
    tenth = min(begin + 0.1958 * (lowest - begin), float(straight))
    return 10**tenth, 0.5 * max(10**lowest, float(rates[losses.argmin()]))


def falls(losses: np.ndarray, share: float = 0.1) -> bool:
    """Whether the finite losses fall by more than a share of the first."""
    finite = losses[np.isfinite(losses)]
    return len(finite) > 0 and bool(finite.min() < (1 - share) * finite[0])


def minimum_over_ten(rates: np.ndarray, losses: np.ndarray) -> Any:
    """The right rule that the wrong ones are edits of; nothing where no loss is finite."""
    finite = np.isfinite(losses)
    return rates[finite][losses[finite].argmin()] / 10 if finite.any() else None


def unless_flat(choose: Choice) -> Choice:
    """A rule that is kept to curves that fall."""
    return lambda rates, losses: (
        choose(rates[np.isfinite(losses)], losses[np.isfinite(losses)]) if falls(losses) else None
    )


def nan_blind(rates: np.ndarray, losses: np.ndarray) -> Any:
    fallen = np.isfinite(losses[0]) and losses.min() <= 0.9 * losses[0]  # False when the lowest is nan
    return minimum_over_ten(rates, losses) if fallen else None


def nan_taken(rates: np.ndarray, losses: np.ndarray) -> Any:
    return None if losses.min() > 0.9 * losses[0] else rates[losses.argmin()] / 10  # argmin finds the first nan


def fallen_by_a_tenth(rates: np.ndarray, losses: np.ndarray) -> Any:
    finite = losses[np.isfinite(losses)]
    return minimum_over_ten(rates, losses) if len(finite) and finite[0] - finite.min() > 0.1 else None


def inf_kept(rates: np.ndarray, losses: np.ndarray) -> Any:
    rates, losses = rates[~np.isnan(losses)], losses[~np.isnan(losses)]
    return None if len(losses) == 0 or losses.min() > 0.9 * losses[0] else rates[losses.argmin()] / 10


def fallen_from_the_top(rates: np.ndarray, losses: np.ndarray) -> Any:
    finite = losses[np.isfinite(losses)]
    return minimum_over_ten(rates, losses) if len(finite) and finite.min() < 0.9 * finite.max() else None


def choosing(choose: Choice) -> Simulation:
    def simulate(case: Case) -> Mapping[str, Any]:
        return {PLACE: place(choose(case.inputs["rates"], case.inputs["losses"]), **case.key)}

    return simulate


def facts(case: Case, observation: Observation) -> Observation:
    """An observation of a hidden curve, with the place of its rate; the good range stays here."""
    fields = value(observation, "rate")
    if fields is None or "rate" not in fields:
        return observation
    return {**observation, "rate": {"value": {**fields, "place": place(fields["rate"], **case.key)}}}


def sweep(rng: np.random.Generator, most: int = 120) -> np.ndarray:
    return np.geomspace(10 ** rng.uniform(-7.3, -6.8), 10 ** rng.uniform(0.9, 1.1), int(rng.integers(90, most)))


def curve(
    rng: np.random.Generator, kind: str, lowest: float, start: float, fall: float, end: float = np.nan,
    short: tuple[float, float, float] | None = None, most: int = 120,
) -> Case:  # fmt: skip
    """A curve that falls by a share of `start`; a diverged one ends in `end`.

    `short` says how many powers of ten a sweep reaches beyond both ends of the fall, and how many rates it has: at all
    or, if these are fewer than four, in each power of ten. Other sweeps have `most` rates at most.
    """
    rates, begin = sweep(rng, most), lowest - rng.uniform(2.2, 3.0)
    if short:
        rates = np.geomspace(10 ** (begin - short[0]), 10 ** (lowest + short[1]), _count(short, lowest - begin))
    losses = finder_curve(rates, start, start * fall, begin, lowest)
    good = good_range(rates, losses, begin, lowest)
    if kind == "noisy":
        losses = losses + 0.015 * start * rng.normal(size=len(losses))
    if kind == "diverged":
        losses[np.log10(rates) > lowest + rng.uniform(0.85, 0.88)] = end
    return Case(kind, {"rates": rates, "losses": losses}, {"good": good, "lowest": 10**lowest})


def _count(short: tuple[float, float, float], fall: float) -> int:
    return int(short[2] if short[2] > 3 else np.ceil(short[2] * (short[0] + fall + short[1])) + 1)


def without_fall(rng: np.random.Generator, kind: str, start: float, count: int = 0) -> Case:
    """A curve with nothing to choose; `count` is the number of rates of a sweep that has few."""
    rates, lowest = sweep(rng), rng.uniform(-1.5, 0.0)
    if count:
        rates = np.geomspace(rates[0], rates[-1], count)
    losses = finder_curve(rates, start, 0.075 * start if kind == "shallow" else 0.0, lowest - 2.5, lowest)
    if kind == "flat":
        losses = start + 0.008 * start * rng.normal(size=len(rates))
    if kind in ("nan", "inf"):
        losses = np.full(len(rates), float(kind))
    if kind.startswith("diverged"):
        losses[np.log10(rates) > lowest + 0.5] = float(kind.split()[-1])
    return Case("no fall", {"rates": rates, "losses": losses}, {"good": None, "lowest": 10**lowest})


def two_neighbours(rates: np.ndarray, losses: np.ndarray) -> Any:
    return rates[1 + np.diff(losses).argmin()]


def central_difference(rates: np.ndarray, losses: np.ndarray) -> Any:
    """The steepest place between the first loss and the lowest: rules that look beyond them fail all the more."""
    return rates[1 + np.gradient(losses, np.log10(rates))[1 : losses.argmin() + 1].argmin()]


def half_of_lowest(rates: np.ndarray, losses: np.ndarray) -> Any:
    return rates[losses.argmin()] / 2


def first_tenth(rates: np.ndarray, losses: np.ndarray) -> Any:
    return rates[(losses <= losses[0] - 0.1 * (losses[0] - losses.min())).argmax()]


NOISE_FOLLOWERS = (two_neighbours, central_difference, half_of_lowest, first_tenth)
"""Rules that trust single losses. By luck they often stay in the good range."""


def noisy(rng: np.random.Generator, *followers: Choice) -> Case:
    """A noisy curve on which each of these rules leaves the good range: about every 20th does for one rule."""
    return draw_until(
        lambda: curve(rng, "noisy", rng.uniform(-2.4, -0.4), rng.uniform(1.5, 4), rng.uniform(0.55, 0.65)),
        lambda case: all(choosing(unless_flat(rule))(case)[PLACE] != GOOD for rule in followers),
        most=5000,
    )


def nearest_to_half(rates: np.ndarray, losses: np.ndarray) -> Any:
    return rates[np.abs(losses - (losses[0] + losses.min()) / 2).argmin()]


def half_of_the_steps(rates: np.ndarray, losses: np.ndarray) -> Any:
    return rates[losses.argmin() // 2]


def misleading(rng: np.random.Generator, lowest: tuple[float, float], start: float) -> Case:
    """A curve after a long flat start whose rise comes nearer to half of the fall than the fall itself: one in 11."""
    return draw_until(
        lambda: curve(rng, "clean", rng.uniform(*lowest), start, rng.uniform(0.55, 0.8)),
        lambda case: all(choosing(rule)(case)[PLACE] != GOOD for rule in (nearest_to_half, half_of_the_steps)),
        most=2000,
    )


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has large and small losses, the smallest fall that counts, noise, nan, inf, and every lack of a fall.

    One sweep is cut close to its fall, so that nothing can be left out at its ends; one has few rates.
    """
    large, small = 10 ** rng.uniform(1.5, 2.5), 10 ** rng.uniform(-2, -1.3)
    # Far enough from each other that no rate is good for all.
    cases = [
        misleading(rng, (-2.9, -2.6), large),
        curve(
            rng,
            "clean",
            rng.uniform(-1.6, -1.2),
            rng.uniform(1.5, 4),
            rng.uniform(0.182, 0.195),
            short=(0.05, 0.15, int(rng.integers(21, 25))),
        ),
        curve(
            rng,
            "clean",
            rng.uniform(-0.3, 0.0),
            small,
            rng.uniform(0.55, 0.8),
            short=(0.3, 0.6, int(rng.integers(9, 13))),
        ),
        *(noisy(rng, follower) for follower in NOISE_FOLLOWERS),
        *(
            curve(rng, "diverged", rng.uniform(-2.4, -0.4), rng.uniform(1.5, 4), rng.uniform(0.55, 0.8), end)
            for end in (np.nan, np.inf)
        ),
        *(
            without_fall(rng, kind, start)
            for kind, start in zip(
                ("flat", "rising", "shallow", "diverged nan", "diverged inf", "nan", "inf"),
                rng.permutation([2.0, 3.0, large, small, 1.0, 2.5, 4.0]),
                strict=True,
            )
        ),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Any of these curves; noise only of rules that look at single neighbours does not decide here.

    A third of the curves that fall have two or three rates in each power of ten, from close to the fall or long before.
    """
    if rng.integers(4) == 0:
        kinds = ("flat", "rising", "shallow", "diverged nan", "diverged inf", "nan", "inf")
        few = int(rng.integers(17, 30)) if rng.integers(2) else 0
        return without_fall(rng, kinds[rng.integers(7)], 10 ** rng.uniform(-2, 3), few)
    if rng.integers(3) == 0:
        before = ("shortly", "long")[rng.integers(2)]
        reach = rng.uniform(*{"shortly": (0.05, 0.4), "long": (3.0, 3.3)}[before]), rng.uniform(0.05, 0.6)
        drawn = curve(
            rng, "clean", rng.uniform(-2.6, 0.0), 10 ** rng.uniform(-2, 3), rng.uniform(0.19, 0.8),
            short=(*reach, rng.uniform(2.0, 3.0)),
        )  # fmt: skip
        return replace(drawn, kind=f"few rates, from {before} before the fall on")
    kind, end = ("clean", "noisy", "noisy", "diverged")[rng.integers(4)], (np.nan, np.inf)[rng.integers(2)]
    fall = rng.uniform(0.55, 0.8) if kind == "noisy" else rng.uniform(0.18, 0.8)
    # Between many rates noise is larger than the fall.
    most = 1000 if kind == "noisy" and rng.integers(2) else 120
    return curve(rng, kind, rng.uniform(-2.9, 0.0), 10 ** rng.uniform(-2, 3), fall, end, most=most)


def visible(name: str, case: Case) -> Case:
    return Case(name, {**case.inputs, **case.key}, case.key)


SEED = np.random.default_rng
TABLE = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
LECTURE = Case(
    "", {"rates": TABLE, "losses": np.array([3.2, 2.5, 1.1, 0.9, 2.8])}, {"good": (2e-4, 0.05), "lowest": 0.1}
)

QUESTION = Description(
    id="03b-lr",
    parts=(
        Graded("clean", 1, (PLACE,), on=("clean",)),
        Graded("noisy", 1, (PLACE,), on=("noisy", "diverged"), needs="clean"),
        Graded("no suggestion", 1, (PLACE,), on=("no fall",), needs="clean"),
    ),
    reference=lambda case: {PLACE: GOOD if case.key["good"] else NO_RATE},
    mistakes=(
        Mistake(
            "constant-answer",
            "the same rate came back for every curve that got one",
            "what of the curve your rate depends on",
            constant=("rate.rate",),
        ),
        Mistake(
            "at-the-minimum",
            "the rate of the lowest loss was chosen: chance decides which point of the valley's bottom is the lowest, "
            "and a training takes thousands of steps at the rate, where the sweep took one",
            "how far your choice is from the rate at which the loss rises again",
            choosing(unless_flat(lambda rates, losses: rates[losses.argmin()])),
        ),
        Mistake(
            "too-large",
            "the rate lies where the loss is already rising",
            "the losses on either side of your choice",
            choosing(unless_flat(lambda rates, losses: rates[-1])),
        ),
        Mistake(
            "too-small",
            "the rate lies before the fall: training would crawl",
            "where the loss has begun to fall",
            choosing(unless_flat(lambda rates, losses: rates[0])),
        ),
        Mistake(
            "position",
            "a position in the array came back, not the rate at this position",
            "the difference between argmin and what it points to",
            choosing(unless_flat(lambda rates, losses: int(losses.argmin()))),
        ),
        Mistake(
            "nan-blind",
            "a curve that diverges at its end got no rate: the nan in its tail became the lowest loss",
            "what min and argmin do with nan",
            choosing(nan_blind),
            also=(choosing(nan_taken),),
        ),
        Mistake(
            "inf-kept",
            "a sweep that holds nothing but inf got a rate: no comparison with inf finds that it never falls",
            "which losses you leave out before you compare",
            choosing(inf_kept),
        ),
        Mistake(
            "half-of-noise",
            "half the rate of the lowest single loss was chosen; where there is noise, that is beyond the good range",
            "how far chance moves the place of the lowest loss, and how near to the edge your choice is",
            choosing(unless_flat(half_of_lowest)),
        ),
        Mistake(
            "behind-the-lowest",
            "the rate lies behind the lowest loss, where the curve rises through the same loss again",
            "on which side of the lowest loss you look",
            choosing(unless_flat(nearest_to_half)),
        ),
        Mistake(
            "two-neighbours",
            "the steepest fall between two neighbours was chosen; where there is noise, it is anywhere",
            "how much a loss differs from the next one by chance alone",
            choosing(unless_flat(two_neighbours)),
        ),
        Mistake(
            "first-tenth",
            "the first single loss below a tenth of the fall was taken; where there is noise, it comes too early",
            "how much a loss differs from the next one by chance alone",
            choosing(unless_flat(first_tenth)),
            hidden_only=True,
        ),
        Mistake(
            "too-strict",
            "a curve that falls by about a fifth got no rate",
            "the share of the first loss that the question states",
            choosing(lambda rates, losses: minimum_over_ten(rates, losses) if falls(losses, 0.3) else None),
        ),
        Mistake(
            "fall-in-nats",
            "the fall was compared with a number of nats; the question asks for a share of the first loss",
            "curves with losses of hundreds and of hundredths",
            choosing(fallen_by_a_tenth),
        ),
        Mistake(
            "from-the-top",
            "a curve that only rises got a rate: its lowest loss was compared with its highest",
            "with which loss the question compares the lowest",
            choosing(fallen_from_the_top),
        ),
        Mistake(
            "any-fall",
            "a curve that falls by less than a tenth of its first loss got a rate",
            "the share of the first loss that the question states",
            choosing(lambda rates, losses: minimum_over_ten(rates, losses) if falls(losses, 0.0) else None),
        ),
        Mistake(
            "always-answers",
            "a rate was chosen on a curve that never falls",
            "what the lowest loss of that curve is, compared with the first",
            choosing(minimum_over_ten),
        ),
        Mistake(
            "always-none",
            "no rate was chosen on a curve that falls to a third",
            "the condition under which your function gives no rate",
            choosing(lambda rates, losses: None),
        ),
    ),
    visible=(
        visible("the lecture's table: lowest loss at 0.1", LECTURE),
        visible("lowest at 0.01, losses of hundreds", misleading(SEED(0), (-2.0, -2.0), 300.0)),
        visible(
            "lowest at 0.1, a fall of a fifth, 22 rates",
            curve(SEED(1), "clean", -1.0, 0.2, 0.2, short=(0.05, 0.15, 22)),
        ),
        visible("lowest at 1, then nan", curve(SEED(2), "diverged", 0.0, 2.3, 0.74)),
        visible("lowest at 0.01, then inf", curve(SEED(3), "diverged", -2.0, 2.3, 0.74, np.inf)),
        visible("with noise", noisy(SEED(2107), *NOISE_FOLLOWERS)),  # found at the second try: it is drawn on import
        visible("flat, with noise", without_fall(SEED(9), "flat", 2.3)),
        visible("flat, then rising", without_fall(SEED(5), "rising", 2.3)),
        visible("a fall of 7.5 %", without_fall(SEED(6), "shallow", 2.3)),
        visible("flat, then rising, then nan", without_fall(SEED(7), "diverged nan", 2.3)),
        visible("nan from the first step", without_fall(SEED(8), "nan", 2.3)),
        visible("inf from the first step", without_fall(SEED(8), "inf", 2.3)),
    ),
    draw=draw,
    domain=domain,
    facts=facts,
    practice=lambda case: replace(case, inputs={**case.inputs, **case.key}),
)
