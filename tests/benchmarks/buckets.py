"""Buckets of errors: their shares against planted nuisances, their ranking against the effect of each fix.

Each test image of `shapes` has one nuisance or none. The same images are drawn again without one nuisance: the errors
of the same model that then vanish are its true share, which the bucket's gain must give within two points of all
errors. The gains must also rank the interventions as trying them does: training with blurred examples, with more of
the rare class, with labels that were cleaned, with backgrounds that contradict the label; and, for what is a matter
of the threshold, one chosen on validation images. All are means over seeds of data and weights.

The rates are such that the foreseen gains lie apart. No bucket can foresee what a fix costs elsewhere.
"""

from __future__ import annotations

from statistics import fmean

import harness
import numpy as np
import torch
import torch.nn.functional as F
from harness import Row, at_most, progress
from torch import nn

from lecture_lib.analysis import bucket_errors, collect_outputs
from lecture_lib.data import Shapes, TensorLoader, shapes
from lecture_lib.data._shape_drawing import CLASSES, NUISANCES
from lecture_lib.training import train

# What the test images draw, and what the training images draw instead.
RATES = {
    "blur": 0.06,
    "rare class": 0.06,
    "ambiguous label": 0.03,
    "background shortcut": 0.3,
    "threshold": 0.18,
}
TRAINED = {
    "blur": 0.01,
    "rare class": 0.004,
    "ambiguous label": 0.05,
    "background shortcut": 0.005,
    "threshold": 0.0,
}
# With each fix of the data, training draws this instead.
FIXED = {"blur": 0.2, "rare class": 0.1, "background shortcut": 0.5}
LIMIT = 2.0  # points


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    found = [trial(seed, 1500 if quick else 6000, 4 if quick else 8) for seed in range(1 if quick else 5)]
    rows = [Row("accuracy before any fix", 100 * fmean(one["accuracy"][""] for one in found), "%")]
    means = {kind: {name: fmean(one[kind][name] for one in found) for name in RATES} for kind in ("known", "share")}
    for name in RATES:
        known, share = means["known"][name], means["share"][name]
        rows.append(Row(f"{name}: true share of the errors", known, "%"))
        off = abs(share - known)
        rows.append(at_most(f"{name}: share from its bucket, off by", off, "points", LIMIT, "within two points"))
    effects = {name: fmean(100 * (one["accuracy"][name] - one["accuracy"][""]) for one in found) for name in RATES}
    gains = {name: fmean(one["gain"][name] for one in found) for name in RATES}
    for name in sorted(RATES, key=lambda name: -gains[name]):
        rows.append(Row(f"{name}: gain foreseen", gains[name], "points"))
        rows.append(Row(f"{name}: gain of the fix", effects[name], "points"))
    orders = [sorted(RATES, key=lambda name, by=by: -by[name]) for by in (gains, effects)]
    same = sum(a == b for a, b in zip(*orders, strict=True))
    return [*rows, Row("interventions at their true rank", same, "of 5", "all 5", same == len(RATES))]


def trial(seed: int, examples: int, epochs: int) -> dict[str, dict[str, float]]:
    """One model, its buckets, the true shares, and the effect of each fix."""
    progress(f"seed {seed}: five trainings ...")
    test = shapes(6000, seed=3 * seed, rates=RATES)
    training = shapes(examples, seed=3 * seed + 1, rates=TRAINED)
    model = fitted(training, seed, epochs)
    wrong = errors(model, test)
    buckets = bucket_errors(wrong, {name: flag.numpy() for name, flag in test.flags.items()})
    gains = {row.name: 100 * row.gain for row in buckets.rows}
    accuracy, known = {"": 1 - wrong.mean()}, {}
    for name in NUISANCES:
        freed = errors(model, shapes(6000, seed=3 * seed, rates=RATES, without=name))
        known[name] = 100 * (wrong.mean() - freed.mean()) / wrong.mean()
        if name in FIXED:
            better = shapes(examples, seed=3 * seed + 1, rates=TRAINED | {name: FIXED[name]})
            accuracy[name] = 1 - errors(fitted(better, seed, epochs), test).mean()
    # Clean labels are clean in the test data too: whatever nobody could tell is looked at again, and drawn as it is.
    careful = shapes(examples, seed=3 * seed + 1, rates=TRAINED, without="ambiguous label")
    cleaned = shapes(6000, seed=3 * seed, rates=RATES, without="ambiguous label")
    accuracy["ambiguous label"] = 1 - errors(fitted(careful, seed, epochs), cleaned).mean()
    accuracy["threshold"] = 1 - errors(model, test, offset=threshold(model, seed)).mean()
    share = {name: gain / wrong.mean() for name, gain in gains.items()}
    return {"accuracy": accuracy, "known": known, "share": share, "gain": gains}


def fitted(data: Shapes, seed: int, epochs: int) -> nn.Module:
    """A model trained on these images."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        *(nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(12, 24, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(24 * 49, len(CLASSES))),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loader = TensorLoader(data.images, data.labels, batch_size=64, shuffle=True, seed=seed)
    validation = TensorLoader(data.images[:500], data.labels[:500], batch_size=500)
    train(model, loader, validation, optimizer, F.cross_entropy, epochs=epochs)
    return model


def threshold(model: nn.Module, seed: int) -> float:
    """What to add to the score of the circle, chosen on validation images as they will be met."""
    validation = shapes(3000, seed=3 * seed + 2, rates=RATES)
    candidates = np.linspace(0, 15, 61)
    return min(candidates, key=lambda offset: errors(model, validation, offset=offset).mean())


def errors(model: nn.Module, data: Shapes, offset: float = 0.0) -> np.ndarray:
    """Whether each example is wrong."""
    outputs, targets = collect_outputs(model, TensorLoader(data.images, data.labels, batch_size=500))
    outputs[:, 1] += offset
    return (outputs.argmax(dim=1) != targets).numpy()


if __name__ == "__main__":
    harness.run(measure)
