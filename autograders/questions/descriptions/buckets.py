"""03b-buckets: the order, the ceilings and the interventions of buckets, and the component with the largest gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, given

INTERVENTIONS = {
    "blur": "augment",
    "rare class": "collect-or-reweight",
    "ambiguous label": "clean-labels",
    "background shortcut": "change-backgrounds",
    "threshold": "tune-threshold",
}
UNKNOWN = ("glare", "crop", "rain", "night", "dusk")
COMPONENTS = ("detect", "align", "segment", "read", "classify", "merge", "track")

Alone = dict[str, float]


def ranked(key: Callable[[Counter[str], str], Any], reverse: bool = False) -> Callable[..., list[str]]:
    """The names in the order of a key of counts and name; of equal keys, as they were met."""

    def rank(mistakes: list[str], **_: Any) -> list[str]:
        counts = Counter(mistakes)
        return sorted(counts, key=lambda name: key(counts, name), reverse=reverse)

    return rank


def by_share(ceiling: Callable[[float, float, int], float]) -> Callable[..., dict[str, float]]:
    """A number for each bucket, from the accuracy, its share of the mistakes and its count."""

    def ceilings(mistakes: list[str], accuracy: float, **_: Any) -> dict[str, float]:
        return {name: ceiling(accuracy, n / len(mistakes), n) for name, n in Counter(mistakes).items()}

    return ceilings


def with_table(find: Callable[[str], str | None]) -> Callable[..., dict[str, str | None]]:
    return lambda mistakes, **_: {name: find(name) for name in mistakes}


ceilings = by_share(lambda accuracy, share, n: accuracy + share * (100 - accuracy))


def in_whole_percent(accuracy: float, share: float, n: int) -> float:
    return accuracy + round(100 * share) / 100 * (100 - accuracy)


def by_rounded_ceiling(mistakes: list[str], accuracy: float, **_: Any) -> list[str]:
    of = ceilings(mistakes, accuracy)
    return sorted(of, key=lambda name: (-round(of[name], 2), name))


def one_after_another(mistakes: list[str], accuracy: float, **_: Any) -> dict[str, float]:
    """What is reached when the larger buckets are right as well."""
    order, gains = RIGHT_ORDER(mistakes), ceilings(mistakes, accuracy)
    total = np.cumsum([gains[name] - accuracy for name in order])
    return {name: accuracy + float(gain) for name, gain in zip(order, total, strict=True)}


def gains(base: float, alone: Alone, **_: Any) -> Alone:
    return {name: accuracy - base for name, accuracy in alone.items()}


def rounded_gains(digits: int) -> Callable[..., Alone]:
    return lambda base, alone, **_: {name: round(gain, digits) for name, gain in gains(base, alone).items()}


def best(of: Alone) -> str:
    return max(of, key=lambda name: of[name])


def neighbours(base: float, alone: Alone, **_: Any) -> Alone:
    return dict(zip(alone, np.diff([base, *alone.values()]).tolist(), strict=True))


def last(of: Alone) -> str:
    return best(dict(reversed(of.items())))


def by_gain(gains_of: Callable[..., Alone], choose: Callable[[Alone], str] = best) -> dict[str, Callable[..., Any]]:
    """The two fields of the component that `choose` takes from what `gains_of` computes."""
    return {
        NAME: lambda **inputs: choose(gains_of(**inputs)),
        GAIN: lambda **inputs: gains_of(**inputs)[choose(gains_of(**inputs))],
    }


def draw_mistakes(rng: np.random.Generator, ties: bool) -> list[str]:
    """All five known names and three others, each met at a place that is not its place in the right order."""
    names = [*INTERVENTIONS, "motion blur", *rng.choice(UNKNOWN, 2, replace=False).tolist()]
    counts = np.sort(rng.choice(np.arange(4, 40), len(names), replace=False))[::-1]
    if ties:
        counts[2], counts[4] = counts[1], counts[3]
    # The largest is not met first, nor first by name. Of the first two equal ones the later by name is met first, of
    # the other two the earlier, so that neither the order of meeting nor the names backwards are right.
    order = rng.permutation(sorted(names)[1:]).tolist()
    order.insert(int(rng.integers(1, len(order))), min(names))
    for place in (1, 3) if ties else ():
        order[place : place + 2] = sorted(order[place : place + 2])
    met = [*(order[2], order[1], order[0], order[3], order[4]), *order[5:]]
    sized = dict(zip(order, counts.tolist(), strict=True))
    rest = rng.permutation([name for name in names for _ in range(sized[name] - 1)]).tolist()
    return [*met, *rest]


def draw_alone(rng: np.random.Generator, base: float, ties: bool) -> Alone:
    """The best is not the first and follows a gain; of three equal ones, the second is the first by name."""
    n = int(rng.integers(5, 7))
    alone = base + np.round(rng.uniform(-1, 4, n), 1)
    place = int(rng.integers(1, n - 2))
    alone[place - 1] = base + np.round(rng.uniform(0.5, 3), 1)
    alone[place] = base + np.round(rng.uniform(6.1, 12), 1)
    alone[-2:] = alone[place] if ties else base - np.round(rng.uniform(13, 20), 1)
    components = rng.permutation(COMPONENTS)[:n].tolist()
    components[-2], components[place], components[-1] = sorted((components[place], *components[-2:]))
    return dict(zip(components, np.round(alone, 1).tolist(), strict=True))


def percent(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.round(rng.uniform(low, high), 1))


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has ties in both, a single bucket, a single component, and a pipeline that no component helps.

    In one case the model is nearly right, so that ceilings and gains that are unequal are equal when rounded.
    """
    cases = []
    for kind, ties in [("without ties", False), ("with ties", True)] * 3:
        base = percent(rng, 60, 85)
        inputs = {"mistakes": draw_mistakes(rng, ties), "accuracy": percent(rng, 40, 92)}
        cases.append(Case(kind, {**inputs, "base": base, "alone": draw_alone(rng, base, ties)}))
    worse = rng.permutation([-0.7, -2.5, -1.1]).tolist()
    for kind, gained in (("a single bucket", [1.5]), ("no component helps", worse)):
        base = percent(rng, 60, 85)
        components = rng.permutation(COMPONENTS).tolist()
        alone = {name: round(base + gain, 1) for name, gain in zip(components, gained, strict=False)}
        few = [str(rng.choice(list(INTERVENTIONS)))] * int(rng.integers(1, 4))
        inputs = {"mistakes": few, "accuracy": percent(rng, 40, 92), "base": base}
        cases.append(Case(kind, {**inputs, "alone": alone}))
    names, counts = sorted(cases[0].inputs["mistakes"][:4]), int(rng.integers(20, 25)) + np.arange(4)
    nearly = [name for name, count in zip(names, counts.tolist(), strict=True) for _ in range(count)]
    # Later components gain more by less than any rounding shows.
    components = rng.permutation(COMPONENTS)[:4].tolist()
    alone = dict(zip(components, (99.95 + 1e-6 * np.array([0, 1, 3, 2])).tolist(), strict=True))
    close = {"mistakes": rng.permutation(nearly).tolist(), "accuracy": 99.9, "base": 99.9, "alone": alone}
    cases.append(Case("nearly right", close))
    # Eight buckets of two sizes: a sort that is not stable mostly puts those of one size in an order of its own.
    for _ in range(4):
        sizes = int(rng.integers(6, 20)) + rng.permutation(np.arange(8) % 2)
        names = [*INTERVENTIONS, "motion blur", *UNKNOWN][:8]
        tied = [name for name, count in zip(names, sizes.tolist(), strict=True) for _ in range(count)]
        base = percent(rng, 60, 85)
        inputs = {"mistakes": rng.permutation(tied).tolist(), "accuracy": percent(rng, 40, 92), "base": base}
        cases.append(Case("with ties", {**inputs, "alone": draw_alone(rng, base, True)}))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to eight buckets or eighteen, of any size, and one to five components or twelve, of any gain.

    Some are of many mistakes; some accuracies are at an end of their range or whole numbers; some components all make
    it worse.
    """
    names = rng.permutation([*INTERVENTIONS, "motion blur", *UNKNOWN])[: rng.integers(1, 9)].tolist()
    names += [f"kind {number}" for number in range(10)] if rng.integers(7) == 0 else []
    first = int(rng.choice([1, 1, 1, 20, 20, 20, 300]))
    mistakes = rng.permutation([name for name in names for _ in range(rng.integers(first, first + 4))]).tolist()
    base = percent(rng, 30, 95)
    components = rng.permutation(COMPONENTS)[: rng.integers(1, 6)].tolist()
    components += [f"part {number}" for number in range(11)] if rng.integers(7) == 0 else []
    gains_drawn = rng.integers(-3, 5, len(components)) - (20 if rng.integers(7) == 0 else 0)
    alone = {name: round(base + float(gain), 1) for name, gain in zip(components, gains_drawn, strict=True)}
    accuracy = float(rng.choice([30.0, 99.9])) if rng.integers(5) == 0 else percent(rng, 30, 99.9)
    if rng.integers(5) == 0:
        accuracy, base = int(accuracy), int(base)
        alone = {name: int(result) for name, result in alone.items()}
    return Case("domain", {"mistakes": mistakes, "accuracy": accuracy, "base": base, "alone": alone})


def visible(name: str, counts: dict[str, int], accuracy: float, alone: Alone) -> Case:
    rest = [name for name, count in counts.items() for _ in range(count - 1)]
    return Case(name, {"mistakes": [*counts, *rest], "accuracy": accuracy, "base": accuracy, "alone": alone})


NAMES, CEILINGS, INTERVENTION = "buckets.names", "buckets.ceilings", "buckets.interventions"
NAME, GAIN = "component.name", "component.gain"
RIGHT_ORDER = ranked(lambda counts, name: (-counts[name], name))

QUESTION = Description(
    id="03b-buckets",
    parts=(
        Graded("ranking", 2, (NAMES,)),
        Graded("ceilings", 2, (CEILINGS,)),
        Graded("interventions", 2, (INTERVENTION,)),
        Graded("component", 2, (NAME, GAIN)),
    ),
    reference=given(
        {
            NAMES: RIGHT_ORDER,
            CEILINGS: lambda mistakes, accuracy, **_: ceilings(mistakes, accuracy),
            INTERVENTION: with_table(lambda name: INTERVENTIONS.get(name, "look-at-ten")),
            **by_gain(gains),
        }
    ),
    mistakes=(
        Mistake(
            "constant-answer",
            "the same buckets came back for every list of mistakes",
            "where the names and the counts come from: both are in the arguments",
            constant=(NAMES,),
        ),
        Mistake(
            "first-come",
            "the buckets come in the order in which the mistakes were met",
            "by what the buckets are to be ordered",
            given({NAMES: ranked(lambda counts, name: 0)}),
        ),
        Mistake(
            "alphabetical",
            "the buckets are ordered by name; the name decides between equal counts only",
            "by what the buckets are to be ordered first",
            given({NAMES: ranked(lambda counts, name: name)}),
        ),
        Mistake(
            "ascending",
            "the smallest bucket comes first",
            "the direction of the order",
            given({NAMES: ranked(lambda counts, name: (counts[name], name))}),
        ),
        Mistake(
            "ties-as-met",
            "buckets of equal size are in the order in which they were met",
            "what the question says about equal counts",
            given({NAMES: ranked(lambda counts, name: -counts[name])}),
        ),
        Mistake(
            "ties-backwards",
            "buckets of equal size are ordered by name from z to a",
            "what `reverse=True` reverses when the key is a pair",
            given({NAMES: ranked(lambda counts, name: (counts[name], name), reverse=True)}),
        ),
        Mistake(
            "rounded-order",
            "buckets are ordered by rounded ceilings, so that unequal ones count as equal",
            "by what the question orders the buckets",
            given({NAMES: by_rounded_ceiling}),
        ),
        Mistake(
            "whole-percent",
            "a bucket's share of the mistakes was rounded before the ceiling was computed",
            "where you round: in the middle or at the end",
            given({CEILINGS: by_share(in_whole_percent)}),
        ),
        Mistake(
            "share-added",
            "a bucket's share of the mistakes was added to the accuracy unchanged",
            "how many of 100 examples are mistakes at all, and which part of these the bucket holds",
            given({CEILINGS: by_share(lambda accuracy, share, n: accuracy + 100 * share)}),
        ),
        Mistake(
            "count-added",
            "the number of a bucket's mistakes was added to the accuracy in percent",
            "what the mistakes that were looked at stand for",
            given({CEILINGS: by_share(lambda accuracy, share, n: accuracy + n)}),
        ),
        Mistake(
            "share-for-ceiling",
            "the share of the mistakes was returned; a ceiling is an accuracy",
            "the accuracy that is left to win, and which part of it the bucket holds",
            given({CEILINGS: by_share(lambda accuracy, share, n: 100 * share)}),
        ),
        Mistake(
            "gain-for-ceiling",
            "the points that the bucket can add were returned; a ceiling is the accuracy with them",
            "the sentence of the question that says what a ceiling is",
            given({CEILINGS: by_share(lambda accuracy, share, n: share * (100 - accuracy))}),
        ),
        Mistake(
            "share-of-accuracy",
            "a bucket's share was taken of the accuracy; it is a share of the mistakes",
            "how many of 100 examples are mistakes",
            given({CEILINGS: by_share(lambda accuracy, share, n: accuracy + share * accuracy)}),
        ),
        Mistake(
            "one-after-another",
            "a ceiling counts the larger buckets as well",
            "whose mistakes are right in a bucket's ceiling, and whose are not",
            given({CEILINGS: one_after_another}),
        ),
        Mistake(
            "one-for-all",
            "every bucket has the same intervention",
            "what each kind of mistake asks for",
            given({INTERVENTION: with_table(lambda name: "augment")}),
        ),
        Mistake(
            "part-of-a-name",
            "a bucket whose name only contains a name of the table got that name's intervention",
            "whether names are compared whole",
            given(
                {
                    INTERVENTION: with_table(
                        lambda name: next((do for part, do in INTERVENTIONS.items() if part in name), "look-at-ten")
                    )
                }
            ),
        ),
        Mistake(
            "no-default",
            "a bucket that is not in the table got no intervention",
            "what the question says about every other name",
            given({INTERVENTION: with_table(INTERVENTIONS.get)}),
        ),
        Mistake(
            "neighbours",
            "each accuracy was compared with its neighbour; in this table one component alone is perfect in each row",
            "what every row of the table is to be compared with",
            given(by_gain(neighbours)),
        ),
        Mistake(
            "last-of-ties",
            "of equal gains the last was taken",
            "what the question says about equal gains",
            given(by_gain(gains, last)),
        ),
        Mistake(
            "ties-by-name",
            "of equal gains the first by name was taken",
            "in which order the question means the first",
            given(by_gain(gains, lambda of: best(dict(sorted(of.items()))))),
        ),
        Mistake(
            "rounded-gains",
            "gains were rounded before the largest was chosen, so that unequal ones count as equal",
            "where you round: before the choice or after it",
            given(by_gain(rounded_gains(2))),
        ),
        Mistake(
            "accuracy-for-gain",
            "the accuracy was returned; a gain is a difference",
            "what the component adds to the accuracy that is there already",
            given(by_gain(lambda base, alone, **_: alone)),
        ),
        Mistake(
            "turned-gain",
            "the sign of the gain is turned: an improvement comes out below 0",
            "which of the two accuracies is subtracted",
            given({GAIN: lambda base, alone, **_: base - max(alone.values())}),
        ),
        Mistake(
            "relative-gain",
            "the gain was divided by the accuracy; it is asked for in points",
            "the unit of the gain that the question shows",
            given({GAIN: lambda base, alone, **_: (max(alone.values()) - base) / base}),
        ),
        Mistake(
            "size-of-change",
            "a component that makes the pipeline worse was taken for the best: the size of the change decided",
            "the sign of a gain",
            given(by_gain(gains, lambda of: best({name: abs(gain) for name, gain in of.items()}))),
        ),
        Mistake(
            "never-negative",
            "a gain of 0 was returned where every component makes the pipeline worse",
            "the value with which you start to look for the largest gain",
            given({GAIN: lambda base, alone, **_: max(0.0, *gains(base, alone).values())}),
        ),
    ),
    visible=(
        visible(
            "the lecture's numbers: 32, 28, 18, 14, 8; 82 to 83, 91, 83",
            {"threshold": 8, "rare class": 14, "blur": 32, "ambiguous label": 18, "background shortcut": 28},
            82.0,
            {"detect": 83.0, "align": 91.0, "read": 83.0},
        ),
        visible(
            "ties, and buckets that are not in the table",
            {"rare class": 3, "blur": 3, "dusk": 1, "glare": 1},
            60.5,
            {"detect": 61.0, "segment": 66.2, "classify": 66.2, "merge": 66.2},
        ),
        visible(
            "a model that is nearly right: 21, 22 and 23 mistakes",
            {"blur": 21, "dusk": 22, "rare class": 23},
            99.9,
            {"detect": 99.9, "align": 99.976, "read": 99.98},
        ),
        visible("a single bucket, and no component helps", {"motion blur": 3}, 80.0, {"detect": 78.0, "read": 79.5}),
    ),
    draw=draw,
    domain=domain,
)
