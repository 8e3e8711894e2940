"""03b-shift: four kinds of shift by stated shares, each found wherever it is and named nowhere else.

The examples are drawn as counts: what is to stay the same differs by rounding only, what is to change does by far.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.shift import ARRAYS, KINDS, named

from ..description import Case, Description, Graded, Mistake, Simulation

LIMIT = 0.1
SAME, CHANGED = 0.06, 0.14  # the largest difference of no distribution lies between them
EXAMPLES = 800  # of training

Joint = np.ndarray
"""Shares of the pairs (x, y), [3, 2], sum 1."""
Change = Callable[[np.random.Generator, Joint], Joint]
Inputs = Any
FORMS: dict[str, Callable[[Joint], np.ndarray]] = {
    "x": lambda joint: joint.sum(axis=1),
    "y": lambda joint: joint.sum(axis=0),
    "y|x": lambda joint: joint / joint.sum(axis=1, keepdims=True).clip(1e-9),
    "x|y": lambda joint: joint / joint.sum(axis=0, keepdims=True).clip(1e-9),
}
ALL = set(FORMS)


def largest(differences: np.ndarray) -> float:
    return float(np.abs(differences).max())


def changes(first: Joint, second: Joint, size: Callable[[np.ndarray], float] = largest) -> dict[str, float]:
    """The largest difference of a share in each of the four distributions."""
    return {name: size(form(second) - form(first)) for name, form in FORMS.items()}


def counted(inputs: Inputs, part: str, rows: Any = slice(None)) -> Joint:
    pairs = (2 * inputs[f"x_{part}"] + inputs[f"y_{part}"])[rows]
    return np.bincount(pairs, minlength=6).reshape(3, 2) / len(pairs)


def by_time(inputs: Inputs) -> np.ndarray:
    """Which rows of training are in the earlier half."""
    return np.asarray(inputs["t_train"] <= np.median(inputs["t_train"]))


def first_rows(inputs: Inputs) -> np.ndarray:
    return np.arange(len(inputs["t_train"])) < len(inputs["t_train"]) // 2


def middle_of_time(inputs: Inputs) -> np.ndarray:
    times = inputs["t_train"]
    return np.asarray(times <= (times.min() + times.max()) / 2)


def decide(
    inputs: Inputs,
    early: Callable[[Inputs], np.ndarray] = by_time,
    compared: set[str] = ALL,
    size: Callable[[np.ndarray], float] = largest,
    temporal: str = "first",
    sloppy: str = "",
    about: str = "",
) -> str:
    """The stated criteria, or what a mistake makes of them: `sloppy` names a kind by what `about` changed alone."""
    rows = early(inputs)
    inside = changes(counted(inputs, "train", rows), counted(inputs, "train", ~rows), size)
    drifts = max(inside[name] for name in compared) > LIMIT
    if temporal == "first" and drifts:
        return "temporal"
    changed = {
        name: gap > LIMIT for name, gap in changes(counted(inputs, "train"), counted(inputs, "val"), size).items()
    }
    rules = {
        "covariate": changed["x"] and not changed["y|x"],
        "label": changed["y"] and not changed["x|y"],
        "concept": changed["y|x"] and not changed["x"],
    }
    if sloppy and changed[about]:
        return sloppy
    return next(
        (kind for kind, holds in rules.items() if holds), "temporal" if temporal == "last" and drifts else "none"
    )


def answers(word: Callable[[Case], str]) -> Simulation:
    return lambda case: {f"decision.{name}": said for name, said in named(word(case)).items()}


def deciding(**edit: Any) -> Simulation:
    return answers(lambda case: decide(case.inputs, **edit))


def drawn(rng: np.random.Generator) -> Joint:
    """Inputs of different shares whose labels differ."""
    shares = rng.permutation([0.5, 0.3, 0.2]) + rng.uniform(-0.03, 0.03, 3)
    ones = rng.permutation([0.15, 0.5, 0.85]) + rng.uniform(-0.05, 0.05, 3)
    return np.stack([1 - ones, ones], axis=1) * (shares / shares.sum())[:, None]


def one_pair_missing(rng: np.random.Generator) -> Joint:
    """One input never has one of the labels."""
    joint = drawn(rng)
    row, label = rng.integers(3), rng.integers(2)
    joint[row] = np.where(np.arange(2) == label, 0.0, joint[row].sum())
    return joint


def other_inputs(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(x) changes, P(y | x) stays."""
    return joint / joint.sum(axis=1, keepdims=True) * rng.dirichlet([2.0, 2.0, 2.0])[:, None]


def one_input(sign: int) -> Change:
    """The rarest input becomes more frequent, or the most frequent one rarer; both others change half as much."""

    def change(rng: np.random.Generator, joint: Joint) -> Joint:
        shares = joint.sum(axis=1)
        shift = 0.17 * sign * np.where(np.arange(3) == (sign * shares).argmin(), 1.0, -0.5)
        return joint / shares[:, None] * (shares + shift)[:, None]

    return change


def other_shares(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(y) changes, P(x | y) stays."""
    one = rng.uniform(0.15, 0.85)
    return joint / joint.sum(axis=0) * np.array([1 - one, one])


def other_labels(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(y | x) changes, P(x) stays."""
    ones = rng.uniform(0.1, 0.9, 3)
    return np.stack([1 - ones, ones], axis=1) * joint.sum(axis=1, keepdims=True)


def labels_of_one_input(rng: np.random.Generator, joint: Joint) -> Joint:
    """P(y | x) changes for the rarest input only, so that no pair changes much."""
    rarest, changed = joint.sum(axis=1).argmin(), joint.copy()
    towards = 1 if joint[rarest, 0] > joint[rarest, 1] else -1
    changed[rarest] += joint[rarest].sum() * rng.uniform(0.2, 0.25) * towards * np.array([-1, 1])
    return changed


def nothing(rng: np.random.Generator, joint: Joint) -> Joint:
    return joint


# Kind -> its word; what changes from training to validation ("?": maybe), what changes it, whether within training too.
PLANS: dict[str, tuple[str, set[str], Change, bool]] = {
    "no shift": ("none", set(), nothing, False),
    "no shift, a pair that never occurs": ("none", set(), nothing, False),
    "no shift, larger inputs in the lower rows": ("none", set(), nothing, False),
    "no shift, quarters of training that differ": ("none", set(), nothing, False),
    "covariate, other classes too": ("covariate", ALL - {"y|x"}, other_inputs, False),
    "covariate, the classes' shares as before": ("covariate", {"x", "x|y"}, other_inputs, False),
    "covariate, one input more frequent": ("covariate", {"x", "y?", "x|y?"}, one_input(1), False),
    "covariate, one input rarer": ("covariate", {"x", "y?", "x|y?"}, one_input(-1), False),
    "label": ("label", ALL - {"x|y"}, other_shares, False),
    "label, again": ("label", ALL - {"x|y"}, other_shares, False),
    "concept": ("concept", {"y|x", "x|y"}, other_labels, False),
    "concept, for one input": ("concept", {"y|x", "x|y?"}, labels_of_one_input, False),
    "concept, other classes too": ("concept", ALL - {"x"}, other_labels, False),
    "temporal: inputs drift on": ("temporal", ALL - {"y|x"}, other_inputs, True),
    "temporal: inputs": ("temporal", set(), other_inputs, True),
    "temporal: classes": ("temporal", set(), other_shares, True),
    "temporal: labels": ("temporal", set(), other_labels, True),
    "temporal: labels of one input": ("temporal", set(), labels_of_one_input, True),
}


def clear(gaps: dict[str, float]) -> bool:
    return not any(SAME < gap < CHANGED for gap in gaps.values())


def found(rng: np.random.Generator, kind: str) -> tuple[Joint, Joint, Joint]:
    """Training's halves and validation that differ in what they should, and in nothing else that decides."""
    _, changed, change, drifts = PLANS[kind]
    while True:
        early = one_pair_missing(rng) if "a pair" in kind else drawn(rng)
        late = change(rng, early) if drifts else early
        train = (early + late) / 2
        val = change(rng, train) if changed else train
        inside, between = changes(early, late), changes(train, val)
        rare = min(joint.sum(axis=axis).min() for joint in (early, late, val) for axis in (0, 1)) < 0.12
        wanted = all((gap > LIMIT) == (name in changed) for name, gap in between.items() if f"{name}?" not in changed)
        if wanted and clear(inside) and clear(between) and (max(inside.values()) > LIMIT) == drifts and not rare:
            return early, late, val


def pairs(joint: Joint, count: int) -> np.ndarray:
    """`count` pairs (x, y), [count, 2], sorted, in the shares of `joint` as nearly as whole numbers allow."""
    ends = np.round(np.cumsum(joint.reshape(-1)) / joint.sum() * count).astype(int)
    return np.repeat(list(product(range(3), range(2))), np.diff(ends, prepend=0), axis=0)


def made(rng: np.random.Generator, kind: str) -> Case:
    """Examples with times that are dense at one end of training, in rows that say nothing about the time."""
    early, late, val = found(rng, kind)
    half, later = EXAMPLES // 2, int(rng.integers(500, 1100))
    days = np.arange(EXAMPLES) ** 3
    days = (days if rng.integers(2) else days[-1] - days[::-1]) - int(rng.integers(10**9))
    rows = np.concatenate([pairs(early, half), pairs(late, half)])
    if "quarters" not in kind:  # else each half begins with the small inputs and ends with the large ones
        days = np.concatenate([rng.permutation(days[:half]), rng.permutation(days[half:])])
    order = np.concatenate([rng.permutation(np.arange(side, EXAMPLES, 2)) for side in (0, 1)])
    if "lower rows" in kind:
        order = order[np.argsort(rows[order, 0] + rng.uniform(-2, 2, EXAMPLES))]
    after = days.max() + 1 + rng.permutation(later)
    columns = (*rows[order].T, days[order], *rng.permutation(pairs(val, later)).T, after)
    arrays = {name: np.ascontiguousarray(column) for name, column in zip(ARRAYS, columns, strict=True)}
    return Case(kind, arrays, PLANS[kind][0])


def draw(rng: np.random.Generator) -> list[Case]:
    """Every kind in every set; validation is later than training and never of its size."""
    return [made(rng, kind) for kind in rng.permutation(list(PLANS))]


def domain(rng: np.random.Generator) -> Case:
    return made(rng, str(rng.choice(list(PLANS))))


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
ONE_FLIPPED = [[36, 4], [20, 20], [8, 12]]
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
            also=(deciding(early=lambda inputs: inputs["t_train"] <= inputs["t_train"].mean()),),
        ),
        Mistake(
            "no-absolute-value",
            "a share that changed in one direction went through",
            "the sign of the differences that you compare with 0.1",
            deciding(size=lambda differences: float(differences.max())),
            also=(deciding(size=lambda differences: float(-differences.min())),),
        ),
        Mistake(
            "mean-difference",
            "the differences were averaged; one share that changed is enough",
            "what the question calls a changed distribution",
            deciding(size=lambda differences: float(np.abs(differences).mean())),
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
    ),
    draw=draw,
    domain=domain,
)
