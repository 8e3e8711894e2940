"""03c-schedules: the rate of every step; windows, epochs, warm-up, skipped steps and plateaus are counted by hand."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

MULTI_STEP, WARMUP, APPLIED, PLATEAU = (
    f"{part}.rates" for part in ("multi_step", "warmup_cosine", "applied", "plateau")
)


def steps_of(inputs: Inputs, slip: str = "") -> tuple[float, int]:
    """Optimizer steps of an epoch and of the run."""
    batches, windows = inputs["batches"], inputs["batches"] / inputs["accumulate"]
    if slip == "across epochs":
        return windows, math.ceil(inputs["epochs"] * windows)
    steps = {"not accumulated": batches, "window dropped": math.floor(windows), "per epoch": 1}
    steps["window dropped but the only one"] = max(1, math.floor(windows))
    each = steps.get(slip, math.ceil(windows))
    return each, inputs["epochs"] * each


def multi_step(inputs: Inputs, slip: str = "") -> list[float]:
    each, total = steps_of(inputs, slip)
    if slip == "in steps":
        each = 1
    milestones = [milestone * each + (slip == "late") for milestone in inputs["milestones"]]
    passed = [sum(step >= milestone for milestone in milestones) for step in range(total)]
    if slip == "once":
        passed = [min(1, count) for count in passed]
    return [inputs["rate"] * inputs["factor"] ** count for count in passed]


def warmup_cosine(inputs: Inputs, slip: str = "") -> list[float]:
    total = steps_of(inputs, slip)[1]
    peak, final, rise = inputs["rate"], inputs["final"], inputs["warmup"]
    rise = rise / inputs["accumulate"] if slip == "in batches" else rise
    rates = []
    for step in range(total):
        if step < rise:
            share = {"from zero": step / rise, "too steep": (step + 1) / rise, "no warm-up": 1.0}
            rates.append(peak * share.get(slip, (step + 1) / (rise + 1)))
            continue
        length = {"whole run": total, "to the last": max(1, total - rise - 1)}.get(slip, total - rise)
        begun = 0 if slip == "whole run" else rise
        done = (step - begun) / length
        fall = 1 - done if slip == "linear" else (1 + math.cos(math.pi * done)) / 2
        low = 0.0 if slip == "to zero" else final
        rates.append(low + (peak - low) * fall)
    return rates


def applied(inputs: Inputs, slip: str = "") -> list[float]:
    planned, taken = inputs["planned"], inputs["taken"]
    index, rates = 0, []
    for number, step in enumerate(taken):
        late = index + step if slip == "moved first" else index
        rates.append(planned[min(number if slip == "all move" else late, len(planned) - 1)])
        index += step
    if slip == "zero":
        rates = [rate * step for rate, step in zip(rates, taken, strict=True)]
    return [rate for rate, step in zip(rates, taken, strict=True) if step] if slip == "taken only" else rates


def plateau(inputs: Inputs, slip: str = "") -> list[float]:
    rate, best, bad, rates, previous = inputs["rate"], math.inf, 0, [], math.inf
    for loss in inputs["losses"]:
        if slip != "same epoch":
            rates.append(rate)
        reference = previous if slip == "previous" else best
        wanted = reference * (1 - 1e-4) if slip == "threshold" else reference
        better = loss <= wanted if slip == "ties" else loss > -wanted if slip == "highest" else loss < wanted
        previous, best = loss, min(best, -loss if slip == "highest" else loss)
        bad = bad + (not better) if slip == "never reset" or not better else 0
        if bad > inputs["patience"] - (slip == "early") if slip != "late" else bad > inputs["patience"] + 1:
            rate *= inputs["factor"]
            bad = bad if slip == "counter kept" else 0
        if slip == "same epoch":
            rates.append(rate)
    return rates


FORMULAS = {MULTI_STEP: multi_step, WARMUP: warmup_cosine, APPLIED: applied, PLATEAU: plateau}


def rates(case: Case, slip: str = "", only: tuple[str, ...] = tuple(FORMULAS)) -> dict[str, Any]:
    return {path: np.array(FORMULAS[path](case.inputs, slip), dtype=float) for path in only}


def slipped(slip: str, *only: str) -> Simulation:
    return partial(rates, slip=slip, only=only)


def case(rng: np.random.Generator, kind: str, **settings: Any) -> Case:
    """A run whose windows leave a rest, unless `settings` say otherwise."""
    run = {"epochs": 4, "batches": 7, "accumulate": 3, **settings}
    steps = steps_of(run)[1]
    peak = rng.uniform(0.2, 1.0)
    inputs = {
        **run,
        "rate": peak,
        "final": peak * rng.uniform(0.05, 0.3),
        "factor": rng.uniform(0.2, 0.7),
        "milestones": [int(each) for each in np.sort(rng.choice(np.arange(1, 8), 3, replace=False))],
        "warmup": int(rng.integers(0, steps)),
        "planned": [float(rate) for rate in rng.uniform(0.1, 1.0, int(rng.integers(6, 12)))],
        "losses": [float(loss) for loss in rng.integers(2, 8, int(rng.integers(8, 16))) / 4],
        "patience": int(rng.integers(0, 3)),
    }
    inputs["taken"] = [bool(step) for step in rng.integers(0, 3, len(inputs["planned"])) > 0]
    return Case(kind, {**inputs, **settings})


def slow_fall(rng: np.random.Generator) -> list[float]:
    """Losses that fall by parts in a hundred thousand, after one that is far higher."""
    return [3.0, *(2.0 - np.cumsum(rng.uniform(1e-6, 2e-5, 8))).tolist()]


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has windows with a rest, none, longer than an epoch; one step; ties and tiny falls of losses."""
    wave = [2.0, 1.5, 1.5, 1.75, 1.0, 1.25, 1.25, 1.125, 1.0, 1.0, 0.5, 0.75, 0.5, 0.75, 0.75, 0.75]
    return [
        case(rng, "rest", epochs=int(rng.integers(4, 7)), milestones=[1, 3], warmup=3, losses=wave, patience=1),
        case(rng, "no rest", batches=6, epochs=3, accumulate=3, milestones=[1, 2], warmup=2, taken=[False] * 4),
        case(rng, "one by one", accumulate=1, batches=int(rng.integers(2, 6)), losses=wave, patience=2),
        case(rng, "long windows", accumulate=int(rng.integers(8, 10)), warmup=2, losses=wave[::-1], patience=0),
        case(rng, "one step", epochs=1, batches=1, accumulate=1, milestones=[], warmup=0, losses=[1.0], patience=3),
        case(rng, "one epoch", epochs=1, batches=9, accumulate=2, milestones=[1], warmup=4, taken=[True] * 5),
        draw_until(
            lambda: case(rng, "any", losses=slow_fall(rng)),
            lambda drawn: 0 < sum(drawn.inputs["taken"]) < len(drawn.inputs["taken"]),
        ),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Any run of one to six epochs, with any rest; in one of four the losses fall by little.

    Losses are also very small or large, alone, and one in a row several times; final rates come close to the first one,
    and there can be fewer attempts to step than planned rates.
    """
    run = {
        "epochs": int(rng.integers(1, 7)),
        "batches": int(rng.integers(1, 13)),
        "accumulate": int(rng.integers(1, 10)),
    }
    milestones = [int(each) for each in np.sort(rng.choice(np.arange(1, 9), rng.integers(0, 5), replace=False))]
    losses = slow_fall(rng) if rng.integers(4) == 0 else (rng.integers(2, 8, rng.integers(1, 17)) / 4).tolist()
    unit = float(rng.choice([1.0, 1e-5, 1e5], p=[0.4, 0.3, 0.3]))
    planned = rng.uniform(0.005, 1.0, rng.integers(1, 13)).tolist()
    rate = 10 ** rng.uniform(-1.5, 0)
    settings = {
        **{"milestones": milestones, "patience": int(rng.integers(0, 5)), "planned": planned, "rate": rate},
        "losses": [unit * loss for loss in losses],
        "final": float(rng.uniform(0.005, rate)),
        "factor": float(rng.choice([0.1, 0.9, rng.uniform(0.1, 0.9)])),
        "taken": (rng.integers(0, 3, rng.integers(1, len(planned) + 1)) > 0).tolist(),
    }
    return case(rng, "domain", **run, **settings)


def visible(name: str, **settings: Any) -> Case:
    usual = {"rate": 0.8, "final": 0.2, "factor": 0.5, "epochs": 3, "batches": 5, "accumulate": 2, "milestones": [1, 2]}
    rest = {"warmup": 3, "planned": [0.1, 0.2, 0.4, 0.8], "taken": [False, True, True, False], "patience": 1}
    return Case(name, {**usual, **rest, "losses": [3.0, 2.0, 2.0, 2.5, 2.5, 1.0, 1.5, 1.0, 1.0], **settings})


QUESTION = Description(
    id="03c-schedules",
    parts=(
        Graded("multi_step", 4, (MULTI_STEP,)),
        Graded("warmup_cosine", 5, (WARMUP,)),
        Graded("applied", 2, (APPLIED,)),
        Graded("plateau", 3, (PLATEAU,)),
    ),
    reference=rates,
    mistakes=(
        Mistake(
            "milestones-in-steps",
            "the milestones were compared with the number of the step; they are given in epochs",
            "how many optimizer steps an epoch has",
            slipped("in steps", MULTI_STEP),
        ),
        Mistake(
            "a-rate-for-each-epoch",
            "there is one rate for each epoch, not one for each optimizer step",
            "the length of the list: epochs times the steps of an epoch",
            slipped("per epoch", MULTI_STEP, WARMUP),
            also=(slipped("per epoch", MULTI_STEP),),
        ),
        Mistake(
            "accumulation-forgotten",
            "there is one rate for each batch; with accumulation an optimizer step takes several batches",
            "how often the optimizer steps in an epoch",
            slipped("not accumulated", MULTI_STEP, WARMUP),
            also=(slipped("not accumulated", MULTI_STEP), slipped("not accumulated", WARMUP)),
        ),
        Mistake(
            "last-window-dropped",
            "the last, shorter window of each epoch got no step",
            "an epoch of 5 batches in windows of 2: it has three steps",
            slipped("window dropped", MULTI_STEP, WARMUP),
            also=(
                slipped("window dropped", MULTI_STEP),
                slipped("window dropped", WARMUP),
                slipped("window dropped but the only one", MULTI_STEP, WARMUP),
            ),
        ),
        Mistake(
            "windows-across-epochs",
            "windows were counted across the end of an epoch; each epoch ends with a step",
            "where the rounding happens: in each epoch, or once for the run",
            slipped("across epochs", MULTI_STEP, WARMUP),
            also=(slipped("across epochs", MULTI_STEP), slipped("across epochs", WARMUP)),
        ),
        Mistake(
            "one-step-late",
            "the rate falls one step after the milestone",
            "the first step of the epoch that the milestone names; epochs and steps count from 0",
            slipped("late", MULTI_STEP),
        ),
        Mistake(
            "factor-once",
            "the second milestone changes nothing",
            "how often the factor acts after two milestones",
            slipped("once", MULTI_STEP),
        ),
        Mistake(
            "warm-up-from-zero",
            "the first step has rate 0 and changes no weight: it is wasted",
            "the rate of step 0 in the formula",
            slipped("from zero", WARMUP),
        ),
        Mistake(
            "warm-up-too-steep",
            "the warm-up has reached the peak one step too early",
            "the denominator of the warm-up",
            slipped("too steep", WARMUP),
        ),
        Mistake(
            "no-warm-up",
            "the first steps already have the peak rate",
            "the steps before number `warmup`",
            slipped("no warm-up", WARMUP),
        ),
        Mistake(
            "warm-up-in-batches",
            "the warm-up was divided by the accumulation; it is already given in optimizer steps",
            "the unit of `warmup`",
            slipped("in batches", WARMUP),
        ),
        Mistake(
            "cosine-over-the-run",
            "the cosine began at step 0, so it does not start from the peak after the warm-up",
            "the progress of the cosine at step `warmup`: it is 0",
            slipped("whole run", WARMUP),
        ),
        Mistake(
            "cosine-to-the-last-step",
            "the last step has the final rate; by the formula it would come one step after the end",
            "the denominator of the progress",
            slipped("to the last", WARMUP),
        ),
        Mistake(
            "linear-fall",
            "the rate falls along a line and not along a cosine",
            "the formula of the fall",
            slipped("linear", WARMUP),
        ),
        Mistake(
            "final-ignored",
            "the cosine ends at 0 and not at the final rate",
            "the two ends of the cosine",
            slipped("to zero", WARMUP),
        ),
        Mistake(
            "skipped-steps-count",
            "the schedule also moved on after skipped steps",
            "how many steps were taken before this one",
            slipped("all move", APPLIED),
        ),
        Mistake(
            "moved-before-the-step",
            "the schedule moved before the step, so the first taken step has the second rate",
            "the order of the optimizer's and the scheduler's step",
            slipped("moved first", APPLIED),
        ),
        Mistake(
            "skipped-is-zero",
            "skipped steps got the rate 0; the rate in force is what is asked for",
            "what the optimizer's rate is while a step is skipped",
            slipped("zero", APPLIED),
        ),
        Mistake(
            "taken-only",
            "skipped steps are missing from the list",
            "the length of the list: one rate for each entry of `taken`",
            slipped("taken only", APPLIED),
        ),
        Mistake(
            "small-falls-ignored",
            "a fall of less than 0.01 % counted as a bad epoch, as by the default `threshold` of `ReduceLROnPlateau`",
            "what a loss must be below: the lowest so far, by however little",
            slipped("threshold", PLATEAU),
        ),
        Mistake(
            "impatient",
            "the rate was cut one bad epoch too early",
            "how many bad epochs in a row are allowed: `patience` of them, and the next one cuts",
            slipped("early", PLATEAU),
        ),
        Mistake(
            "too-patient",
            "the rate was cut one bad epoch too late",
            "how many bad epochs in a row are allowed: `patience` of them, and the next one cuts",
            slipped("late", PLATEAU),
        ),
        Mistake(
            "ties-are-better",
            "an epoch with the same loss as the best counted as better",
            "what has to happen for the count of bad epochs to start again",
            slipped("ties", PLATEAU),
        ),
        Mistake(
            "previous-loss",
            "each loss was compared with the one before it and not with the lowest so far",
            "a loss that rises and then falls back half of the way",
            slipped("previous", PLATEAU),
        ),
        Mistake(
            "bad-epochs-in-total",
            "bad epochs were counted although a better one came between them",
            "what a better epoch does to the count",
            slipped("never reset", PLATEAU),
        ),
        Mistake(
            "count-kept",
            "the count did not start again after the rate was cut, so every further bad epoch cut it too",
            "the count of bad epochs after a cut",
            slipped("counter kept", PLATEAU),
        ),
        Mistake(
            "cut-in-the-same-epoch",
            "the lower rate was already used in the epoch whose loss caused the cut",
            "what is known before an epoch starts",
            slipped("same epoch", PLATEAU),
        ),
    ),
    visible=(
        visible("3 epochs of 5 batches in windows of 2, warm-up 3"),
        visible(
            "windows longer than an epoch", accumulate=8, epochs=5, warmup=1, patience=2, taken=[True, True, False]
        ),
        visible("no accumulation, no warm-up", accumulate=1, batches=3, warmup=0, milestones=[2], patience=0),
        visible("losses that fall by little", losses=[1.0, 0.99999, 0.99998, 0.99997, 0.99996]),
        visible("one step", epochs=1, batches=1, accumulate=1, milestones=[], warmup=0, taken=[True], losses=[1.0]),
    ),
    draw=draw,
    domain=domain,
)
