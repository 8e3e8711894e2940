"""03a-recipe: facts about runs and their records, which hold for any recipe. The held-out points stay here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lecture_lib.experiments import content_id
from lecture_lib.notebook.questions.recipe import NO_ROW, OTHER_ROW, record_facts, training_facts

from ..cases import Case, Observation, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

FEATURES, HELD_OUT = 8, 400
DROPOUT = 0.3
"""Of the network's hidden units: validation in train mode gives another loss, and there is little else to see of it."""
VALIDATION = 259
"""Rows of which three are left by batches of 32, 64, 128 and 256: a mean of batch means is no mean."""
REPEATS = (
    "same seed, same weights",
    "other seed, other first weights",
    "other seed, other order",
    "other seed, other weights",
)
SETTINGS = (
    "only training rows",
    "as many epochs as config says",
    "batches of batch_size",
    "gradients of one step only",
    "highest rate is learning_rate",
    "a new order in each epoch",
    "no row twice in an epoch",
)
TRUE_METRICS = ("the weights have the lowest recorded val_loss", "the weights have the val_metric of that row")
EPOCHS_COMPARED = ("a new order in each epoch",)


def reference(case: Case) -> Mapping[str, Any]:
    inputs = case.inputs
    true = {f"training.{fact}": True for fact in ("right on new points", *SETTINGS, *REPEATS, *TRUE_METRICS)}
    return true | {
        "record.seed": inputs["config"]["seed"],
        "record.data_id": content_id(inputs["x"], inputs["y"]),
        "record.split_id": content_id(*inputs["split"]),
        "record.precision": "fp32",
        "record.status": "finished",
        "record.rows of metrics": inputs["config"]["epochs"],
        **{f"record.{fact}": True for fact in ("config", "code", "hardware", "rows that differ")},
    }


def facts(case: Case, observation: Observation) -> Observation:
    judged = dict(observation)
    for part, find in (
        ("training", lambda fields: training_facts(fields, case.inputs, case.key)),
        ("record", lambda fields: record_facts(fields, case.inputs)),
    ):
        if (fields := value(observation, part)) is not None:
            judged[part] = {"value": find(fields)}
    return judged


def points(rng: np.random.Generator, centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return (centres[labels] + rng.normal(size=(len(labels), FEATURES))).astype(np.float32)


def problem(rng: np.random.Generator, kind: str, rate: float, epochs: int, batch: int, batches: int, last: int) -> Case:
    """Clusters with a fifth of wrong labels, which are harmful to learn by heart, so that the last weights are worse.

    Args:
        rng: where the numbers come from.
        kind: the case's name.
        rate: learning_rate of the settings.
        epochs: of the settings.
        batch: batch_size of the settings.
        batches: full batches of training rows in an epoch.
        last: rows in its last batch, which is smaller; 0 for none.

    """
    classes = int(rng.integers(6, 8))
    centres = 6.0 * np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0][:classes]
    training = batch * batches + last
    count = training + VALIDATION + 5  # some rows are in neither part
    truth = rng.permutation(np.arange(count) % classes)
    wrong = np.isin(np.arange(count), rng.permutation(count)[::5])
    config = {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "seed": int(rng.integers(1000, 10**6))}
    rows = rng.permutation(count)
    inputs = {
        "x": points(rng, centres, truth),
        "y": np.where(wrong, (truth + rng.integers(1, classes, count)) % classes, truth),
        "split": [rows[:training], rows[training : training + VALIDATION]],
        "classes": classes,
        "dropout": DROPOUT,
        "config": config,
    }
    new = rng.permutation(np.arange(HELD_OUT) % classes)
    return Case(kind, inputs, (points(rng, centres, new), new))


def draw(rng: np.random.Generator) -> list[Case]:
    """At the low rate the best epoch is not the first, at the high one not the last; one run has a single epoch."""
    batches = rng.permutation([9, 11, 13])
    low, high = float(rng.uniform(0.012, 0.016)), float(rng.uniform(0.06, 0.08))
    return [
        problem(rng, "low rate", low, int(rng.integers(11, 14)), int(batches[0]), 6, int(rng.integers(1, 5))),
        problem(rng, "high rate", high, int(rng.integers(19, 22)), int(batches[1]), 6, 0),
        problem(rng, "one epoch", high, 1, int(batches[2]), 40, 0),
    ]


def domain(rng: np.random.Generator) -> Case:
    rate, epochs = 10 ** rng.uniform(-1.8, -1.2), int(rng.integers(6, 10))
    batch = int(rng.integers(8, 14))
    return problem(rng, "domain", rate, epochs, batch, int(rng.integers(5, 7)), int(rng.integers(4)))


def visible(kind: str, rate: float, seed: int, *sizes: int) -> Case:
    """Points on a grid, so that the file that ships them stays small; the held-out ones ship too."""
    case = problem(np.random.default_rng(seed), kind, rate, *sizes)
    new, labels = case.key
    on_grid = {"x": np.round(4 * case.inputs["x"]) / 4, "held_out": [np.round(4 * new[:60]) / 4, labels[:60]]}
    return replace(case, inputs={**case.inputs, **on_grid, "config": {**case.inputs["config"], "seed": seed}})


def never(*facts_of_run: str) -> Simulation:
    """The mistake that makes some facts of the runs false; a single epoch cannot show those of EPOCHS_COMPARED."""
    return lambda case: {
        f"training.{fact}": fact in EPOCHS_COMPARED and case.inputs["config"]["epochs"] == 1 for fact in facts_of_run
    }


def lacks(entry: str, wrong_value: Any) -> Simulation:
    """The mistake that makes one entry of the record another."""
    return lambda case: {f"record.{entry}": wrong_value}


QUESTION = Description(
    id="03a-recipe",
    parts=(
        Graded("held-out accuracy", 1, ("training.right on new points",), on=("low rate", "high rate")),
        Graded("settings", 1, tuple(f"training.{fact}" for fact in SETTINGS)),
        Graded(
            "same seed",
            1,
            tuple(f"training.{fact}" for fact in REPEATS),
            forgives=("not-shuffled",),
            needs="held-out accuracy",
        ),
        Graded("config, seed and data", 1, ("record.config", "record.seed", "record.data_id", "record.split_id")),
        Graded(
            "code and environment",
            1,
            ("record.code", "record.hardware", "record.precision", "record.status"),
            needs="held-out accuracy",
        ),
        Graded(
            "metrics",
            1,
            ("record.rows of metrics", "record.rows that differ", *(f"training.{fact}" for fact in TRUE_METRICS)),
        ),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "untrained",
            "the weights do no better than chance: they are not the trained ones",
            "which of your objects holds the weights when training has ended",
            never("right on new points"),
        ),
        Mistake(
            "trained-on-validation",
            "the model was trained on points that are not training rows of `x`",
            "which rows the training loader holds",
            never("only training rows"),
        ),
        Mistake(
            "batch-size-ignored",
            'most optimizer steps did not learn from config["batch_size"] rows',
            "how many rows one step learns from, and where that number comes from",
            never("batches of batch_size"),
        ),
        Mistake(
            "gradients-left",
            "a step still had the gradients of the steps before it",
            "where in the loop the gradients are cleared",
            never("gradients of one step only"),
        ),
        Mistake(
            "rate-ignored",
            'the highest learning rate of the run was not config["learning_rate"]',
            "which rate the optimizer was given",
            never("highest rate is learning_rate"),
        ),
        Mistake(
            "other-epochs",
            'the run did not go through the training rows as often as config["epochs"] says',
            "how many epochs are trained, and how many rows each of them takes",
            never("as many epochs as config says"),
        ),
        Mistake(
            "not-shuffled",
            "two epochs took the training rows in the same order",
            "who shuffles the rows, and whether its random stream starts again in each epoch",
            never("a new order in each epoch"),
        ),
        Mistake(
            "with-replacement",
            "an epoch took a training row twice, so it left out others",
            "whether rows are drawn one by one, or put into a new order",
            never("no row twice in an epoch"),
        ),
        Mistake(
            "unseeded",
            "two runs with the same seed gave different weights",
            "everything in the run that draws at random, the first weights included",
            never("same seed, same weights"),
        ),
        Mistake(
            "seed-ignored",
            "another seed gave the same first weights, or the same order of the rows",
            "whether the seed that the settings name is the one that is used",
            never("other seed, other first weights"),
            also=(never("other seed, other order"),),
        ),
        Mistake(
            "config-missing",
            "the record does not hold the settings that the run used",
            "what the record was started with",
            lacks("config", False),
        ),
        Mistake(
            "seed-missing",
            "the record does not say the seed",
            "the arguments of the record besides config",
            lacks("seed", None),
        ),
        Mistake(
            "data-id-missing",
            "the record does not say on which data the run was made",
            "what names data by their content",
            lacks("data_id", None),
        ),
        Mistake(
            "data-id-of-a-part",
            "the record's data_id names only a part of the data: others with the same part look like them",
            "which tensors the run was given",
            lambda case: {"record.data_id": content_id(case.inputs["x"])},
            also=(
                lambda case: {"record.data_id": content_id(*(case.inputs[n][case.inputs["split"][0]] for n in "xy"))},
            ),
        ),
        Mistake(
            "split-id-of-a-part",
            "the record's split_id names the training rows only",
            "both parts of the split",
            lambda case: {"record.split_id": content_id(case.inputs["split"][0])},
        ),
        Mistake(
            "environment-missing",
            "the record does not say with which versions of Python and torch the run was made",
            "the entry `hardware` of a record",
            lacks("hardware", False),
        ),
        Mistake(
            "code-missing",
            "the record does not say by which code the run was made, not even that this is unknown",
            "the entry `code` of a record",
            lacks("code", False),
        ),
        Mistake(
            "unfinished",
            "the record still says 'running': it reads like the record of a run that was killed",
            "how a record learns that its run has ended",
            lacks("status", "running"),
        ),
        Mistake(
            "metrics-missing",
            "the record has no row with val_loss and val_metric",
            "who tells the record about an epoch when it ends",
            lacks("rows of metrics", 0),
        ),
        Mistake(
            "metrics-once",
            "the record has one row of metrics: the end of the run without the way to it",
            "how often the record is told, once or once an epoch",
            lacks("rows of metrics", 1),
        ),
        Mistake(
            "last-not-best",
            "the weights that were returned are not those of the lowest validation loss in the record",
            "what the history keeps besides its rows",
            lambda case: {f"training.{TRUE_METRICS[0]}": case.inputs["config"]["epochs"] == 1 or OTHER_ROW},
        ),
        Mistake(
            "loss-untrue",
            "the lowest val_loss is not the mean cross-entropy of the validation rows with the returned weights",
            "how the losses of unequal batches are averaged, with which weights, and in which mode of the network",
            lambda case: {f"training.{TRUE_METRICS[0]}": NO_ROW},
        ),
        Mistake(
            "metric-untrue",
            "the val_metric in the best row is not the share of validation rows that the returned weights get right",
            "on which rows, and with which weights, the metric is computed",
            never("the weights have the val_metric of that row"),
        ),
    ),
    visible=(
        visible("a low rate, the last batch smaller", 0.01, 1, 12, 10, 6, 3),
        visible("a high rate, equal batches", 0.07, 2, 20, 12, 5, 0),
    ),
    draw=draw,
    domain=domain,
    added=0,  # a case is a whole training
    facts=facts,
    practice=lambda case: replace(case, inputs={**case.inputs, "held_out": list(case.key)}),
)
