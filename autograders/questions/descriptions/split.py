"""03b-split: no leak for what the model is meant for, every record once, the size and the class balance asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.split import CLASSES, COLUMNS, KINDS, ONCE, ORDER, SIZE, TOLERANCE, facts, shared

from ..cases import Case, Observation
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Table = dict[str, Any]
SYLLABLES = ("ba", "do", "ke", "li", "mu", "ra", "so", "ti")
# Groups, and a fraction of them that must not be rounded down; a cut of the sorted records falls into a group. No fixed
# fraction is within the tolerance of both, and no 1 / k is near the second. Rounding up is right, as the question says:
# scikit-learn does.
SIZES = ((13, 3.75 / 13), (12, 4.7 / 12))
ROWS = 30  # of a group


def numbers(rng: np.random.Generator, count: int) -> np.ndarray:
    """The number of the group of each record; numbers have gaps and no order."""
    return np.repeat(100 + rng.choice(900, count, replace=False), ROWS)


def uneven_days(rng: np.random.Generator, count: int) -> np.ndarray:
    """Different days, dense at first and sparse later: a share of the days is not that share of the records."""
    return rng.permutation(np.arange(count) ** 2 // 10 + np.arange(count) - 500)


def words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Texts that begin alike, with so many copies."""
    texts = ["".join(rng.choice(SYLLABLES, 2)) + f" {number}" for number in rng.permutation(count)]
    return np.repeat(np.array(texts), ROWS)


COLUMN: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "video": numbers,
    "user": numbers,
    "text": words,
    "day": lambda rng, count: uneven_days(rng, count * ROWS),
    "document": lambda rng, count: rng.permutation(count * ROWS),
}


def patients(rng: np.random.Generator, count: int) -> Table:
    """Patients of five classes, some with negative labels, numbered class by class, three images each."""
    counts = rng.permutation(count * np.array([1, 1, 1, 1, 2]))
    numbered = np.sort(100 + rng.choice(900, counts.sum(), replace=False))
    columns = {"video": rng.permutation(3 * len(numbered)) // 6, "day": uneven_days(rng, 3 * len(numbered))}
    classes = np.repeat(rng.permutation([-1, *rng.choice([-3, -2, *range(7)], 4, replace=False)]), counts)
    return {**columns, "patient": np.repeat(numbered, 3), "label": np.repeat(classes, 3)}


def table(rng: np.random.Generator, kind: str, count: int) -> Table:
    """The column that matters among others that do not, rows and columns in no order."""
    if kind == "new patients":
        made = patients(rng, count)
    else:
        made = {name: rng.permutation(column(rng, count)) for name, column in COLUMN.items()}
        made["label"] = rng.integers(0, 2, count * ROWS)
    rows = rng.permutation(len(made["label"]))
    shuffled = {str(name): made[name][rows] for name in rng.permutation(list(made))}
    return {name: column.tolist() if column.dtype.kind == "U" else column for name, column in shuffled.items()}


def case(rng: np.random.Generator, kind: str, count: int, fraction: float) -> Case:
    return Case(kind, {"table": table(rng, kind, count), "deployed_on": kind, "val_fraction": float(fraction)})


def draw(rng: np.random.Generator) -> list[Case]:
    """Tables of each kind for a small and a large fraction; of patients two each, as luck may balance one."""
    cases = [case(rng, kind, *size) for kind in (*KINDS, KINDS[0]) for size in SIZES]
    return [cases[index] for index in rng.permutation(len(cases))]


def from_day_0(rng: np.random.Generator) -> Case:
    """Few records of days from 0 on, in a dtype without negative numbers: -day is no day before."""
    days = np.append(0, np.sort(rng.choice(np.arange(1, 256), 119, replace=False))).astype(np.uint8)
    columns = {"user": np.arange(120) // 10, "label": rng.integers(0, 2, 120), "day": rng.permutation(days)}
    fraction = float(rng.uniform(0.2, 0.4))
    return Case("days from 0 on", {"table": columns, "deployed_on": "later days", "val_fraction": fraction})


def domain(rng: np.random.Generator) -> Case:
    """Twelve, thirteen or forty groups; some numbered from 0, some named, some tables with no other columns."""
    if rng.integers(7) == 0:
        return from_day_0(rng)
    kind = str(rng.choice(KINDS))
    drawn = case(rng, kind, *(*SIZES, *SIZES, (40, 0.2), (30, 0.4))[rng.integers(6)])
    table, column = dict(drawn.inputs["table"]), COLUMNS[kind]
    if rng.integers(6) == 0:
        table = {name: table[name] for name in table if name in (column, "label")}
    if rng.integers(4) == 0 and kind != "new texts":
        table[column] = table[column] - table[column].min()
    elif rng.integers(2) and kind in ("new patients", "new videos", "new users"):
        table[column] = [f"{column} {number}" for number in table[column]]
    return Case(kind, {**drawn.inputs, "table": table})


def seen(case: Case, observation: Observation) -> Observation:
    """The facts of the row numbers that were observed; those that the student's process computed are not read."""
    rows = observation["split"]
    return {"facts": {"value": facts(rows["value"], case.inputs)} if "value" in rows else rows}


def reference(case: Case) -> dict[str, str]:
    new = {shared(case.inputs["deployed_on"]): "after" if case.inputs["deployed_on"] == "later days" else "no"}
    balance = {CLASSES: "yes"} if case.inputs["deployed_on"] == "new patients" else {}
    return {f"facts.{name}": word for name, word in {ONCE: "yes", SIZE: "right", **new, **balance}.items()}


def says(fact: str, word: str, *kinds: str) -> Simulation:
    """A fact that is otherwise, on these kinds of tables or on all that have it."""

    def simulate(case: Case) -> dict[str, str]:
        kind = case.inputs["deployed_on"]
        return {f"facts.{fact}": word} if kind in (kinds or KINDS) and f"facts.{fact}" in reference(case) else {}

    return simulate


def mixed(*kinds: str) -> Simulation:
    """What is to be new is in both parts."""

    def simulate(case: Case) -> dict[str, str]:
        kind = case.inputs["deployed_on"]
        return {f"facts.{shared(kind)}": "in between" if kind == "later days" else "yes"} if kind in kinds else {}

    return simulate


def always(fraction: float) -> Simulation:
    def simulate(case: Case) -> dict[str, str]:
        gap = fraction - case.inputs["val_fraction"]
        return {f"facts.{SIZE}": "right" if abs(gap) <= TOLERANCE else "too large" if gap > 0 else "too small"}

    return simulate


def of(kind: str) -> tuple[str, ...]:
    return tuple(f"facts.{name}" for name in (ONCE, SIZE, shared(kind)))


def visible(kind: str, name: str, val_fraction: float, **columns: Any) -> Case:
    return Case(name, {"table": columns, "deployed_on": kind, "val_fraction": val_fraction})


# Rows of a group stand apart, and days are out of order: neither a slice nor every tenth row is a split.
ROW = np.arange(120)
MIXED = (ROW * 43) % 120
VERBS = ("falls", "stops", "comes", "goes", "turns", "stays")
TEXTS = [f"{subject} {verb}" for subject in ("rain", "snow", "wind", "sun") for verb in VERBS]

QUESTION = Description(
    id="03b-split",
    parts=(
        Graded("new patients", 1, of("new patients"), on=("new patients",)),
        Graded("class balance", 1, (f"facts.{CLASSES}",), on=("new patients",), needs="new patients"),
        Graded("new videos", 1, of("new videos"), on=("new videos",)),
        Graded("later days", 2, of("later days"), on=("later days",)),
        Graded("new users", 1, of("new users"), on=("new users",)),
        Graded("new texts", 2, of("new texts"), on=("new texts",)),
    ),
    reference=reference,
    facts=seen,
    mistakes=(
        Mistake(
            "records-lost",
            "some records are in no part, or in both",
            "whether the two parts together hold every row number once",
            says(ONCE, "no"),
            also=tuple(says(ONCE, "no", kind) for kind in KINDS),
        ),
        Mistake(
            "exchanged",
            "validation holds the larger part",
            "the order in which the two parts are returned",
            says(SIZE, "too large"),
        ),
        Mistake(
            "cut-by-date",
            "the days were cut at a date, but the records are not spread evenly over the days",
            "how many records lie after the cut",
            says(SIZE, "too small", "later days"),
            also=(says(SIZE, "too large", "later days"),),
        ),
        Mistake(
            "fixed-fraction",
            "the size of validation is not the one that was asked for",
            "whether `val_fraction` is used",
            always(0.2),
            hidden_only=True,
            also=tuple(map(always, (0.1, 0.25, 0.3, 0.4, 0.5))),
        ),
        Mistake(
            "random-rows",
            "rows were split as if they were independent: what belongs together is in both parts",
            "which rows of the table belong together, and what the model will meet later",
            mixed(*KINDS),
            also=(mixed(*(kind for kind in KINDS if kind != "later days")), *(mixed(kind) for kind in KINDS[:4])),
        ),
        Mistake(
            "by-number",
            "the number of a document was taken for the document: copies of one text have different numbers",
            "which column tells that two documents are the same",
            mixed("new texts"),
        ),
        Mistake(
            "time-reversed",
            "the model is trained on the future and validated on the past",
            "on which side of the cut the largest day lies",
            says(ORDER, "before"),
        ),
        Mistake(
            "unbalanced",
            "no patient is in both parts, but a class is over- or under-represented in validation",
            "the share of each class that went to validation",
            says(CLASSES, "no"),
        ),
    ),
    visible=(
        visible(
            "new patients", "40 patients, 3 images each, classes of 20, 10 and 10 patients", 0.39,
            patient=MIXED // 3, day=MIXED[::-1].copy(), label=MIXED // 30 // 2 + MIXED // 90,
        ),
        visible("new videos", "20 videos of 6 frames", 0.3, video=ROW // 6, frame=ROW % 6, label=ROW % 2),
        visible("later days", "120 days of 30 users, not in order", 0.4, user=ROW % 30, day=MIXED**2, label=ROW % 2),
        visible("new users", "the same table for new users", 0.3, user=ROW % 30, day=MIXED**2, label=ROW % 2),
        visible(
            "new texts", "120 documents, 24 different texts", 0.3,
            document=ROW, text=[TEXTS[row % 24] for row in MIXED], label=ROW % 2,
        ),
    ),
    draw=draw,
    domain=domain,
)  # fmt: skip
