"""03b-ablate: the runs that were asked for, the paired interval, the verdict, and what must be refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, pstdev, stdev
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.ablate import REFUSED, describe

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

QUANTILE = 0.95 / math.sqrt(2 * 0.975 * 0.025)  # of Student's t with 2 degrees of freedom, 97.5 %: 4.303
SETTINGS: dict[str, tuple[Any, ...]] = {
    "augment": (False, True),
    "width": (16, 32, 64, 128),
    "learning_rate": (0.001, 0.003, 0.01),
    "dropout": (0.0, 0.1, 0.3),
    "optimizer": ("sgd", "adam"),
}
FAULTS = (
    "two settings", "two settings, one as in base", "no setting", "the same value", "an unknown setting",
    "two settings, one unknown",
)  # fmt: skip

TRUE = ("width", "learning_rate", "optimizer")
"""Settings whose values all count as true."""

Config = dict[str, Any]


def fault(base: Config, change: Config) -> str | None:
    """Why an experiment must be refused; None for a proper one."""
    new = [name for name in change if name not in base or base[name] != change[name]]
    if len(change) > 1 and not set(change) <= set(base):
        return FAULTS[5]
    if len(change) > 1:
        return FAULTS[0] if len(new) > 1 else FAULTS[1]
    if not change:
        return FAULTS[2]
    if not new:
        return FAULTS[3]
    return None if set(change) <= set(base) else FAULTS[4]


def asked(
    base: Config, change: Config, seeds: Sequence[int], changed_seeds: Sequence[int], base_seeds: Sequence[int]
) -> list[str]:
    """The runs of base with the seeds `base_seeds` and of the change with the seeds `changed_seeds`."""
    runs = [f"{describe(base)}; seed {seed}" for seed in base_seeds]
    return sorted([*runs, *(f"{describe({**base, **change})}; seed {seed}" for seed in changed_seeds)])


def interval(
    before: Sequence[float], after: Sequence[float], *, mean: Any = fmean, spread: Any = stdev, paired: bool = True,
    quantile: float = QUANTILE, root: float = math.sqrt(3), sign: int = 1,
) -> tuple[float, float, float]:  # fmt: skip
    """The gain, and the ends of its interval."""
    differences = [sign * (b - a) for a, b in zip(before, after, strict=True)]
    s = spread(differences) if paired else math.hypot(stdev(before), stdev(after))
    gain, half = mean(differences), quantile * s / root
    return gain, gain - half, gain + half


def verdict_of(low: float, high: float) -> str:
    return "likely useful" if low > 0 else "worse" if high < 0 else "noise"


RUNS, BASE, VERDICT = "experiment.runs", "experiment.base afterwards", "reading.verdict"
ENDS = ("reading.gain", "reading.low", "reading.high")
REFUSAL, BEFORE = "refusal.ValueError", "refusal.runs before"


def reference(case: Case) -> dict[str, Any]:
    base, change, seeds, before, after = case.inputs.values()
    if fault(base, change):
        read = {**dict.fromkeys([*ENDS, VERDICT], REFUSED), RUNS: [], REFUSAL: "yes", BEFORE: 0}
    else:
        ends = interval(before, after)
        read = {**dict(zip(ENDS, ends, strict=True)), VERDICT: verdict_of(*ends[1:]), REFUSAL: "no", BEFORE: 6}
        read[RUNS] = asked(base, change, seeds, seeds, seeds)
    return {**read, BASE: describe(base)}


def where_run(simulate: Simulation) -> Simulation:
    """A simulation of the experiments that are not refused."""
    return lambda case: {} if fault(case.inputs["base"], case.inputs["change"]) else simulate(case)


def with_seeds(choose: Any) -> Simulation:
    """Other seeds for base and change than those given, as `choose` makes them."""

    def runs(case: Case) -> Mapping[str, Any]:
        base, change, seeds, *_ = case.inputs.values()
        base_seeds, changed_seeds = choose(seeds)
        return {RUNS: asked(base, change, seeds, changed_seeds, base_seeds)}

    return where_run(runs)


def with_interval(**edit: Any) -> Simulation:
    def ends(case: Case) -> Mapping[str, Any]:
        *_, before, after = case.inputs.values()
        return dict(zip(ENDS, interval(before, after, **edit), strict=True))

    return where_run(ends)


@where_run
def off_refused(case: Case) -> Mapping[str, Any]:
    base, change, *_ = case.inputs.values()
    return {} if all(base[name] for name in change) else {REFUSAL: "yes", BEFORE: 0}


def letting_through(*faults: str, runs: int = 6, refusal: str = "no") -> Simulation:
    """Experiments with these faults are run; `refusal` says whether they are refused afterwards."""

    def refused(case: Case) -> Mapping[str, Any]:
        through = fault(case.inputs["base"], case.inputs["change"]) in faults
        return {REFUSAL: refusal, BEFORE: runs} if through else {}

    return refused


@where_run
def base_changed(case: Case) -> Mapping[str, Any]:
    return {BASE: describe({**case.inputs["base"], **case.inputs["change"]})}


def with_verdict(rule: Callable[[float, float, float], str]) -> Simulation:
    """Another verdict from the gain and the ends of its interval."""
    return where_run(lambda case: {VERDICT: rule(*interval(case.inputs["base_scores"], case.inputs["changed_scores"]))})


@where_run
def by_signs(case: Case) -> Mapping[str, Any]:
    *_, before, after = case.inputs.values()
    signs = {np.sign(b - a) for a, b in zip(before, after, strict=True)}
    return {VERDICT: "likely useful" if signs == {1} else "worse" if signs == {-1} else "noise"}


def configuration(rng: np.random.Generator, first: str = "") -> tuple[Config, list[tuple[str, Any]]]:
    """Four settings, and for each another value; `first` leads, or one whose values all count as true."""
    first = first or str(rng.choice(TRUE))
    chosen = [first, *[name for name in rng.permutation(list(SETTINGS)).tolist() if name != first][:3]]
    values = {name: rng.permutation(len(SETTINGS[name]))[:2].tolist() for name in chosen}
    base = {name: SETTINGS[name][values[name][0]] for name in rng.permutation(chosen).tolist()}
    return base, [(name, SETTINGS[name][values[name][1]]) for name in chosen]


def inputs(rng: np.random.Generator, base: Config, change: Config, before: Any, after: Any) -> dict[str, Any]:
    """The seeds come in no order; what is beside one of them, 1 or 2 further, is none of them."""
    seeds = [int(seed) for seed in rng.choice(np.arange(10, 1000, 10), 3, replace=False)]
    seeds[rng.integers(3)] *= int(rng.integers(6) > 0)  # 0 is a seed, too
    scores = {"base_scores": [float(score) for score in before], "changed_scores": [float(score) for score in after]}
    return {"base": base, "change": change, "seeds": seeds, **scores}


def switched(rng: np.random.Generator, on: bool) -> Case:
    """An experiment that switches a setting on or off: its value, False or 0, is not the lack of one."""
    case = experiment(rng, rng.uniform(1.3, 1.6), first=str(rng.choice(["augment", "dropout"])))
    base, [(name, _)] = case.inputs["base"], case.inputs["change"].items()
    values = SETTINGS[name][:2] if on else SETTINGS[name][1::-1]
    base[name], case.inputs["change"][name] = values
    return replace(case, kind="switched")


def experiment(rng: np.random.Generator, half_widths: float, first: str = "", noise: float = 1.0) -> Case:
    """One change whose mean difference is so many half widths of its interval away from 0, with this much noise."""
    base, settings = configuration(rng, first)
    # The seeds' own luck is ten times larger than what is left of it in the differences; the middle is not the mean.
    luck = rng.uniform(70, 80) + rng.permutation([-4.0, 0.0, 4.0]) + rng.uniform(-0.5, 0.5, 3)
    left = noise * rng.uniform(0.2, 0.45) * (rng.permutation([-1.0, -0.4, 1.4]) + rng.uniform(-0.1, 0.1, 3))
    half = QUANTILE * stdev(left.tolist()) / math.sqrt(3)
    after = luck + left - left.mean() + half_widths * half
    kind = verdict_of(half_widths - 1, half_widths + 1)
    return Case(kind, inputs(rng, base, dict(settings[:1]), luck, after))


def refused(rng: np.random.Generator, reason: str) -> Case:
    # The equal value is of another type: neither `is` nor a comparison as text finds it.
    base, settings = configuration(rng, str(rng.choice(["augment", "width"])) if reason == "the same value" else "")
    name, new_value = settings[0]
    equal = float(base[name]) if reason == "the same value" else None
    second = settings[1][0]
    change = {
        "two settings": dict(settings[:2]),
        "two settings, one as in base": {name: new_value, second: base[second]},
        "no setting": {},
        "the same value": {name: equal},
        "an unknown setting": {f"{name}_": new_value},
        "two settings, one unknown": dict([(name, new_value), (f"{second}_", 1)][:: rng.choice([-1, 1])]),
    }[reason]
    scores = rng.uniform(70, 80, 3)
    return Case(reason, inputs(rng, base, change, scores, scores + rng.uniform(1, 2, 3)))


def draw(rng: np.random.Generator) -> list[Case]:
    """Proper experiments of every verdict, on both sides of 0, and every fault.

    In noise, the three differences have one sign or both.
    """
    # In half widths of the interval: at 1.73 a gain would stand out without the root too; from 0.65 on the quantiles of
    # more than four degrees of freedom find an effect in noise.
    half_widths = (
        *rng.uniform(1.3, 1.6, 2),
        -rng.uniform(0.66, 0.72),
        rng.uniform(0.66, 0.72),
        -rng.uniform(1.3, 1.6),
        rng.choice([-1, 1]) * rng.uniform(0.05, 0.15),
    )
    cases = [
        *(experiment(rng, *drawn) for drawn in zip(half_widths, rng.permutation(2 * TRUE).tolist(), strict=True)),
        *(experiment(rng, sign * rng.uniform(1.3, 1.6), noise=0.4) for sign in (-1, 1)),  # small and certain
        *(switched(rng, on) for on in (False, True)),
        *(refused(rng, reason) for reason in FAULTS),
    ]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Any of these experiments; no end of an interval is as near to 0 as the rounding of 4.303 matters."""
    if rng.integers(5) == 0:
        return switched(rng, on=bool(rng.integers(2)))
    if rng.integers(2):
        return refused(rng, FAULTS[rng.integers(len(FAULTS))])
    if rng.integers(3) == 0:
        beyond = experiment(rng, float(rng.choice([-1, 1]) * rng.uniform(0.85, 0.95)))
        return replace(beyond, kind="beyond twice the standard deviation and in the interval")
    return experiment(rng, float(rng.choice([-1, 1]) * rng.choice([rng.uniform(0, 0.95), rng.uniform(1.05, 3)])))


VISIBLE_BASE = {"augment": False, "width": 32}


def visible(name: str, change: Config, before: list[float], differences: list[float]) -> Case:
    after = [score + difference for score, difference in zip(before, differences, strict=True)]
    shared = {"base": VISIBLE_BASE, "change": change, "seeds": [5, 3, 8]}
    return Case(name, {**shared, "base_scores": before, "changed_scores": after})


UNUSED = [81.0, 82.0, 83.0], [1.5, 2.0, 2.5]  # scores of experiments that are refused
PROPER = ("likely useful", "noise", "worse")
QUESTION = Description(
    id="03b-ablate",
    parts=(
        Graded("runs", 2, (RUNS, BASE), on=PROPER),
        Graded("interval", 2, ENDS, on=PROPER),
        Graded("verdict", 1, (VERDICT,), on=PROPER),
        Graded("refusal", 1, (REFUSAL, BEFORE)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "constant-answer",
            "the same numbers came back for every experiment",
            "where each number comes from: the scores that `run` returns",
            constant=ENDS,
        ),
        Mistake(
            "other-seeds",
            "the change was run with other seeds than the base",
            "what else differs between the two runs of a pair",
            with_seeds(lambda seeds: (seeds, [seed + 1 for seed in seeds])),
        ),
        Mistake(
            "seeds-ignored",
            "the runs have the seeds 0, 1 and 2 in place of those that were passed",
            "which of the arguments your loop goes through",
            with_seeds(lambda seeds: (range(3), range(3))),
        ),
        Mistake(
            "one-baseline",
            "base was run with the first seed only",
            "with what the change is compared for the other two seeds",
            with_seeds(lambda seeds: (seeds[:1], seeds)),
        ),
        Mistake(
            "base-changed",
            "the configuration that was passed as base holds the change afterwards",
            "whether the changed configuration is a copy",
            base_changed,
        ),
        Mistake(
            "unpaired",
            "the two sets of scores were compared as if their seeds had nothing to do with each other",
            "the spread of the differences, seed by seed, beside the spread of the scores",
            with_interval(paired=False),
        ),
        Mistake(
            "no-root",
            "the half width lacks the division by the root of the number of seeds",
            "the difference between the spread of single values and that of their mean",
            with_interval(root=1.0),
        ),
        Mistake(
            "root-forgotten",
            "the half width was divided by the number of seeds, not by its root",
            "how the spread of a mean shrinks when there are four times as many seeds",
            with_interval(root=3.0),
        ),
        Mistake(
            "normal-quantile",
            "1.96 holds for many seeds; with three the spread itself is hardly known",
            "the factor that the question states",
            with_interval(quantile=1.96),
        ),
        Mistake(
            "one-seed-more",
            "3.182 belongs to four seeds; three leave two degrees of freedom",
            "the factor that the question states",
            with_interval(quantile=3.182),
        ),
        Mistake(
            "two-samples",
            "2.776 belongs to two samples of three; the three differences leave two degrees of freedom",
            "the factor that the question states",
            with_interval(quantile=2.776),
        ),
        Mistake(
            "population-spread",
            "the squares were divided by n, not by n - 1",
            "how the standard deviation of a sample divides; np.std's default is the other one",
            with_interval(spread=pstdev),
        ),
        Mistake(
            "median",
            "the gain is the median of the differences, not their mean",
            "what the question calls the gain",
            with_interval(mean=median),
        ),
        Mistake(
            "sign-turned",
            "the difference is base minus change: an improvement comes out below 0",
            "the direction of the difference",
            with_interval(sign=-1),
        ),
        Mistake(
            "gain-only",
            "a mean above 0 was taken for a verdict",
            "where 0 lies in the interval",
            with_verdict(lambda gain, low, high: "likely useful" if gain > 0 else "worse"),
            also=(
                with_verdict(lambda gain, low, high: verdict_of(low, gain)),
                with_verdict(lambda gain, low, high: verdict_of(gain, high)),
            ),
        ),
        Mistake(
            "by-signs",
            "the verdict follows the signs of the three differences, not the interval",
            "where 0 lies, compared with both ends of the interval",
            by_signs,
        ),
        Mistake(
            "never-worse",
            "a change whose whole interval lies below 0 was called noise",
            "how many verdicts there are, and which case belongs to the third",
            with_verdict(lambda gain, low, high: "likely useful" if low > 0 else "noise"),
        ),
        Mistake(
            "off-is-a-value",
            "an experiment was refused because a value of its setting is False or 0",
            "how your condition treats a value that is there, but false",
            off_refused,
        ),
        Mistake(
            "two-changes",
            "an experiment that does not change exactly one setting was run all the same",
            "what a difference could be put down to when two settings change, or none",
            letting_through(*FAULTS),
        ),
        Mistake(
            "count-only",
            "the entries of `change` were counted, and their values not compared with those of `base`",
            "a change to the value that base has, and a setting that is not in base",
            letting_through(*FAULTS[3:5]),
        ),
        Mistake(
            "same-value",
            "a change to the value that base has was run",
            "what such an experiment can show",
            letting_through("the same value"),
        ),
        Mistake(
            "unknown-setting",
            "a setting that is not in base was run, perhaps a misspelt one",
            "how `base.get(name)` and `name in base` differ",
            letting_through("an unknown setting"),
            also=(letting_through("two settings, one unknown"),),
        ),
        Mistake(
            "effective-changes",
            "a change of two entries was run because one of them has base's value",
            "how many entries the question allows",
            letting_through("two settings, one as in base"),
        ),
        Mistake(
            "late-refusal",
            "the experiment was refused after it had been paid for",
            "what can be known before the first run",
            letting_through(*FAULTS, refusal="yes"),
            also=(letting_through(*FAULTS, runs=3, refusal="yes"),),
        ),
    ),
    visible=(
        visible("augmentation: 1.5, 1.8 and 3 better", {"augment": True}, [79.0, 82.0, 85.0], [1.5, 1.8, 3.0]),
        visible("width 64: 0.4 worse, 0.1 and 1.5 better", {"width": 64}, [83.0, 81.0, 82.0], [-0.4, 0.1, 1.5]),
        visible("width 64: 0.4 better, 0.1 and 1.5 worse", {"width": 64}, [83.0, 81.0, 82.0], [0.4, -0.1, -1.5]),
        visible("width 64: 0.1, 0.4 and 1.9 better", {"width": 64}, [83.0, 81.0, 82.0], [0.1, 0.4, 1.9]),
        visible("width 16: 0.3, 0.18 and 0.15 worse", {"width": 16}, [79.0, 82.0, 85.0], [-0.3, -0.18, -0.15]),
        visible("augmentation and width 64 at once", {"augment": True, "width": 64}, *UNUSED),
        visible("augmentation, and width 32 as in base", {"augment": True, "width": 32}, *UNUSED),
        visible("width 64, and a setting that is not in base", {"width": 64, "hieght": 64}, *UNUSED),
        visible("no change at all", {}, *UNUSED),
        visible("a change to the value that base has", {"width": 32.0}, *UNUSED),
        visible("a change of a setting that is not in base", {"witdh": 64}, *UNUSED),
    ),
    draw=draw,
    domain=domain,
)
