"""03c-choose: decisions compared with sets of acceptable ones, and models with limits that each of these exceeds.

tests/autograders/questions/test_optimizers_and_schedules.py trains recipes of acceptable decisions against the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.choose import DECISIONS, FITS, NOT_REACHED, REACHED, WRONG_SHAPE, fit, reached

from ..cases import Case, Observation, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Task = Mapping[str, Any]
NUMBER, TWO, MANY, SEVERAL = "number", "one of two", "one of many", "several at once"
LIMITS = {"diabetes": 0.2, "breast cancer": 0.85, "digits": 0.75}
"""Coefficient of determination, accuracy, accuracy on rows that were held out."""
TABULAR, DATA = "a task", "a data set"


def acceptable(task: Task) -> dict[str, tuple[str, ...]]:
    """The sets of decisions that fit a task."""
    target = task["target"]
    loss = {
        NUMBER: ("huber", "l1") if task["outliers"] else ("mse", "huber"),
        TWO: ("bce_with_logits", "cross_entropy"),
        MANY: ("cross_entropy",),
        SEVERAL: ("bce_with_logits",),
    }[target]
    if target == NUMBER:
        metric: tuple[str, ...] = ("mae",) if task["outliers"] else ("mae", "rmse")
    else:
        metric = ("macro_f1",) if task["rare_class"] else ("accuracy", "macro_f1")
    optimizer = ("adamw",) if task["transformer"] else ("adamw", "sgd_momentum")
    known = ("warmup_cosine", "one_cycle") if task["transformer"] else ("cosine", "warmup_cosine", "one_cycle", "step")
    schedule = known if task["length_known"] else ("constant", "plateau")
    return {"loss": loss, "metric": metric, "optimizer": optimizer, "schedule": schedule}


def reference(case: Case) -> Mapping[str, Any]:
    decisions = {f"decision.{name}": FITS for name in DECISIONS}
    return decisions | ({"model.score": REACHED} if "x" in case.inputs else {})


def choosing(decision: str, name: Callable[[Task], str]) -> Simulation:
    """A decision by a rule; it fits some tasks, too."""
    path = f"decision.{decision}"
    return lambda case: {path: fit(name(case.inputs["task"]), acceptable(case.inputs["task"])[decision])}


def facts(case: Case, observation: Observation) -> Observation:
    """The observation with names and outputs judged; the held-out labels stay here."""
    judged = dict(observation)
    if (names := value(observation, "decision")) is not None:
        sets = acceptable(case.inputs["task"])
        judged["decision"] = {"value": {name: fit(names.get(name), sets[name]) for name in DECISIONS}}
    outputs = value(observation, "model")
    if outputs is not None and "x" in case.inputs:
        words = reached(outputs.get("score"), case.inputs["task"]["target"], case.key["labels"], case.key["limit"])
        judged["model"] = {"value": {"score": words}}
    return judged


@cache
def data_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features, standardised and in whole hundredths, and targets."""
    from sklearn import datasets

    load = {
        "diabetes": datasets.load_diabetes,
        "breast cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    x, y = load[name](return_X_y=True)
    spread = x.std(axis=0)
    standard = np.divide(x - x.mean(axis=0), spread, out=np.zeros_like(x), where=spread > 0).clip(-5, 5)
    return np.rint(100 * standard).astype(np.int16), y


TASKS = {
    "diabetes": {"target": NUMBER, "outliers": False, "rare_class": False, "transformer": False, "length_known": True},
    "breast cancer": {
        "target": TWO,
        "outliers": False,
        "rare_class": False,
        "transformer": False,
        "length_known": True,
    },
    "digits": {"target": MANY, "outliers": False, "rare_class": False, "transformer": False, "length_known": True},
}


def data_case(rng: np.random.Generator, name: str, kind: str = DATA, train: int = 300) -> Case:
    """Rows and columns of a data set in an order of their own."""
    x, y = data_set(name)
    rows, columns = rng.permutation(len(x))[: train + 140], rng.permutation(x.shape[1])
    x, y = x[rows][:, columns], y[rows]
    inputs = {"task": TASKS[name], "x": x[:train], "y": y[:train], "held_out": x[train:]}
    return Case(kind, inputs, {"labels": y[train:], "limit": LIMITS[name]})


def every_task() -> list[Task]:
    tasks: list[Task] = []
    for target, transformer, length_known, special in product((NUMBER, TWO, MANY, SEVERAL), *[(True, False)] * 3):
        kind = {"outliers": special and target == NUMBER, "rare_class": special and target != NUMBER}
        tasks.append({"target": target, **kind, "transformer": transformer, "length_known": length_known})
    return tasks


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has all tasks, and each data set once."""
    tasks = every_task()
    drawn = [Case(TABULAR, {"task": tasks[index]}) for index in rng.permutation(len(tasks))]
    return [*drawn, *(data_case(rng, name) for name in TASKS)]


def domain(rng: np.random.Generator) -> Case:
    """Any task, and in every eighth case any of the data sets, with 200 or 300 rows."""
    if rng.integers(8) == 0:
        return data_case(rng, list(TASKS)[rng.integers(len(TASKS))], "domain", int(rng.choice([200, 300])))
    tasks = every_task()
    return Case("domain", {"task": tasks[rng.integers(len(tasks))]})


def with_key(case: Case) -> Case:
    """A case that the visible check can judge by itself."""
    return replace(case, inputs={**case.inputs, "fits": acceptable(case.inputs["task"]), **(case.key or {})})


def visible(name: str, target: str, **settings: bool) -> Case:
    usual = {"outliers": False, "rare_class": False, "transformer": False, "length_known": True}
    return with_key(Case(name, {"task": {"target": target, **usual, **settings}}))


def visible_cases() -> tuple[Case, ...]:
    return (
        visible("a number", NUMBER),
        visible("a number, with outliers, of a transformer", NUMBER, outliers=True, transformer=True),
        visible("one of two classes, one of them rare, length unknown", TWO, rare_class=True, length_known=False),
        visible("one of many classes", MANY),
        visible("several classes at once, of a transformer", SEVERAL, transformer=True, length_known=False),
        *(with_key(data_case(np.random.default_rng(3), name, f"the data set {name}", 150)) for name in TASKS),
    )


QUESTION = Description(
    id="03c-choose",
    parts=(
        *(Graded(name, 1, (f"decision.{name}",)) for name in DECISIONS),
        Graded("model", 2, ("model.score",), on=(DATA,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "squares-with-outliers",
            "the squared error was chosen although the targets have outliers: a few rows decide the gradient",
            "how the gradient of each loss grows with the error",
            choosing("loss", lambda task: "mse" if task["target"] == NUMBER else acceptable(task)["loss"][0]),
        ),
        Mistake(
            "softmax-for-several",
            "cross-entropy was chosen where several classes can be right at once; it makes them compete",
            "whether the probabilities of the classes must add up to 1",
            choosing("loss", lambda task: "cross_entropy" if task["target"] != NUMBER else "huber"),
        ),
        Mistake(
            "sigmoid-for-many",
            "binary cross-entropy was chosen where exactly one of many classes is right",
            "whether the probabilities of the classes must add up to 1",
            choosing("loss", lambda task: "bce_with_logits" if task["target"] != NUMBER else "huber"),
        ),
        Mistake(
            "accuracy-with-rare-class",
            "accuracy was chosen although a class is rare: always answering the frequent class looks good",
            "the metric of a model that never predicts the rare class",
            choosing("metric", lambda task: "mae" if task["target"] == NUMBER else "accuracy"),
        ),
        Mistake(
            "rmse-with-outliers",
            "the root of the mean square was chosen although the targets have outliers",
            "which rows decide the metric",
            choosing("metric", lambda task: "rmse" if task["target"] == NUMBER else "macro_f1"),
        ),
        Mistake(
            "accuracy-of-numbers",
            "accuracy was chosen for numbers",
            "what it would mean for a predicted number to be right",
            choosing("metric", lambda task: "accuracy" if task["target"] == NUMBER else "macro_f1"),
        ),
        Mistake(
            "sgd-for-transformer",
            "SGD was chosen for a transformer",
            "the row of the transformer in the table",
            choosing("optimizer", lambda task: "sgd_momentum"),
        ),
        Mistake(
            "no-warm-up",
            "a transformer got a schedule without warm-up",
            "the row of the transformer in the table",
            choosing("schedule", lambda task: "cosine" if task["length_known"] else "plateau"),
        ),
        Mistake(
            "end-unknown",
            "a schedule that needs the number of steps was chosen although nobody knows it",
            "which schedules need the length of the run",
            choosing("schedule", lambda task: "warmup_cosine"),
        ),
        Mistake(
            "always-plateau",
            "the length of the run is known, and the schedule does not use it",
            "which schedules reach a small rate exactly at the end",
            choosing("schedule", lambda task: "plateau"),
        ),
        Mistake(
            "not-learned",
            "the model's outputs for new rows are hardly better than a constant",
            "the loss during training, and the scale of the targets: numbers come unscaled",
            lambda case: {"model.score": NOT_REACHED} if "x" in case.inputs else {},
        ),
        Mistake(
            "numbers-not-learned",
            "for numbers the model's outputs are hardly better than a constant; for classes they are",
            "the scale of the targets, which come unscaled: in training, and in what the model returns",
            lambda case: (
                {"model.score": NOT_REACHED} if case.inputs["task"]["target"] == NUMBER and "x" in case.inputs else {}
            ),
        ),
        Mistake(
            "outputs-of-another-shape",
            "what the model returned for new rows has a wrong shape, or is not finite",
            "one number for each row, or one for each row and class: print `model(x).shape`",
            lambda case: {"model.score": WRONG_SHAPE} if "x" in case.inputs else {},
        ),
    ),
    visible=visible_cases,
    draw=draw,
    domain=domain,
    added=8,  # a case can be a comparison of losses
    facts=facts,
    practice=with_key,
)
