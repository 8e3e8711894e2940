"""Ablations: how often a change without effect is called useful or worse.

Each comparison trains digits (an MLP 64-16-10, 300 images, 4 epochs of SGD with momentum) with several seeds for the
base and for one change. The changed setting, a salt, only goes into the random streams: weights and order are drawn
anew, so that the metrics differ and their distribution does not. No two comparisons share a run. Judged are validation
loss and accuracy, the latter in steps of 1/600; the rate must be the stated one, 5 %, within its 95 % Clopper-Pearson
interval or below. A rate ten times lower is there as a check that effects are found.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import harness
import torch
import torch.nn.functional as F
from harness import Row, progress
from torch import Tensor, nn

from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.experiments import ablate
from lecture_lib.training import evaluate, train

LEVEL = 0.05


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    comparisons = 20 if quick else 300
    rows: list[Row] = []
    for seeds in (3, 5):
        progress(f"{comparisons} comparisons with {seeds} seeds ...")
        wrong = {"loss": 0, "accuracy": 0}
        for number in range(comparisons):
            trained = cache(partial(_trained, seed_of=1000 * number))
            for metric in wrong:
                found = ablate(
                    lambda config, seed, of=trained, name=metric: of(config["salt"], seed)[name],
                    {"salt": 0},
                    {"another salt": {"salt": 1}},
                    range(seeds),
                    level=LEVEL,
                    higher_is_better=metric == "accuracy",
                )
                wrong[metric] += found.effects[0].verdict != "noise"
        for metric, count in wrong.items():
            rows += rate_rows(f"{seeds} seeds, {metric}", count, comparisons)
    for seeds in (3, 5):
        found = ablate(
            train_digits, {"rate": 0.1, "salt": 0}, {"x": {"rate": 0.01}}, range(seeds), higher_is_better=False
        )
        effect = found.effects[0]
        rows.append(Row(f"{seeds} seeds: a rate ten times lower, gain in loss", effect.gain, "nats"))
        rows.append(Row(f"{seeds} seeds: the smallest gain that gets a verdict", effect.needed, "nats"))
    return rows


def rate_rows(what: str, wrong: int, comparisons: int) -> list[Row]:
    """The false-positive rate with its interval; it holds when the stated rate is not below the interval."""
    from scipy.stats import binomtest

    low, high = binomtest(wrong, comparisons).proportion_ci(0.95)
    rate = Row(
        f"false positives: {what}, {comparisons} comparisons",
        100 * wrong / comparisons,
        "%",
        f"at most {LEVEL:.0%}, within its interval",
        bool(low <= LEVEL),
    )
    return [rate, Row("  its interval, lower end", 100 * low, "%"), Row("  its interval, upper end", 100 * high, "%")]


def _trained(salt: int, seed: int, seed_of: int) -> dict[str, float]:
    loss, accuracy = _train(0.1, salt, seed + seed_of)
    return {"loss": loss, "accuracy": accuracy}


def train_digits(config: dict[str, Any], seed: int) -> tuple[float, float]:
    """Validation loss and, as the cost, 1."""
    return _train(config["rate"], config["salt"], seed)[0], 1.0


@cache
def _data() -> tuple[Tensor, Tensor]:
    digits = load_digits()
    return digits.images.flatten(1), digits.labels


def _train(rate: float, salt: int, seed: int) -> tuple[float, float]:
    drawn = 2 * seed + salt  # other streams for each pair of seed and salt
    torch.manual_seed(drawn)
    x, y = _data()
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    loader = TensorLoader(x[:300], y[:300], batch_size=32, shuffle=True, seed=drawn)
    validation = TensorLoader(x[-600:], y[-600:], batch_size=600)
    train(model, loader, validation, optimizer, F.cross_entropy, epochs=4)
    found = evaluate(model, validation, F.cross_entropy)
    return found.loss, found.metric


if __name__ == "__main__":
    harness.run(measure)
