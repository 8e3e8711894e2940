"""03b-inspect: each of five problems found in every data set that has it, and reported for no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.inspect import PROBLEMS

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .inspect_cases import KINDS, Edit, clean, rows

Parts = tuple[np.ndarray, ...]
"""An array of training, and one of validation."""
Condition = Callable[[Parts, Parts, int], bool]
"""Whether a problem is reported, from the inputs of both parts, the labels of both parts and the number of classes."""


def floating(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def out_of_range(x: Parts, y: Parts, classes: int) -> bool:
    return any(bool((np.abs(part) > 10).any()) for part in x)


def wrong_dtype(x: Parts, y: Parts, classes: int) -> bool:
    return not all(map(floating, x)) or any(part.dtype != np.int64 for part in y)


def wrong_labels(x: Parts, y: Parts, classes: int) -> bool:
    return any(part.min() < 0 or part.max() >= classes for part in y)


def shared_rows(x: Parts, y: Parts, classes: int) -> bool:
    return not rows(x[0]).isdisjoint(rows(x[1]))


def stacked(x: Parts, y: Parts, classes: int) -> bool:
    return set(y[0].tolist()) != set(y[1].tolist())


def labelled_rows(x: np.ndarray, y: np.ndarray) -> set[tuple[float, ...]]:
    return {(*row, label) for row, label in zip(x.tolist(), y.tolist(), strict=True)}


def valid(y: np.ndarray, classes: int) -> set[float]:
    return {label for label in y.tolist() if 0 <= label < classes}


CONDITIONS = (out_of_range, wrong_dtype, wrong_labels, shared_rows, stacked)
RIGHT: dict[str, Condition] = dict(zip(PROBLEMS, CONDITIONS, strict=True))


def word(reported: bool) -> str:
    return "reported" if reported else "not reported"


def told(conditions: Mapping[str, Condition]) -> Simulation:
    """What is reported of these problems."""

    def simulate(case: Case) -> dict[str, str]:
        inputs = case.inputs
        parts = (inputs["x_train"], inputs["x_val"]), (inputs["y_train"], inputs["y_val"]), inputs["classes"]
        return {f"problems.{name}": word(holds(*parts)) for name, holds in conditions.items()}

    return simulate


def reported(case: Case) -> set[str]:
    """The paths of the problems that a data set has."""
    return {path for path, state in told(RIGHT)(case).items() if state == word(True)}


def first_only(case: Case) -> dict[str, str]:
    paths = told(RIGHT)(case)
    first = next((path for path, state in paths.items() if state == word(True)), "")
    return {path: word(path == first) for path in paths}


def made(rng: np.random.Generator, kind: str, edits: Sequence[Edit]) -> Case:
    data = clean(rng)
    for edit in edits:
        edit(rng, data)
    return Case(kind, data)


def several(rng: np.random.Generator, problems: Sequence[str]) -> Case:
    """A data set with these problems, each of any kind; a later one may undo an earlier one, then others are chosen."""

    def draw() -> Case:
        chosen = [rng.choice(list(kinds)) for problem, kinds in KINDS.items() if problem in problems]
        return made(rng, "several problems", [edit for kind in chosen for edit in ALL[kind]])

    return draw_until(draw, lambda case: {f"problems.{problem}" for problem in problems} <= reported(case))


ALL: dict[str, tuple[Edit, ...]] = {name: edits for kinds in KINDS.values() for name, edits in kinds.items()}


def draw(rng: np.random.Generator) -> list[Case]:
    """Every kind of every problem, each pair of problems, and all five at once."""
    cases = [made(rng, kind, edits) for kind, edits in ALL.items()]
    cases += [several(rng, pair) for pair in [*combinations(PROBLEMS, 2), PROBLEMS]]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """A data set that looks suspicious and is clean, or any of these problems together.

    Some have a hundred classes, some a thousand rows more in a part, before its own, and some a part of one row.
    """
    if rng.integers(3):
        kind = str(rng.choice(list(KINDS[""] if rng.integers(2) else ALL)))
        drawn = made(rng, kind, ALL[kind])
    else:
        drawn = several(rng, rng.permutation(PROBLEMS)[: rng.integers(1, 6)].tolist())
    data = dict(drawn.inputs)
    if rng.integers(7) == 0:
        data["classes"] = 100
    if rng.integers(4) == 0:
        for name in (("x_train", "y_train"), ("x_val", "y_val"))[rng.integers(2)]:
            data[name] = np.concatenate([np.repeat(data[name][:1], 1000, axis=0), data[name]])
    elif rng.integers(5) == 0:
        for name in (("x_train", "y_train"), ("x_val", "y_val"))[rng.integers(2)]:
            data[name] = data[name][-1:]
    return Case(drawn.kind, data)


# In each part a row whose numbers are in two rows of the other part.
X_TRAIN = [[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.2, 0.7]]
X_VAL = [[0.2, 0.8], [0.8, 0.7]]


def visible(
    name: str, x_train: Any = X_TRAIN, x_val: Any = X_VAL, types: str = "float32 float32", **labels: Any
) -> Case:
    x = {"x_train": np.array(x_train, types.split()[0]), "x_val": np.array(x_val, types.split()[1])}
    y = {name: np.array(labels.get(name, usual)) for name, usual in (("y_train", [0, 1, 0, 1]), ("y_val", [0, 1]))}
    return Case(name, {**x, **y, "classes": labels.get("classes", 2)})


def wrong(
    name: str, explanation: str, look_at: str, *forms: Mapping[str, Condition], hidden_only: bool = False
) -> Mistake:
    """A mistake that shows in each of the forms by itself."""
    first, *further = map(told, forms)
    return Mistake(name, explanation, look_at, first, also=tuple(further), hidden_only=hidden_only)


QUESTION = Description(
    id="03b-inspect",
    parts=tuple(Graded(name, 2, (f"problems.{name}",)) for name in PROBLEMS),
    reference=told(RIGHT),
    mistakes=(
        wrong(
            "always-alarm",
            "every problem is reported for every data set: an alarm that always rings warns of nothing",
            "what each condition says about the clean data set",
            dict.fromkeys(PROBLEMS, lambda x, y, classes: True),
        ),
        wrong(
            "never-alarm",
            "no problem is reported for any data set",
            "the conditions one at a time, each on the data set that shows it",
            dict.fromkeys(PROBLEMS, lambda x, y, classes: False),
        ),
        Mistake(
            "first-only",
            "only the first problem of a data set is reported; it can have several",
            "what becomes of the other conditions when one holds",
            first_only,
        ),
        wrong(
            "training-only",
            "only the training part was looked at; the same problem in the validation part went through",
            "whether each condition is applied to both parts",
            *(
                {name: lambda x, y, classes, name=name: RIGHT[name](x[:1], y[:1], classes)}
                for name in ("range", "dtype", "labels")
            ),
        ),
        wrong(
            "range-is-unit",
            "standardised inputs raise a range alarm: values outside [0, 1] or [-1, 1] are ordinary",
            "the limit that the question states",
            {"range": lambda x, y, classes: any(np.abs(part).max() > 1 for part in x)},
            {"range": lambda x, y, classes: any(part.min() < 0 or part.max() > 1 for part in x)},
        ),
        wrong(
            "no-absolute-value",
            "inputs far below zero went through",
            "what the absolute value in the condition is there for",
            {"range": lambda x, y, classes: any(part.max() > 10 for part in x)},
        ),
        wrong(
            "limit-included",
            "an input of exactly 10 or -10 raised a range alarm",
            "whether the limit itself is allowed",
            {"range": lambda x, y, classes: any(np.abs(part).max() >= 10 for part in x)},
        ),
        wrong(
            "inputs-dtype-only",
            "only the inputs' dtype was looked at; labels stored as floats went through",
            "what dtype CrossEntropyLoss wants for class indices",
            {"dtype": lambda x, y, classes: not all(map(floating, x))},
        ),
        wrong(
            "float32-only",
            "inputs in half or double precision were reported; they are floating point too",
            "the dtypes that the condition allows for the inputs",
            {"dtype": lambda x, y, classes: wrong_dtype(x, y, classes) or any(part.dtype != np.float32 for part in x)},
        ),
        wrong(
            "any-integer",
            "labels of another integer dtype than torch.long went through",
            "the one dtype that the question allows for labels",
            {"dtype": lambda x, y, classes: not all(map(floating, x)) or any(map(floating, y))},
        ),
        wrong(
            "parts-joined",
            "the parts were joined before their dtypes were looked at: joining converts them to one dtype",
            "the dtype of torch.cat of whole numbers and floats",
            {"dtype": lambda x, y, classes: wrong_dtype((np.concatenate(x),), (np.concatenate(y),), classes)},
            {"dtype": lambda x, y, classes: wrong_dtype((np.concatenate(x),), y, classes)},
        ),
        wrong(
            "labels-off-by-one",
            "a label equal to the number of classes went through: valid labels end at classes - 1",
            "the largest label that a network with that many outputs can be asked for",
            {"labels": lambda x, y, classes: wrong_labels(x, y, classes + 1)},
        ),
        wrong(
            "negative-labels",
            "negative labels went through",
            "both ends of the range of valid labels",
            {"labels": lambda x, y, classes: any(part.max() >= classes for part in y)},
        ),
        wrong(
            "duplicates-within",
            "a row that occurs twice within a part was called a leak; only rows shared by both parts are",
            "which two sets of rows are compared",
            {"duplicates": lambda x, y, classes: len(rows(x[0]) | rows(x[1])) < sum(map(len, x))},
        ),
        wrong(
            "same-position-only",
            "rows were compared position by position; a copy can be anywhere",
            "whether every validation row is compared with every training row",
            {"duplicates": lambda x, y, classes: any(np.array_equal(a, b) for a, b in zip(*x, strict=False))},
        ),
        wrong(
            "close-rows",
            "rows that nearly agree were called equal",
            "how exactly two rows are compared, and in which precision",
            {"duplicates": lambda x, y, classes: bool(np.isclose(x[0][:, None], x[1]).all(axis=-1).any())},
        ),
        wrong(
            "label-compared",
            "a row that occurs in both parts went through because its labels differ there",
            "what the question says about the label of a repeated row",
            {"duplicates": lambda x, y, classes: not labelled_rows(x[0], y[0]).isdisjoint(labelled_rows(x[1], y[1]))},
            hidden_only=True,
        ),
        wrong(
            "never-equal",
            "no repeated row was ever found",
            "what `==` and a set compare when a row is a tensor: numbers, or objects",
            {"duplicates": lambda x, y, classes: False},
        ),
        wrong(
            "equal-bytes",
            "rows of equal numbers went through because they are stored in another way",
            "0.0 and -0.0, and the same numbers in float32 and float64",
            {"duplicates": lambda x, y, classes: not {r.tobytes() for r in x[0]}.isdisjoint(r.tobytes() for r in x[1])},
        ),
        wrong(
            "compare-counts",
            "the numbers of classes were compared; the classes themselves can differ",
            "which classes occur in each part, not how many",
            {"class-stacked": lambda x, y, classes: len(np.unique(y[0])) != len(np.unique(y[1]))},
        ),
        wrong(
            "one-direction",
            "a class that occurs in one of the parts only went through",
            "both differences of the two sets of classes",
            {"class-stacked": lambda x, y, classes: not set(y[0].tolist()) >= set(y[1].tolist())},
            {"class-stacked": lambda x, y, classes: not set(y[0].tolist()) <= set(y[1].tolist())},
        ),
        wrong(
            "every-class-expected",
            "a part that lacks one of the classes was called stacked, though the other part lacks it too",
            "which two sets of labels the question compares",
            {"class-stacked": lambda x, y, classes: any(not set(range(classes)) <= set(part.tolist()) for part in y)},
            {"class-stacked": lambda x, y, classes: any(len(np.unique(part)) < classes for part in y)},
        ),
        wrong(
            "valid-labels-only",
            "an invalid label that occurs in one part only went through",
            "what the question says about labels that are not valid",
            {"class-stacked": lambda x, y, classes: valid(y[0], classes) != valid(y[1], classes)},
        ),
    ),
    visible=(
        visible("a clean data set"),
        visible("clean, standardised: values between -3 and 3", np.array(X_TRAIN) * 6 - 3, np.array(X_VAL) * 6 - 3),
        visible(
            "clean: float16 and float64, and an input of exactly -10",
            [[-10, 0.9], *X_TRAIN[1:]],
            types="float16 float64",
        ),
        visible("clean, one row twice within training", [[-0.1, 0.9], *X_TRAIN[1:3], [-0.1, 0.9]]),
        visible("clean: two rows nearly agree", x_val=[X_VAL[0], [0.3, 0.7 + 1e-9]], types="float64 float64"),
        visible("clean, with a class that never occurs", classes=3),
        visible("clean: a single example in each part", X_TRAIN[:1], X_VAL[:1], y_train=[1], y_val=[1]),
        visible("range: raw pixels, 0 to 255", np.array(X_TRAIN) * 255, np.array(X_VAL) * 255),
        visible("range: raw pixels in validation only", x_val=np.array(X_VAL) * 255),
        visible("range: -10.5 in training", [[-10.5, 0.9], *X_TRAIN[1:]]),
        visible("dtype: labels of training as float32", y_train=np.array([0, 1, 0, 1], np.float32)),
        visible("dtype: labels of validation as int32", y_val=np.array([0, 1], np.int32)),
        visible("dtype: whole numbers in validation", x_val=[[2, 1], [0, 3]], types="float32 int64"),
        visible(
            "dtype: whole numbers in both parts",
            [[3, 9], [8, 2], [3, 7], [6, 5]],
            [[2, 8], [7, 3]],
            types="int32 int32",
        ),
        visible("labels: 1, 2 for 2 classes", y_train=[1, 2, 1, 2], y_val=[1, 2]),
        visible("labels: -1, 0", y_train=[-1, 0, -1, 0], y_val=[-1, 0]),
        visible("duplicates: the same first row in both parts", x_val=[X_TRAIN[0], X_VAL[1]]),
        visible("duplicates: a training row again in validation, with another label", x_val=[X_TRAIN[3], X_VAL[1]]),
        visible("duplicates: 0.0 in training, -0.0 in validation", [[0.0, 0.5], *X_TRAIN[1:]], [X_VAL[0], [-0.0, 0.5]]),
        visible("class-stacked: validation holds one class only", y_val=[1, 1]),
        visible("class-stacked: a class in training only, of three", y_train=[0, 1, 2, 1], classes=3),
        visible("class-stacked: classes 0, 1 in training and 2, 3 in validation", y_val=[2, 3], classes=4),
        visible("labels and class-stacked: 2 in validation", x_val=[*X_VAL, [0.4, 0.1]], y_val=[0, 1, 2]),
        visible("labels and class-stacked: 2 in training", y_train=[0, 1, 2, 0]),
        visible("all five", [[12, 0], [1, 2], [3, 4], [5, 6]], [[1, 2], [0, 0]], y_val=[0, 2], types="int64 float32"),
    ),
    draw=draw,
    domain=domain,
)
