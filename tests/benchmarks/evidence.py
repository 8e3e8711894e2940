"""Evidence: how often the leakage and shift reports find what was planted, and how often they cry wolf.

Every case is 600 training and 200 validation images, half of the cases digits (8x8), half images of `shapes` (16x16,
five classes, its usual nuisances). A clean case is a random split with classes, groups that stay on one side and
rising time stamps; it counts as an alarm when either report finds anything. What is planted is in the table.
Intervals are Clopper and Pearson's, 95 %. The last rows time 10,000 images of 28x28 and permute labels before whole
pipelines, one that selects features before its split and one that does so after.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import harness
import numpy as np
from harness import Row, at_most, progress
from scipy.stats import binomtest

from lecture_lib.data import fitted_on_all_data, leakage_report, load_digits, shapes, shift_report

TRAIN, VALIDATION = 600, 200
CLEAN, PLANTED, QUICK = 300, 60, 20
Images = tuple[np.ndarray, np.ndarray]


def drawn(count: int, generator: np.random.Generator) -> Images:
    """Shapes with their usual nuisances, 16x16."""
    found = shapes(count, seed=int(generator.integers(2**31)), size=16)
    return found.images.numpy()[:, 0], found.labels.numpy()


DIGITS = load_digits()


def digits(count: int, generator: np.random.Generator) -> Images:
    """Different digits, in random order."""
    chosen = generator.permutation(len(DIGITS.labels))[:count]
    return DIGITS.images.numpy()[chosen, 0], DIGITS.labels.numpy()[chosen]


@dataclass
class Case:
    """A split with all its columns; plants change it in place."""

    images: list[np.ndarray]
    labels: list[np.ndarray]
    generator: np.random.Generator
    groups: list[np.ndarray] = field(default_factory=lambda: [np.arange(TRAIN) // 4, 1000 + np.arange(VALIDATION) // 4])
    times: list[np.ndarray] = field(default_factory=lambda: [np.arange(TRAIN), TRAIN + np.arange(VALIDATION)])


def clean(source: Callable[[int, np.random.Generator], Images], seed: int) -> Case:
    """A random split."""
    generator = np.random.default_rng(seed)
    images, labels = source(TRAIN + VALIDATION, generator)
    return Case([images[:TRAIN], images[TRAIN:].copy()], [labels[:TRAIN], labels[TRAIN:].copy()], generator)


def mixed(case: Case, images: np.ndarray, labels: np.ndarray) -> None:
    """Split anew, at random."""
    order = case.generator.permutation(len(labels))
    images, labels = images[order], labels[order]
    case.images, case.labels = [images[:TRAIN], images[TRAIN:]], [labels[:TRAIN], labels[TRAIN:]]


def copied(case: Case, count: int, noise: float) -> None:
    """So many training images also in validation."""
    chosen = case.generator.choice(TRAIN, count, replace=False)
    images = case.images[0][chosen]
    case.images[1][:count] = images + noise * case.generator.standard_normal(images.shape).astype(np.float32)


def copied_before_the_split(case: Case) -> None:
    """60 images a second time, with noise, then a random split: a fifth of the pairs or more straddles it."""
    images, labels = np.concatenate(case.images), np.concatenate(case.labels)
    images[-60:] = images[:60] + 0.02 * case.generator.standard_normal(images[:60].shape).astype(np.float32)
    labels[-60:] = labels[:60]
    mixed(case, images, labels)


def shared_group(case: Case) -> None:
    """One patient, four images in validation and four in training."""
    case.groups[1][:4] = case.groups[0][0]


def shuffled_times(case: Case) -> None:
    """A random split of data that have time stamps."""
    stamps = case.generator.permutation(TRAIN + VALIDATION)
    case.times = [stamps[:TRAIN], stamps[TRAIN:]]


def drift(case: Case) -> None:
    """Brightness rises steadily, by 0.1 over all the time."""
    for images, times in zip(case.images, case.times, strict=True):
        images += (0.1 * times / (TRAIN + VALIDATION)).astype(np.float32)[:, None, None]


def darker(case: Case) -> None:
    """Validation at 0.9 of the contrast."""
    case.images[1] *= 0.9


def noisier(case: Case) -> None:
    """Validation with noise of 0.05 more."""
    case.images[1] += 0.05 * case.generator.standard_normal(case.images[1].shape).astype(np.float32)


def other_shares(case: Case) -> None:
    """A fifth of the classes (2 of 10, 1 of 5) three times as frequent in validation."""
    source = digits if case.images[0].shape[1] == 8 else drawn
    images, labels = source(1797, case.generator)
    frequent = labels < (labels.max() + 1) // 4
    weights = np.where(frequent, 3.0, 1.0)
    chosen = case.generator.choice(len(labels), VALIDATION, replace=False, p=weights / weights.sum())
    others = case.generator.permutation(np.setdiff1d(np.arange(len(labels)), chosen))[:TRAIN]
    case.images, case.labels = [images[others], images[chosen]], [labels[others], labels[chosen]]


def other_rule(case: Case) -> None:
    """30 % of validation labels exchanged with those of other classes, so that each class stays as frequent."""
    moved = np.flatnonzero(case.generator.random(VALIDATION) < 0.3)
    moved = moved[np.argsort(case.labels[1][moved], kind="stable")]
    case.labels[1][moved] = np.roll(case.labels[1][moved], len(moved) // 2)


LEAKS: dict[str, tuple[str, Callable[[Case], None]]] = {
    "exact duplicates: 2 of 200 validation images are in training": ("exact duplicates", lambda c: copied(c, 2, 0)),
    "near duplicates: 10 of 200 are training images with noise 0.02": (
        "near duplicates",
        lambda c: copied(c, 10, 0.02),
    ),
    "near duplicates: 60 of 800 copied with noise 0.02 before the split": ("near duplicates", copied_before_the_split),
    "grouped: 1 of 50 patients on both sides": ("shared groups", shared_group),
    "temporal: random split of stamped data": ("time order", shuffled_times),
}
SHIFTS: dict[str, tuple[str, Callable[[Case], None]]] = {
    "temporal: brightness rises by 0.1 over time": ("temporal", drift),
    "covariate: contrast 0.9": ("covariate", darker),
    "covariate: noise 0.05 more": ("covariate", noisier),
    "label: a fifth of the classes 3 times as frequent": ("label", other_shares),
    "concept: 30 % of labels exchanged between classes": ("concept", other_rule),
}


def leaks(case: Case, seed: int) -> set[str]:
    """The kinds of leakage that are reported."""
    report = leakage_report(
        *case.images, groups=tuple(case.groups), times=tuple(case.times), labels=tuple(case.labels), seed=seed
    )
    return {leak.kind for leak in report.leaks}


def measure(quick: bool) -> list[Row]:
    """All rows."""
    rows = large()
    alarms = []
    for seed in range(QUICK if quick else CLEAN):
        case = clean((digits, drawn)[seed % 2], seed)
        found = shift_report(*case.images, labels=tuple(case.labels), times=tuple(case.times), seed=seed)
        alarms.append(bool(leaks(case, seed)) or found.primary is not None)
        if seed % 50 == 49:
            progress(f"{seed + 1} clean cases, {sum(alarms)} alarms")
    share = 100 * float(np.mean(alarms))
    rows.append(at_most(f"alarms on clean cases {interval(alarms)}", share, "%", 1, "at most 1 %"))
    count = QUICK if quick else PLANTED
    for name, (kind, plant) in LEAKS.items():
        progress(name)
        hits = []
        for seed in range(10_000, 10_000 + count):
            case = clean((digits, drawn)[seed % 2], seed)
            plant(case)
            hits.append(kind in leaks(case, seed))
        rows.append(detected(name, hits))
    for name, (kind, plant) in SHIFTS.items():
        progress(name)
        rows += shifts(name, kind, plant, count)
    return rows + null_worlds(count)


def shifts(name: str, kind: str, plant: Callable[[Case], None], count: int) -> list[Row]:
    """How often the kind is found, is the primary one, and another kind is claimed that it explains."""
    explains = {"temporal": {"covariate"}}.get(kind, set())
    hits, primary, others, effects = [], [], [], []
    for seed in range(20_000, 20_000 + count):
        case = clean((digits, drawn)[seed % 2], seed)
        plant(case)
        times = tuple(case.times) if kind == "temporal" else None
        report = shift_report(*case.images, labels=tuple(case.labels), times=times, seed=seed)
        found = {shift.kind for shift in report.shifts if shift.found}
        hits.append(kind in found)
        primary.append(report.primary == kind)
        others.append(bool(found - {kind} - explains))
        effects.append(report[kind].effect)
    return [
        detected(name, hits),
        detected("  named as primary", primary),
        at_most(f"  other kinds claimed {interval(others)}", 100 * float(np.mean(others)), "%", 1, "at most 1 %"),
        Row("  median effect", float(np.median([effect for effect in effects if effect is not None])), kind),
    ]


def detected(name: str, hits: list[bool]) -> Row:
    """A row for a share that should be 98 % or more."""
    share = 100 * float(np.mean(hits))
    return Row(f"{name} {interval(hits)}", share, "%", "at least 98 %", share >= 98)


def interval(hits: list[bool]) -> str:
    """How many of how many, with the 95 % interval of the share."""
    low, high = binomtest(sum(hits), len(hits)).proportion_ci(method="exact")
    return f"[{sum(hits)} of {len(hits)}; {100 * low:.1f} to {100 * high:.1f} %]"


def large() -> list[Row]:
    """Rendering, hashing and searching 10,000 images."""
    progress("10,000 images ...")
    start = time.perf_counter()
    images = shapes(10_000, seed=0).images.numpy()
    leakage_report(images[:8000], images[8000:])
    seconds = time.perf_counter() - start
    unit = 1e9 if sys.platform == "darwin" else 1e6  # bytes there, kilobytes elsewhere
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return [
        at_most("10,000 images of 28x28: rendered, hashed, searched (one thread)", seconds, "s", 20, "under 20 s"),
        at_most("10,000 images of 28x28: peak memory of the process", peak, "GB", 1, "under 1 GB"),
    ]


def null_worlds(count: int) -> list[Row]:
    """80 examples of 500 features that say nothing, two classes; the 20 features that differ most are selected."""
    progress("the null world ...")
    found: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(count):
        generator = np.random.default_rng(seed)
        inputs, labels = generator.standard_normal((80, 500)), np.arange(80) % 2
        for everything in found:
            result = fitted_on_all_data(lambda x, y, all_=everything: selecting(x, y, all_), inputs, labels, seed=seed)
            found[everything].append(result.found)
    share = 100 * float(np.mean(found[False]))
    return [
        detected("selection on all data, 20 of 500 features", found[True]),
        at_most(f"alarms on selection after the split {interval(found[False])}", share, "%", 1, "at most 1 %"),
    ]


def selecting(x: np.ndarray, y: np.ndarray, everything: bool) -> float:
    """Accuracy on the last 40 of a nearest-mean classifier on selected features."""
    train = np.arange(len(y)) < 40
    used = np.ones(len(y), dtype=bool) if everything else train
    difference = x[used & (y == 1)].mean(axis=0) - x[used & (y == 0)].mean(axis=0)
    best = np.argsort(-abs(difference))[:20]
    means = np.stack([x[train & (y == name)][:, best].mean(axis=0) for name in (0, 1)])
    distances = ((x[~train][:, None, best] - means) ** 2).sum(axis=2)
    return float((distances.argmin(axis=1) == y[~train]).mean())


if __name__ == "__main__":
    harness.run(measure)
