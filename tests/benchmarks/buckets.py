"""Buckets of errors: their shares against planted nuisances, their ranking against retraining with each fix.

Small images of five strokes, rendered here. Each test example draws its nuisances at known rates: blur (hardly any
in training, sideways), a class that is rare in training, an ambiguous label, and a patch in the background that
training ties to the class and this example contradicts. The same examples can be rendered without one nuisance: the
errors of the same model that then vanish are its true share, which the bucket's gain must give within two points of
all errors. The gains must also rank the interventions as retraining does: with blurred examples, with more of the
rare class, with cleaned labels, with patches at random. All are means over three seeds of data and weights.

The rates are such that the foreseen gains lie apart. What no bucket can foresee is what a fix costs elsewhere: where
the patch is right for most test examples, taking it away costs more than it brings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean

import harness
import numpy as np
import torch
import torch.nn.functional as F
from harness import Row, at_most, progress
from torch import Tensor, nn

from lecture_lib.analysis import bucket_errors, collect_outputs
from lecture_lib.data import TensorLoader
from lecture_lib.training import train

SIDE, CLASSES, RARE = 12, 5, 4
# What the test examples draw, and what the training examples draw instead.
RATES = {"blur": 0.15, "rare class": 0.3, "ambiguous label": 0.04, "background shortcut": 0.6}
TRAINED = {"blur": 0.02, "rare class": 0.004, "ambiguous label": 0.04, "background shortcut": 0.01}
# With each fix, training draws this instead.
FIXED = {"blur": 0.3, "rare class": 0.2, "ambiguous label": 0.0, "background shortcut": 0.9}
LIMIT = 2.0  # points


@dataclass(frozen=True)
class Data:
    """Images [N, 144], labels [N], and for each nuisance whether an example has it."""

    images: Tensor
    labels: Tensor
    flags: dict[str, np.ndarray]


def make(examples: int, *, seed: int, rates: Mapping[str, float] = RATES, fixed: Collection[str] = ()) -> Data:
    """Render examples; `fixed` names nuisances that they would have had, and are rendered without."""
    generator = np.random.default_rng(seed)
    flags = {name: generator.random(examples) < rate for name, rate in rates.items()}
    for name in fixed:
        flags[name] = np.zeros(examples, dtype=bool)
    common, shifts = generator.integers(0, RARE, examples), generator.integers(-1, 2, (2, examples, 1, 1))
    shown = np.where(flags["rare class"], RARE, common)
    other, elsewhere = (generator.integers(1, CLASSES, examples) for _ in range(2))
    labels = np.where(flags["ambiguous label"], (shown + other) % CLASSES, shown)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    y, x = y - shifts[0], x - shifts[1]
    strokes = np.stack([abs(y), abs(x), abs(x - y) / 1.4, abs(x + y) / 1.4, abs(np.hypot(x, y) - 3)])
    images = (strokes[shown, np.arange(examples)] < 0.8) & (np.hypot(x, y) < 4.5)
    images = images + generator.normal(0, 0.2, images.shape)
    patch = np.where(flags["background shortcut"], shown + elsewhere, shown) % CLASSES
    images[np.arange(examples), 0, 2 * patch] = 3.0
    pixels = torch.from_numpy(images).float()[:, None]
    blurred = F.avg_pool2d(pixels, (1, 7), stride=1, padding=(0, 3))
    pixels = torch.where(torch.from_numpy(flags["blur"])[:, None, None, None], blurred, pixels)
    return Data(pixels.flatten(1), torch.from_numpy(labels), flags)


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    found = [trial(seed, 1500 if quick else 4000) for seed in range(1 if quick else 3)]
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
        rows.append(Row(f"{name}: gain of retraining with the fix", effects[name], "points"))
    orders = [sorted(RATES, key=lambda name, by=by: -by[name]) for by in (gains, effects)]
    same = sum(a == b for a, b in zip(*orders, strict=True))
    return [*rows, Row("interventions at their true rank", same, "of 4", "all 4", same == len(RATES))]


def trial(seed: int, examples: int) -> dict[str, dict[str, float]]:
    """One model, its buckets, the true shares, and a model for each fix."""
    progress(f"seed {seed}: five trainings ...")
    test = make(examples, seed=2 * seed)
    model = fitted(TRAINED, seed, examples)
    wrong = errors(model, test)
    buckets = bucket_errors(wrong, test.flags)
    gains = {row.name: 100 * row.gain for row in buckets.rows}
    accuracy, known = {"": 1 - wrong.mean()}, {}
    for name in RATES:
        without = make(examples, seed=2 * seed, fixed=[name])
        known[name] = 100 * (wrong.mean() - errors(model, without).mean()) / wrong.mean()
        better = fitted(TRAINED | {name: FIXED[name]}, seed, examples)
        # Labels that were cleaned are clean in the test data too; the other fixes change nothing there.
        accuracy[name] = 1 - errors(better, without if name == "ambiguous label" else test).mean()
    share = {name: gain / wrong.mean() for name, gain in gains.items()}
    return {"accuracy": accuracy, "known": known, "share": share, "gain": gains}


def fitted(rates: Mapping[str, float], seed: int, examples: int) -> nn.Module:
    """A model trained on examples with these rates."""
    torch.manual_seed(seed)
    data, held = make(examples, seed=2 * seed + 1, rates=rates), make(500, seed=10_000 + seed, rates=rates)
    model = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loader = TensorLoader(data.images, data.labels, batch_size=64, shuffle=True, seed=seed)
    validation = TensorLoader(held.images, held.labels, batch_size=500)
    train(model, loader, validation, optimizer, F.cross_entropy, epochs=12)
    return model


def errors(model: nn.Module, data: Data) -> np.ndarray:
    """Whether each example is wrong."""
    outputs, labels = collect_outputs(model, TensorLoader(data.images, data.labels, batch_size=500))
    return (outputs.argmax(dim=1) != labels).numpy()


if __name__ == "__main__":
    harness.run(measure)
