"""03b-curves: seven patterns, each found wherever it is and named nowhere else, and the action for each.

The curves keep away from every limit of the stated rules, so that rounding decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lecture_lib.notebook.questions.curves import LABELS, told

from ..cases import Case, Observation, draw_until, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
Curves = tuple[Array, Array]
LABEL, ACTION = "diagnosis.label", "diagnosis.action"
ACTIONS = {
    "diverging": "lower-rate",
    "dead": "overfit-one-batch",
    "oscillating": "lower-rate",
    "under": "larger-model",
    "leak": "check-split",
    "over": "regularise",
    "sweet spot": "error-analysis",
}


class Read(NamedTuple):
    """Two curves and their ends. `wider` moves every limit: 1.1 by a tenth outwards."""

    train: Array
    val: Array
    train_end: float
    val_end: float
    wider: float = 1.0


Rule = Callable[[Read], Any]


def steps_above(read: Read, share: float, steps: Callable[[Array], Array] = np.asarray) -> float:
    """The share of the training steps that are larger than a share of the loss."""
    return float(np.mean(steps(np.diff(read.train)) > share * read.train[:-1]))


def grown(read: Read) -> Any:
    return read.train_end > 2 * read.wider * read.train[0]


def turned_up(read: Read) -> Any:
    return read.val_end > (1 + 0.2 * read.wider) * read.val.min()


def far_apart(read: Read) -> Any:
    return read.val_end > 2 * read.wider * read.train_end


RULES: dict[str, Rule] = {
    "diverging": lambda read: not np.isfinite([read.train, read.val]).all() or grown(read),
    "dead": lambda read: read.train_end >= (1 - 0.02 * read.wider) * read.train[0],
    "oscillating": lambda read: steps_above(read, 0.1 * read.wider) >= 0.25 * read.wider,
    "under": lambda read: read.train_end > 0.5 * read.wider * read.train[0],
    "leak": lambda read: read.val_end <= (1 + 0.02 * read.wider) * read.train_end,
    "over": lambda read: turned_up(read) or far_apart(read),
}


def median_of_five(curve: Array) -> Any:
    return np.median(curve[-5:])


def label_of(case: Case, rules: Mapping[str, Rule] = RULES, end: Any = median_of_five, wider: float = 1.0) -> str:
    """The first rule that holds, in the order of `rules`."""
    train, val = case.inputs["train_loss"], case.inputs["val_loss"]
    with np.errstate(all="ignore"):
        read = Read(train, val, end(train), end(val), wider)
        return next((label for label, holds in rules.items() if holds(read)), "sweet spot")


def fields(label: str, **entries: str) -> dict[str, str]:
    return {f"diagnosis.{name}": text for name, text in {**told(label), **entries}.items()}


def labelled(rules: Mapping[str, Rule] = RULES, end: Any = median_of_five) -> Simulation:
    return lambda case: fields(label_of(case, rules, end))


def with_rules(**rules: Rule) -> Simulation:
    return labelled({**RULES, **rules})


def checked(*curves: str, finite: Callable[[Array], Any] = np.isfinite) -> Simulation:
    """Only some of the curves, or of their values, have to be finite."""
    return with_rules(
        diverging=lambda read: not all(finite(getattr(read, name)).all() for name in curves) or grown(read)
    )


def reference(case: Case) -> Mapping[str, str]:
    label = label_of(case)
    return fields(label, action=ACTIONS[label])


def swapped(case: Case) -> Mapping[str, str]:
    label = label_of(case)
    return {ACTION: {"under": "regularise", "over": "larger-model"}.get(label, ACTIONS[label])}


def facts(case: Case, observation: Observation) -> Observation:
    """An action counts where its label is right; elsewhere it costs nothing more."""
    diagnosis, label = value(observation, "diagnosis"), label_of(case)
    if diagnosis is None or diagnosis.get("label") == label:
        return observation
    return {**observation, "diagnosis": {"value": {**diagnosis, "action": ACTIONS[label]}}}


# Curves in shares of the first training loss. A maker takes a uniform draw and a number of epochs.
Uniform = Callable[..., float]
Maker = Callable[[Uniform, int], Curves]
Range = tuple[float, float]


def falling(epochs: int, end: float, pace: float = 0.05) -> Array:
    """From 1 down to `end`, where it stays for more than half of the epochs."""
    epoch = np.arange(epochs)
    return np.where(epoch >= 0.4 * epochs, end, end + (1 - end) * np.exp(-epoch / (pace * epochs)))


def bent(epochs: int, lowest: float, end: float) -> Array:
    """Falls to its lowest value and goes straight to its end, which it has in the last five epochs."""
    epoch, turn = np.arange(epochs), int(0.4 * epochs)
    way = np.clip((epoch - turn) / (epochs - 5 - turn), 0, 1)
    return falling(epochs, lowest) * (1 - way) + end * way


def waves(epochs: int, size: float, share: float = 0.5) -> Array:
    """Factors of 1 and, in a share of the epochs, of 1 + size; the first epoch, which all is compared with, has 1."""
    factors = np.ones(epochs)
    factors[np.linspace(1, epochs - 2, int(np.ceil(share * (epochs - 1)))).astype(int)] += size
    return factors


def settled(end: Range, ratio: Range) -> Maker:
    """Both curves fall and stay; validation at so many times the end of training."""
    return lambda u, n: (falling(n, low := u(*end)), falling(n, low * u(*ratio)))


def turned(end: Range, ratio: Range, rise: Range) -> Maker:
    """Validation falls and rises again, to so many times its lowest value."""

    def make(u: Uniform, n: int) -> Curves:
        low, times = u(*end), u(*ratio)
        return falling(n, low), bent(n, low * times / u(*rise), low * times)

    return make


def waving(end: Range, size: Range, ratio: float, share: float = 0.5) -> Maker:
    """Training settles and goes up and down."""

    def make(u: Uniform, n: int) -> Curves:
        low = u(*end)
        return falling(n, low, 0.01) * waves(n, u(*size), share), falling(n, low * ratio)

    return make


def hit(make: Maker, curve_names: str, places: Any, factor: Range | float) -> Maker:
    """Some epochs of one curve, or of both, multiplied by a factor."""

    def changed(u: Uniform, n: int) -> Curves:
        train, val = make(u, n)
        times = u(*factor) if isinstance(factor, tuple) else factor
        for name, curve in (("train", train), ("val", val)):
            if name in curve_names:
                curve[places] *= times
        return train, val

    return changed


def plunging(u: Uniform, n: int) -> Curves:
    """A few rises, and five falls by more than a tenth at the end: in another order they would be rises."""
    train = falling(n, u(0.3, 0.4)) * waves(n, 0.4, share=0.2)
    train[-5:] = train[-6] * 0.85 ** np.arange(1, 6)
    return train, falling(n, float(np.median(train[-5:])) * u(*NEAR))


NAN, INF = float("nan"), float("inf")
LOW, NEAR, BIG = (0.1, 0.2), (1.2, 1.4), (0.3, 0.5)
FINE = settled(LOW, NEAR)
# The last of five, their mean, and the medians of four and of six are other values.
LAST = [-6, -2, -1]
KINDS: dict[str, dict[str, Maker]] = {
    "diverging": {
        "nan from an epoch on": hit(FINE, "train val", slice(7, None), NAN),
        "nan first in training": hit(FINE, "train", 0, NAN),
        "nan once in training": hit(FINE, "train", 7, NAN),
        "nan once in validation": hit(FINE, "val", 7, NAN),
        "nan last in validation": hit(FINE, "val", -1, NAN),
        "inf once in training": hit(FINE, "train", 5, INF),
        "inf last in validation": hit(FINE, "val", -1, INF),
        "growth to more than twice the start": hit(
            hit(lambda u, n: (bent(n, 0.9, u(2.3, 2.6)), bent(n, 0.9, u(0.2, 0.4))), "val", 0, (2.5, 3.0)),
            "train", 1, 1.6,
        ),
        "growth in swings": lambda u, n: (np.geomspace(1, 20, n) * waves(n, u(*BIG)), np.geomspace(1.1, u(35, 40), n)),
    },
    "dead": {
        "nothing learned": lambda u, n: (np.ones(n), np.full(n, u(0.99, 1.0))),
        "a fall of a hundredth": settled((0.985, 0.99), (1.08, 1.12)),
        "growth to less than twice the start": lambda u, n: (bent(n, 0.9, u(1.5, 1.7)), np.full(n, u(3.5, 4.0))),
        "learned and lost": lambda u, n: (np.where(np.arange(n) < n - 5, falling(n, 0.3), u(1.02, 1.1)), np.ones(n)),
        "swings without a fall": lambda u, n: (waves(n, u(*BIG)), np.ones(n)),
    },
    "oscillating": {
        "swings at a high loss": waving((0.6, 0.65), BIG, 1.05),
        "swings at a low loss": waving((0.04, 0.06), BIG, 0.8),
        "small swings": waving((0.2, 0.3), (0.13, 0.15), 1.2),
        "swings in three tenths of the steps": waving((0.12, 0.18), BIG, 6.0, share=0.28),
    },
    "under": {
        "settled high": settled((0.57, 0.65), (0.97, 1.0)),
        "settled high, validation begins higher": hit(settled((0.57, 0.65), (1.08, 1.12)), "val", 0, (1.8, 2.2)),
        "a fall of a thirtieth": lambda u, n: (falling(n, u(0.963, 0.97)), np.full(n, u(2.5, 3.0))),
        "settled high after a low": lambda u, n: (bent(n, u(0.42, 0.44), u(0.62, 0.65)), np.ones(n)),
    },
    "leak": {
        "validation better": settled(LOW, (0.55, 0.9)),
        "validation equal": settled(LOW, (0.99, 1.0)),
        "validation a hundredth above": settled(LOW, (1.006, 1.012)),
        "a fall in every epoch, validation better": lambda u, n: (
            fall := 0.86 ** np.minimum(np.arange(n), n - 5), u(0.55, 0.9) * fall
        ),
        "validation better, after a lower value": turned((0.3, 0.4), (0.7, 0.8), (1.6, 2.0)),
    },
    "over": {
        "validation turns up, small gap": turned(LOW, (1.5, 1.7), (1.5, 1.7)),
        "validation turns up by a third": turned(LOW, (1.3, 1.5), (1.28, 1.36)),
        "the same, and low at last": hit(turned(LOW, (1.4, 1.5), (1.28, 1.36)), "val", LAST, 0.8),
        "validation turns up, large gap": turned((0.02, 0.08), (4.0, 6.0), (1.5, 1.8)),
        "validation ends far above its start": turned(LOW, (20.0, 30.0), (5.0, 6.0)),
        "a gap that stays": settled(LOW, (2.3, 2.5)),
        "a large gap that stays": settled((0.02, 0.03), (4.0, 6.0)),
        "one low epoch of validation": hit(FINE, "val", 9, (0.6, 0.75)),
        "one low epoch of validation, near the end": hit(FINE, "val", -2, (0.6, 0.75)),
    },
    "sweet spot": {
        "settled low": FINE,
        "settled below a half": settled((0.38, 0.43), NEAR),
        "validation close": settled(LOW, (1.029, 1.035)),
        "a gap below twice": settled(LOW, (1.6, 1.75)),
        "validation turns up by a tenth": turned(LOW, (1.3, 1.5), (1.08, 1.14)),
        "one bad epoch": hit(FINE, "val", -1, (2.5, 3.5)),
        "a fast fall at the end": plunging,
        "two bad epochs": hit(FINE, "val", [-3, -2], (2.5, 3.5)),
        "training low at last": hit(settled((0.25, 0.3), NEAR), "train", LAST, (0.3, 0.4)),
        "training high at last": hit(settled(LOW, (1.5, 1.7)), "train", [-4, -3], (2.5, 3.0)),
        "an epoch far above the start": hit(FINE, "train val", 2, (12.0, 16.0)),
        "low in the last five epochs only": lambda u, n: (
            np.where(np.arange(n) < n - 5, 0.9, 0.2) ** np.minimum(np.arange(n), 1),
            np.where(np.arange(n) < n - 5, 1.0, u(0.24, 0.28)),
        ),
        "a fall in every epoch": lambda u, n: (fall := 0.86 ** np.minimum(np.arange(n), n - 5), u(*NEAR) * fall),
        "waves below a tenth": waving((0.2, 0.3), (0.05, 0.08), 1.3),
        "waves in a fifth of the steps": waving((0.2, 0.3), BIG, 1.3, share=0.2),
        "waves in validation only": lambda u, n: (falling(n, 0.2), falling(n, 0.26) * waves(n, u(0.12, 0.16))),
    },
}  # fmt: skip


def curves(rng: np.random.Generator, kind: str, make: Maker, epochs: int, unit: float) -> Case:
    """Two curves that tremble by 0.3 % at most; the first epoch stays as it is."""
    noise = 1 + 0.003 * rng.uniform(0.3, 1, (2, epochs)) * (-1.0) ** np.arange(epochs)
    noise[:, 0] = 1.0
    train, val = make(rng.uniform, epochs)
    return Case(kind, {"train_loss": unit * train * noise[0], "val_loss": unit * val * noise[1]})


def is_clear(case: Case, label: str = "") -> bool:
    """Whether the label stays when every limit is moved by a tenth."""
    return {label_of(case, wider=wider) for wider in (0.9, 1.0, 1.1)} == {label or label_of(case)}


def draw(rng: np.random.Generator) -> list[Case]:
    """Every kind twice: few epochs and small losses, many epochs and large ones. Every second kind has extreme ones."""

    def drawn(label: str, kind: str, fewest: int, exponent: float) -> Case:
        make = KINDS[label][kind]
        return draw_until(
            lambda: curves(rng, kind, make, fewest + int(rng.integers(8)), 10 ** (exponent + rng.uniform(-0.3, 0.3))),
            lambda case: is_clear(case, label),
        )

    cases = []
    for label, kinds in KINDS.items():
        for number, kind in enumerate(kinds):
            small, large = ((-3.0, 2.5), (-9.5, 9.0))[number % 2]
            cases += [drawn(label, kind, 18, small), drawn(label, kind, 52, large)]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """The training loss of one kind beside the validation loss of it or another, of 10 to 60 epochs.

    The unit is a usual one, a tiny one or a huge one.
    """
    makers = [make for kinds in KINDS.values() for make in kinds.values()]

    def mixed(u: Uniform, epochs: int) -> Curves:
        make_train, make_val = (makers[index] for index in rng.integers(len(makers), size=2))
        first = make_train(u, epochs)
        return first[0], (make_val(u, epochs) if rng.integers(2) else first)[1]

    def epochs() -> int:
        return [10, 60][rng.integers(2)] if rng.integers(4) == 0 else int(rng.integers(10, 61))

    def unit() -> float:
        return float(10 ** rng.uniform(*((-3.3, 2.8), (-9.0, -8.0), (8.0, 10.0))[rng.integers(3)]))

    return draw_until(lambda: curves(rng, "domain", mixed, epochs(), unit()), is_clear, 1000)


TRAIN = [2.0, 1.2, 0.8, 0.6, 0.5, 0.45, 0.42, 0.41, 0.4, 0.4, 0.4, 0.4]
VAL = [2.0, 1.3, 0.95, 0.75, 0.65, 0.6, 0.57, 0.56, 0.55, 0.55, 0.55, 0.55]
HIGH = [1.0 + loss / 2 for loss in TRAIN]
SWINGS = [2.0, 1.2, 1.7, 0.9, 1.4, 0.8, 1.3, 0.8, 1.3, 0.8, 1.3, 0.8]
GROWN = [2.0, 1.8, 2.0, 3.0, 4.5, 7.0, 10.0, 14.0, 18.0, 22.0, 24.0, 26.0]


def visible(name: str, train: list[float] = TRAIN, val: list[float] = VAL) -> Case:
    return Case(name, {"train_loss": np.array(train), "val_loss": np.array(val)})


QUESTION = Description(
    id="03b-curves",
    parts=(
        *(Graded(label, 1, (f"diagnosis.{label}",)) for label in LABELS),
        # With fewer right labels, a table of actions would be worth a point without a diagnosis.
        Graded("action", 1, (ACTION,), after=5),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "always-fine",
            "every pair of curves was called a sweet spot",
            "the first condition of the list, on the pair of curves that it was made for",
            labelled({}),
        ),
        Mistake(
            "constant-answer",
            "every pair of curves got the same label",
            "what of the two curves your label depends on",
            constant=(LABEL,),
        ),
        Mistake(
            "last-epoch",
            "one bad epoch decided: the curves were not read at the median of their last five values",
            "what the question calls the end of a curve",
            labelled(end=lambda curve: curve[-1]),
            also=(labelled(end=lambda curve: np.mean(curve[-5:])),),
        ),
        Mistake(
            "any-rise",
            "every small rise was counted: a loss that trembles by 2 % does not oscillate",
            "how large a rise has to be before it counts",
            with_rules(oscillating=lambda read: steps_above(read, 0.0) >= 0.25),
        ),
        Mistake(
            "one-rise",
            "a single large rise was taken for an oscillation",
            "in how many of its steps the training loss has to rise",
            with_rules(oscillating=lambda read: steps_above(read, 0.1) > 0),
        ),
        Mistake(
            "falls-counted",
            "large falls were counted beside large rises: a loss that falls fast does not oscillate",
            "the sign of a step of the training loss",
            with_rules(oscillating=lambda read: steps_above(read, 0.1, np.abs) >= 0.25),
        ),
        Mistake(
            "gap-only",
            "only the gap was looked at: a validation loss that turns up was missed because the gap is still small",
            "the end of validation beside its own lowest value",
            with_rules(over=far_apart),
        ),
        Mistake(
            "rise-only",
            "only a validation loss that turns up was looked for: one that settles far above training was missed",
            "the ends of the two curves beside each other",
            with_rules(over=turned_up),
        ),
        Mistake(
            "leak-first",
            "a run that has learned little was called a leak: before there is learning both losses are alike",
            "the order of the conditions: the first one that holds decides",
            labelled({"leak": RULES["leak"], **RULES}),
        ),
        Mistake(
            "better-only",
            "a validation loss that ends equal to the training loss was not called a leak",
            "the factor in the condition for a leak",
            with_rules(leak=lambda read: read.val_end < 0.999 * read.train_end),
        ),
        Mistake(
            "nan-unseen",
            "a value that is not finite went through: every comparison with NaN is false",
            "whether all values of both curves are finite, before anything is compared",
            checked(),
            also=(
                checked("train"),
                checked("val"),
                checked("train", "val", finite=lambda curve: ~np.isnan(curve)),
                checked("train", "val", finite=lambda curve: np.isfinite(curve[-5:])),
            ),
        ),
        Mistake(
            "under-for-over",
            "the actions for under and over are exchanged",
            "which of the two needs more from the training data, and which less",
            swapped,
        ),
    ),
    visible=(
        visible("both fall and settle"),
        visible("the same, with one bad epoch at the end", val=[*VAL[:-1], 1.9]),
        visible("the same, with a bad epoch before the end", val=[*VAL[:-3], 1.9, *VAL[-2:]]),
        visible("the same, with a training loss that trembles by 2 %", [*TRAIN[:4], *[0.41, 0.418] * 4]),
        visible("the same, with one large rise of the training loss", [2.0, 1.2, 0.6, 0.8, *TRAIN[4:]]),
        visible("validation turns up, the gap is still small", val=[*VAL[:7], 0.6, 0.7, 0.75, 0.76, 0.77]),
        visible("validation is 2.5 times training", val=[2.5 * loss for loss in TRAIN]),
        visible("both settle high", HIGH, HIGH),
        visible("validation ends below training", val=[0.7 * loss for loss in TRAIN]),
        visible("validation ends equal to training", val=TRAIN),
        visible("nothing moves, in a large unit", [231.0, 230.0] * 6, [231.0] * 12),
        visible("up and down by a third", SWINGS, [1.1 * loss for loss in SWINGS]),
        visible("up and down, and high at the end", [loss + 0.8 for loss in SWINGS], [loss + 1 for loss in SWINGS]),
        visible("training falls fast at the end", [*TRAIN[:7], 0.46, 0.4, 0.34, 0.29, 0.25]),
        visible("not a number from epoch 6 on", [*TRAIN[:5], *[NAN] * 7], [*VAL[:5], *[NAN] * 7]),
        visible("one nan in the training loss", [*TRAIN[:4], NAN, *TRAIN[5:]]),
        visible("one nan in the validation loss, the last", val=[*VAL[:-1], NAN]),
        visible("one inf in the validation loss", val=[*VAL[:4], INF, *VAL[5:]]),
        visible("ten times the start", GROWN, [1.1 * loss for loss in GROWN]),
    ),
    draw=draw,
    domain=domain,
    facts=facts,
)
