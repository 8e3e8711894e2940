"""03b-subset: gain, spread and verdict on tables of losses, each of which takes in one wrong criterion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.subset import NOT_LOOKED_AT

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
GAIN, SPREAD, HOLDS = "gain.gain", "spread.spread", "holds.holds"


def sample_deviation(saved: Array) -> float:
    return float(np.std(saved, ddof=1))


def criterion(saved: Array, gain: float, spread: float, fewest: int = 3, factor: float = 2.0) -> bool:
    return bool(len(saved) >= fewest and np.isfinite(saved).all() and gain > factor * spread)


def by(
    saved: Callable[[Array, Array], Array] = lambda losses, constant: constant - losses,
    gain: Callable[[Array], Any] = np.mean,
    spread: Callable[[Array], Any] = sample_deviation,
    holds: Callable[[Array, float, float], bool] = criterion,
) -> Simulation:
    """All three values in float64, with one step of the right way replaced."""

    def simulate(case: Case) -> Mapping[str, Any]:
        losses, constant = (case.inputs[name].astype(np.float64) for name in ("losses", "constant"))
        each = saved(losses, constant)
        with np.errstate(invalid="ignore"):
            gained, spreads = gain(each), spread(each)
            held = holds(each, gained, spreads)
        numbers = {GAIN: gained, SPREAD: spreads} if np.isfinite(losses).all() else {}
        return {GAIN: NOT_LOOKED_AT, SPREAD: NOT_LOOKED_AT, **numbers, HOLDS: held}

    return simulate


def only(path: str, simulate: Simulation) -> Simulation:
    """One value of a simulation, whatever became of the others."""
    return lambda case: {path: simulate(case)[path]}


def unpaired(case: Case) -> Mapping[str, Any]:
    losses = case.inputs["losses"].astype(np.float64)
    return by(spread=lambda saved: sample_deviation(losses))(case)


def verdict(rule: Callable[[Array], Any]) -> Simulation:
    """A wrong criterion for three finite seeds or more."""
    return only(HOLDS, by(holds=lambda saved, *_: bool(criterion(saved, 1.0, 0.0) and rule(saved))))


def without(passes: Callable[[Array], Array]) -> Simulation:
    """The verdict on the seeds that are left when those of a kind are left out."""

    def holds(saved: Array, *_: float) -> bool:
        kept = saved[~passes(saved)]
        return len(kept) >= 3 and criterion(kept, float(kept.mean()), sample_deviation(kept))

    return only(HOLDS, by(holds=holds))


def table(rng: np.random.Generator, kind: str, seeds: int, gain: float, dtype: type, outlier: bool = False) -> Case:
    """Losses whose gain is so many spreads. With an outlier, one seed lies far below the others."""
    z = rng.normal(size=seeds)
    if outlier:
        z = 0.1 * z
        z[rng.integers(seeds)] -= 10.0
    z = (z - z.mean()) / z.std(ddof=1)
    spread = rng.uniform(0.05, 0.1)
    # Constants that differ by far more than the gains do: the spread of the losses alone says nothing.
    constant = rng.permutation(np.linspace(1.2, 2.6, seeds)) + rng.uniform(0, 0.1, seeds)
    return Case(kind, {"losses": (constant - spread * (gain + z)).astype(dtype), "constant": constant.astype(dtype)})


def small(rng: np.random.Generator) -> Case:
    """Ten seeds that save nearly all of the constant answer's loss."""
    saved = rng.uniform(0.5, 0.55, 10)
    constant = saved + rng.uniform(0.01, 0.05, 10)
    return Case("clear gain", {"losses": constant - saved, "constant": constant})


def diverged(rng: np.random.Generator, place: int, loss: float, dtype: type) -> Case:
    """One seed diverged. Left out, or taken for 0 or for the constant answer, the table would hold."""
    inputs = {name: array.astype(dtype) for name, array in small(rng).inputs.items()}
    inputs["losses"][place] = loss
    return Case("diverged", inputs)


KINDS = ("clear gain", "three seeds", "one seed worse", "within the spread", "worse", "two seeds")


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has tables on both sides of each wrong criterion, in both precisions."""
    single, double = np.float32, np.float64
    cases = [
        table(rng, "clear gain", int(rng.integers(4, 8)), rng.uniform(3.0, 4.0), double),
        table(rng, "clear gain", int(rng.integers(5, 8)), rng.uniform(2.2, 2.4), single),
        table(rng, "three seeds", 3, rng.uniform(3.0, 4.0), single),
        table(rng, "one seed worse", 10, rng.uniform(2.3, 2.5), double, outlier=True),
        small(rng),
        # Of three seeds, the best, the middle one, n in place of n - 1 and the standard error would let this through.
        table(rng, "within the spread", 3, rng.uniform(1.7, 1.85), double, outlier=True),
        table(rng, "within the spread", int(rng.integers(6, 9)), rng.uniform(1.2, 1.5), single),
        # Once the spread and the standard error differ in what they let through, and any gain is more than both.
        table(rng, "within the spread", 3, rng.uniform(1.03, 1.12), single),
        table(rng, "within the spread", 9, rng.uniform(0.72, 0.9), double),
        table(rng, "within the spread", int(rng.integers(4, 9)), rng.uniform(0.03, 0.08), single),
        table(rng, "worse", int(rng.integers(3, 6)), -rng.uniform(3.0, 4.0), double),
        table(rng, "two seeds", 2, rng.uniform(5.0, 8.0), double),
        table(rng, "two seeds", 2, rng.uniform(5.0, 8.0), single),
        *(
            diverged(rng, place, loss, dtype)
            for place, loss, dtype in (
                (0, np.nan, single),
                (-1, np.nan, double),
                (int(rng.integers(1, 9)), np.nan, double),
                (int(rng.integers(10)), np.inf, single),
            )
        ),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def close_gains(rng: np.random.Generator, seeds: int) -> Case:
    """Gains of about 5 that differ by thousandths; in half of the tables of many seeds one seed diverged."""
    dtype = np.float32  # in which the squares of the gains hardly differ
    constant = rng.uniform(7, 9, seeds)
    losses = (constant - 5 - 0.001 * rng.permutation(np.linspace(-1, 1, seeds))).astype(dtype)
    hit = seeds > 100 and bool(rng.integers(2))
    if hit:
        losses[rng.integers(seeds)] = np.inf
    kind = "one of many seeds diverged" if hit else "large gains that are nearly equal"
    return Case(kind, {"losses": losses, "constant": constant.astype(dtype)})


def domain(rng: np.random.Generator) -> Case:
    """Two to twelve seeds or 1,200, none to all of them diverged, and any gain that is not near twice the spread."""
    dtype = (np.float32, np.float64)[rng.integers(2)]
    if rng.integers(3) == 0:
        return close_gains(rng, int(rng.choice([6, 1200])))
    gain = rng.choice([rng.uniform(-5, 1.9), rng.uniform(2.1, 8)])
    seeds = 1200 if rng.integers(7) == 0 else int(rng.integers(2, 13))
    drawn = table(rng, "domain", seeds, float(gain), dtype)
    if rng.integers(3) == 0:
        hit = rng.random(len(drawn.inputs["losses"])) < rng.uniform(0.1, 1.1)
        drawn.inputs["losses"][hit] = rng.choice([np.nan, np.inf], hit.sum())
    return drawn


def visible(name: str, losses: list[float], constant: list[float] | float = 2.3) -> Case:
    array = np.array(losses)
    return Case(name, {"losses": array, "constant": np.broadcast_to(constant, array.shape).copy()})


def wrong(path: str, name: str, explanation: str, look_at: str, simulate: Simulation) -> Mistake:
    """A wrong gain or spread: with the verdict that follows from it, with any other, or in the verdict alone."""
    also = (only(GAIN, simulate),) if path == GAIN else (only(SPREAD, simulate), only(HOLDS, simulate))
    return Mistake(name, explanation, look_at, simulate, also=also)


QUESTION = Description(
    id="03b-subset",
    parts=(
        Graded("gain", 1, (GAIN,), on=KINDS),
        Graded("spread", 1, (SPREAD,), on=KINDS),
        Graded("holds", 1, (HOLDS,)),
    ),
    reference=by(),
    mistakes=(
        wrong(
            GAIN,
            "sign-flipped",
            "the gain has the wrong sign: a lower loss is better",
            "the gain of a program whose loss is 1.8 where the constant answer has 2.3",
            by(saved=lambda losses, constant: losses - constant),
        ),
        wrong(
            GAIN,
            "best-seed",
            "the best seed's gain was taken: it grows with the number of seeds tried",
            "what the other seeds say",
            by(gain=np.max),
        ),
        wrong(
            GAIN,
            "median",
            "the gain is the median of the seeds' savings, not their mean",
            "what the question calls the gain",
            by(gain=np.median),
        ),
        wrong(
            GAIN,
            "relative",
            "the savings were divided by the constant answer's loss",
            "the unit of the gain: nats, as the losses have",
            by(saved=lambda losses, constant: (constant - losses) / constant),
        ),
        wrong(
            GAIN,
            "sum",
            "the savings were added: the gain grows with the number of seeds",
            "what the question calls the gain",
            by(gain=np.sum),
        ),
        wrong(
            SPREAD,
            "unpaired-spread",
            "the spread of the losses was taken; part of it is how hard each seed's subset is, and that changes the "
            "constant answer's loss too",
            "which number you have once for each seed and want to be sure of",
            unpaired,
        ),
        wrong(
            SPREAD,
            "population-spread",
            "the sum of squares was divided by the number of seeds; with three seeds that hides a fifth of the spread",
            "the default of the function that you called: NumPy's std divides by n, torch's by n - 1",
            by(spread=np.std),
        ),
        wrong(
            SPREAD,
            "divided-by-root-n",
            "this is the standard error of the mean, not the spread between seeds",
            "what the question calls spread",
            by(spread=lambda saved: sample_deviation(saved) / np.sqrt(len(saved))),
        ),
        wrong(
            SPREAD,
            "variance",
            "the spread lacks its square root: this is the variance",
            "the unit of the spread: nats, as the losses have",
            by(spread=lambda saved: sample_deviation(saved) ** 2),
        ),
        Mistake(
            "any-gain",
            "a positive mean was enough, however much the seeds differ",
            "what would come out with three other seeds",
            verdict(lambda saved: saved.mean() > 0),
        ),
        Mistake(
            "every-seed",
            "the rung was said to hold where every seed saves something, and to fail where one does not",
            "what the question compares the gain with",
            verdict(lambda saved: (saved > 0).all()),
        ),
        Mistake(
            "once-the-spread",
            "a gain above the spread was enough; noise alone reaches that too often",
            "how many times the spread the question asks for",
            verdict(lambda saved: saved.mean() > sample_deviation(saved)),
        ),
        Mistake(
            "either-direction",
            "a program that is worse than the constant answer by twice the spread was let through",
            "the sign of the gain in your comparison",
            verdict(lambda saved: abs(saved.mean()) > 2 * sample_deviation(saved)),
        ),
        Mistake(
            "too-few-seeds",
            "two seeds were enough; two numbers are close to each other too often by chance",
            "the number of seeds that the question asks for",
            only(HOLDS, by(holds=partial(criterion, fewest=2))),
        ),
        Mistake(
            "three-refused",
            "three seeds were not enough",
            "the number of seeds that the question asks for",
            only(HOLDS, by(holds=partial(criterion, fewest=4))),
        ),
        Mistake(
            "diverged-dropped",
            "a program was let through although a seed diverged",
            "what your function does with a loss that is not finite: every comparison with nan is False",
            without(lambda saved: ~np.isfinite(saved)),
            also=(without(np.isnan), without(np.isinf)),
        ),
        Mistake(
            "constant-answer",
            "the verdict is the same for every table",
            "what of the two arguments each value depends on",
            constant=(HOLDS,),
        ),
    ),
    visible=(
        visible("gains 0.5, 0.4, 0.6 over constants that differ by seed", [1.8, 1.3, 1.4], [2.3, 1.7, 2.0]),
        visible("gains 0.15, 0.5, 0.6", [2.15, 1.8, 1.7]),
        visible("gains 0.1, 0.5, 0.7", [2.2, 1.8, 1.6]),
        visible("gains 0.1, 0.2, 0.6", [2.2, 2.1, 1.7]),
        visible("gains 0.05, 0.1, 0.9", [2.25, 2.2, 1.4]),
        visible("gains -0.1, 0.2, 0.2", [2.4, 2.1, 2.1]),
        visible("gains -0.5, -0.4, -0.6: worse than the constant answer", [2.8, 2.7, 2.9]),
        visible("two seeds, gains 0.5 and 0.6", [1.8, 1.7]),
        visible("gains 0.5, 0.52, 0.54: nearly all of the loss", [0.06, 0.04, 0.05], [0.56, 0.56, 0.59]),
        visible("four seeds, one of them nan", [1.8, np.nan, 1.7, 1.75]),
        visible("four seeds, one of them inf", [1.8, 1.75, 1.7, np.inf]),
        visible("four small losses, one of them nan", [0.06, np.nan, 0.05, 0.04], [0.56, 0.56, 0.59, 0.57]),
    ),
    draw=draw,
    domain=domain,
)
