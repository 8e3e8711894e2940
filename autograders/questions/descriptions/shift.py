"""03b-shift: four kinds of shift by stated shares, each found wherever it is and named nowhere else.

A plan says which of the four distributions change, and at which place. Random pairs of tables of counts are drawn until
one pair does that and nothing else, so that the criteria hold for the examples themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.shift import ARRAYS, KINDS, named

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .shift_tables import (
    ALL,
    FORMS,
    LIMIT,
    Size,
    Source,
    Tables,
    Wanted,
    average,
    differences,
    few,
    from_day_zero,
    from_zero,
    lacking,
    largest,
    largest_fall,
    largest_rise,
    nearly,
    only_at,
    rows_of,
    sources,
    spread,
    subset,
    total,
    undecided,
)

Inputs = Any


def counted(inputs: Inputs, part: str, rows: Any = slice(None)) -> Tables:
    return np.bincount((2 * inputs[f"x_{part}"] + inputs[f"y_{part}"])[rows], minlength=6).reshape(3, 2)


def by_time(inputs: Inputs) -> np.ndarray:
    """Which rows of training are in the earlier half."""
    return np.asarray(inputs["t_train"] <= np.median(inputs["t_train"]))


def first_rows(inputs: Inputs) -> np.ndarray:
    return np.arange(len(inputs["t_train"])) < len(inputs["t_train"]) // 2


def middle_of_time(inputs: Inputs) -> np.ndarray:
    return np.asarray(inputs["t_train"] <= (inputs["t_train"].min() + inputs["t_train"].max()) / 2)


def mean_of_time(inputs: Inputs) -> np.ndarray:
    return np.asarray(inputs["t_train"] <= inputs["t_train"].mean())


SPLITS = (by_time, first_rows, middle_of_time, mean_of_time)


def decide(
    inputs: Inputs,
    early: Callable[[Inputs], np.ndarray] = by_time,
    compared: set[str] = ALL,
    size: Size = largest,
    temporal: str = "first",
    sloppy: str = "",
    about: str = "",
    kept: bool = True,
) -> str:
    """The stated criteria, or what a mistake makes of them: `sloppy` names a kind by what `about` changed alone."""

    def changes(first: Tables, second: Tables) -> set[str]:
        return {name for name, difference in differences(first, second).items() if size(difference.reshape(-1)) > LIMIT}

    rows = early(inputs)
    drifts = bool(changes(counted(inputs, "train", rows), counted(inputs, "train", ~rows)) & compared)
    if temporal == "first" and drifts:
        return "temporal"
    changed = changes(counted(inputs, "train"), counted(inputs, "val"))
    if sloppy and about in changed:
        return sloppy
    for kind, moved, fixed in (("covariate", "x", "y|x"), ("label", "y", "x|y"), ("concept", "y|x", "x")):
        if moved in changed and not (kept and fixed in changed):
            return kind
    return "temporal" if temporal == "last" and drifts else "none"


def answers(word: Callable[[Case], str]) -> Simulation:
    return lambda case: {f"decision.{name}": answer for name, answer in named(word(case)).items()}


def deciding(**edit: Any) -> Simulation:
    return answers(lambda case: decide(case.inputs, **edit))


@dataclass(frozen=True)
class Plan:
    """What changes between the halves of training, and from training to validation; None: nothing."""

    word: str
    inside: Wanted | None
    between: Wanted | None = None


# What may change together, and what it is between training and validation. All other combinations are impossible.
TOGETHER: dict[tuple[str, ...], str] = {
    ("x", "y"): "covariate",
    ("x", "x|y"): "covariate",
    ("x", "y", "x|y"): "covariate",
    ("y", "y|x"): "label",
    ("x", "y", "y|x"): "label",
    ("y|x",): "concept",
    ("y|x", "x|y"): "concept",
    ("y", "y|x", "x|y"): "concept",
    ("x|y",): "none",
    ("x", "y|x", "x|y"): "none",
    ("x", "y", "y|x", "x|y"): "none",
}


def planned() -> dict[str, Plan]:
    """Each combination, each place that may decide alone, and what must not be taken for a shift."""
    plans = {f"{word}: {', '.join(names)} change": Plan(word, None, subset(*names)) for names, word in TOGETHER.items()}
    plans |= {f"temporal: {', '.join(names)} change": Plan("temporal", subset(*names)) for names in TOGETHER}
    drift = subset("x", "y", "x|y")
    plans["temporal: inputs drift on"] = Plan("temporal", drift, drift)
    for x in range(3):
        for sign, how in ((1, "more frequent"), (-1, "rarer")):
            plans[f"covariate: x = {x} {how}"] = Plan("covariate", None, only_at(("x", "x|y"), "x", x, sign=sign))
        plans[f"concept: labels of x = {x}"] = Plan("concept", None, only_at(("y|x",), "y|x", x))
        plans[f"none: other inputs, and other labels of x = {x}"] = Plan(
            "none", None, only_at(("x", "y|x", "x|y"), "y|x", x)
        )
        plans[f"temporal: labels of x = {x}"] = Plan("temporal", only_at(("y|x",), "y|x", x))
        for y in range(2):
            within = only_at(("x|y",), "x|y", x, y, sign=(-1) ** (x + y))
            plans[f"temporal: x = {x} in the class {y}"] = Plan("temporal", within)
            plans[f"none: x = {x}, y = {y} only in training"] = Plan("none", None, lacking(x, y, "first"))
    for y in range(2):
        for sign, how in ((1, "more frequent"), (-1, "rarer")):
            of_y = only_at(("y", "y|x", "x|y"), "x|y", slice(None), y, sign=sign)
            plans[f"concept: other classes, and an input {how} in the class {y}"] = Plan("concept", None, of_y)
        plans[f"none: x = {2 * y}, y = {y} never"] = Plan("none", None, lacking(2 * y, y, "anywhere"))
        plans[f"none: x = {2 * y}, y = {y} only earlier"] = Plan("none", lacking(2 * y, y, "first"))
    plans["temporal: an input that is new in a class"] = Plan("temporal", from_zero)
    plans["temporal: few examples of a class"] = Plan("temporal", few("x|y"))
    plans["label: no pair moves by much"] = Plan("label", None, spread("y", "y|x"))
    plans["covariate: no pair moves by much"] = Plan("covariate", None, spread("x", "x|y"))
    for name in FORMS:
        plans[f"none: P({name}) nearly changed"] = Plan("none", None, nearly(name))
        plans[f"none: P({name}) nearly changed within training"] = Plan("none", nearly(name))
    for condition in ("six examples", "larger inputs in the lower rows", "quarters of training that differ"):
        plans[f"none: {condition}"] = Plan("none", None)
    return plans


PLANS = planned()


def depends_on_the_way(case: Case) -> bool:
    """Whether two ways to compute what the question or a mistake compares may decide differently."""
    halves = [split(case.inputs) for split in SPLITS]
    pairs = [(counted(case.inputs, "train"), counted(case.inputs, "val"))]
    pairs += [(counted(case.inputs, "train", rows), counted(case.inputs, "train", ~rows)) for rows in halves]
    return any(undecided(first[None], second[None])[0] for first, second in pairs)


def made(source: Source, kind: str) -> Case:
    """A case of this plan that any way of computing the same differences decides alike."""
    while depends_on_the_way(case := any_made(source, kind)):
        if source.rng.integers(5) == 0:  # perhaps one pair of tables alone suits the plan
            source.pools.clear()
    return case


def any_made(source: Source, kind: str) -> Case:
    """Training and validation of different sizes, in rows whose halves are alike whatever changes with time."""
    plan, rng, half = PLANS[kind], source.rng, source.half
    if plan.inside is None:
        early, val = source.find(plan.between or subset(), source.later)
        late = early
    else:
        early, late = source.find(plan.inside, half)
        val = source.beside(early + late, plan.between or subset())
    rows = np.stack([rows_of(early), rows_of(late)])
    days = np.arange(2 * half)
    if "quarters" in kind or (plan.word == "temporal" and "drift on" not in kind):  # dense at one end
        days = (2 * days**1.5).astype(int)
        days = days if rng.integers(2) else days[-1] - days[::-1]
    times = days.reshape(2, half) - int(rng.integers(10**9))
    if "quarters" not in kind:  # else each half begins with the small inputs and ends with the large ones
        times = rng.permuted(times, axis=1)
    upper = (np.arange(half) + np.arange(2)[:, None]) % 2 == 0  # every second pair of the one half, and of the other
    order = np.concatenate([rng.permutation(np.flatnonzero(side)) for side in (upper, ~upper)])
    rows, days = rows.reshape(-1, 2), times.reshape(-1)
    if "lower rows" in kind:
        order = order[np.argsort(rows[order, 0] + rng.uniform(-2, 2, len(order)))]
    after = days.max() + 1 + rng.permutation(len(rows_of(val)))
    columns = (*rows[order].T, days[order], *rng.permutation(rows_of(val)).T, after)
    arrays = {name: np.ascontiguousarray(column) for name, column in zip(ARRAYS, columns, strict=True)}
    return Case(kind, arrays, plan.word)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every plan in every set."""
    of = sources(rng)
    return [made(of["six" in kind], kind) for kind in rng.permutation(list(PLANS))]


def domain(rng: np.random.Generator) -> Case:
    kind = str(rng.choice(list(PLANS)))
    return made(sources(rng)["six" in kind], kind)


def mixed(counts: list[list[int]], step: int = 37) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels with `counts[x][y]` examples of each pair, in no order; with the step 1 sorted."""
    sorted_pairs = [(x, y) for x, of_x in enumerate(counts) for y, count in enumerate(of_x) for _ in range(count)]
    rows = np.array(sorted_pairs)[np.arange(len(sorted_pairs)) * step % len(sorted_pairs)]
    return rows[:, 0], rows[:, 1]


def visible(name: str, kind: str, earlier: Any, later: Any, val: Any, times: int = 3, step: int = 37) -> Case:
    """Rows of training's halves take turns. Validation has so many times the counts."""
    halves = [mixed(earlier, step), mixed(later, step)]
    count = len(halves[0][0])
    x_train, y_train = (np.stack([half[side] for half in halves], axis=1).reshape(-1) for side in (0, 1))
    t_train = np.stack([np.arange(count), count + np.arange(count)], axis=1).reshape(-1) ** 2
    x_val, y_val = mixed([[times * n for n in of_x] for of_x in val])
    columns = (x_train, y_train, t_train, x_val, y_val, t_train.max() + 1 + np.arange(len(x_val)))
    return Case(name, dict(zip(ARRAYS, columns, strict=True)), kind)


# counts[x][y]: of the inputs 0, 1 and 2 with 10, 50 and 90 % of class 1 in SAMES.
SAMES = [[36, 4], [20, 20], [2, 18]]
OTHER_INPUTS = [[18, 2], [10, 10], [6, 54]]
FLIPPED = [[4, 36], [20, 20], [18, 2]]
ONE_FLIPPED = [[36, 4], [20, 20], [7, 13]]
LABELS = ([[36, 18], [18, 9], [6, 33]], [[18, 36], [9, 18], [3, 66]])

QUESTION = Description(
    id="03b-shift",
    parts=tuple(Graded(kind, 2, (f"decision.{kind}",)) for kind in KINDS),
    reference=answers(lambda case: str(case.key)),
    mistakes=(
        Mistake(
            "always-none",
            "no shift was found in any of the cases",
            "the shares in the two parts of the second case, beside each other",
            answers(lambda case: "none"),
        ),
        Mistake(
            "always-covariate",
            "the same kind was named for every case",
            "the first case, in which all shares are the same",
            answers(lambda case: "covariate"),
        ),
        Mistake(
            "label-by-share",
            "a changed share of the classes was called label shift; other inputs bring other shares too",
            "whether each class looks as before: the inputs within a class",
            deciding(sloppy="label", about="y"),
        ),
        Mistake(
            "covariate-by-input",
            "changed inputs were called covariate shift; other shares of the classes bring other inputs too",
            "whether alike inputs still have the same labels",
            deciding(sloppy="covariate", about="x"),
        ),
        Mistake(
            "concept-by-relation",
            "a changed P(y | x) was called concept shift; other shares of the classes change it too",
            "whether the inputs as a whole stayed as they were",
            deciding(sloppy="concept", about="y|x"),
        ),
        Mistake(
            "concept-by-x-given-y",
            "a changed P(x | y) was called concept shift",
            "which of the two conditionals says what an input's label is",
            deciding(sloppy="concept", about="x|y"),
        ),
        Mistake(
            "later-is-temporal",
            "validation was called drifted because it is later; in every case it is",
            "the two halves of training in time, beside each other",
            answers(lambda case: "temporal"),
        ),
        Mistake(
            "never-temporal",
            "time was not looked at: what changes inside training was taken for a difference between the parts",
            "the two halves of training in time, beside each other",
            deciding(temporal="never"),
        ),
        Mistake(
            "temporal-last",
            "the halves of training were compared only where no other shift was found",
            "the order in which the question asks",
            deciding(temporal="last"),
        ),
        Mistake(
            "temporal-by-inputs",
            "only the inputs of the two halves of training were compared",
            "which of the four distributions can change with time",
            deciding(compared={"x"}),
        ),
        Mistake(
            "temporal-without-x-given-y",
            "P(x | y) was not compared between the two halves of training",
            "which of the four distributions can change with time",
            deciding(compared=ALL - {"x|y"}),
            also=(deciding(compared={"x", "y"}), deciding(compared=ALL - {"y|x"})),
        ),
        Mistake(
            "changed-only",
            "a kind was named by what changed, without asking what stayed the same",
            "the second half of each criterion",
            deciding(kept=False),
        ),
        Mistake(
            "rows-for-time",
            "the halves of training were made by row; the rows are not in the order of time",
            "what the column of times is for",
            deciding(early=first_rows),
        ),
        Mistake(
            "middle-of-time",
            "training was cut in the middle of its time; the halves have equally many examples",
            "how many examples lie on each side of the cut",
            deciding(early=middle_of_time),
            hidden_only=True,
            also=(deciding(early=mean_of_time),),
        ),
        Mistake(
            "no-absolute-value",
            "a share that changed in one direction went through",
            "the sign of the differences that you compare with 0.1",
            deciding(size=largest_rise),
            also=(deciding(size=largest_fall),),
        ),
        Mistake(
            "sum-of-differences",
            "the differences of a distribution were added up; one share has to differ by more than 0.1",
            "what the question calls a changed distribution",
            deciding(size=total),
        ),
        Mistake(
            "mean-difference",
            "the differences were averaged; one share that changed is enough",
            "what the question calls a changed distribution",
            deciding(size=average),
        ),
    ),
    visible=(
        visible("nothing but the dates differs", "none", SAMES, SAMES, SAMES),
        visible("other inputs, and with them other shares of the classes", "covariate", SAMES, SAMES, OTHER_INPUTS),
        visible("one input rarer", "covariate", SAMES, SAMES, [[22, 2], [24, 24], [3, 25]]),
        visible("one input more frequent", "covariate", SAMES, SAMES, [[29, 3], [16, 16], [4, 32]]),
        visible("other shares of the classes, and with them other inputs", "label", LABELS[0], LABELS[0], LABELS[1]),
        visible("the same inputs, other labels", "concept", SAMES, SAMES, FLIPPED),
        visible("other labels of one input", "concept", SAMES, SAMES, ONE_FLIPPED),
        visible(
            "inputs that change within training, and go on changing",
            "temporal",
            SAMES,
            OTHER_INPUTS,
            [[9, 1], [10, 10], [6, 54]],
        ),
        visible(
            "labels of one input that change within training",
            "temporal",
            SAMES,
            ONE_FLIPPED,
            [[36, 4], [20, 20], [5, 15]],
        ),
        visible(
            "labels of all inputs that change within training",
            "temporal",
            SAMES,
            [[28, 12], [12, 28], [0, 20]],
            [[32, 8], [16, 24], [1, 19]],
        ),
        visible(
            "inputs of a rare class that change within training",
            "temporal",
            [[40, 2], [36, 2], [24, 6]],
            [[38, 4], [36, 2], [26, 4]],
            [[39, 3], [36, 2], [25, 5]],
        ),
        visible("small differences everywhere", "none", SAMES, SAMES, [[32, 3], [20, 20], [3, 22]]),
        visible("everything changes", "none", SAMES, SAMES, [[2, 14], [10, 2], [34, 38]]),
    ),
    draw=draw,
    domain=domain,
    added=0,  # a case is sampled until it is clear
    practice=from_day_zero,
)
