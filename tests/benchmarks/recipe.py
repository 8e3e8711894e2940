"""The recipe: what a step costs above a loop written by hand, beside the well-known trainers.

A digits MLP (64-32-10), batch 64, SGD, clipping and a progress bar on, one thread, CPU time of that thread. Every
contender trains a fresh model for the same epochs in every round, and a step's time is its part of that, setting up
included; a row 'above' is the median over the rounds of the differences to the loop by hand with the same loader.
Before that, all must have learned: one epoch brings each model to the weights of the loop by hand.

With the tensor-slicing loader the recipe is also compared with the loop by hand over DataLoader: what a student who
takes the course's loader gains. The average of the weights is compared with torch's AveragedModel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import median

import harness
import torch
from contenders import training_loop
from contenders.training_loop import PEERS, by_hand, loader, model, recipe
from harness import Row, Timings, at_most, paired, progress
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lecture_lib.training import ExponentialMovingAverage

ABOVE = 25.0


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    epochs, rounds = (2, 3) if quick else (10, 15)
    ready, missing = agreeing()
    contenders: dict[str, Callable[[], object]] = {}
    for kind in ("DataLoader", "TensorLoader"):
        contenders[f"by hand, {kind}"] = partial(run, by_hand, kind, epochs)
        contenders[f"the recipe, {kind}"] = partial(run, recipe, kind, epochs)
    for name, train in ready.items():
        contenders[f"{name}, DataLoader"] = partial(run, train, "DataLoader", epochs)
    progress(f"{len(contenders)} contenders, {rounds} rounds of {epochs} epochs ...")
    timings = paired(contenders, rounds=rounds)
    steps = epochs * math.ceil(len(training_loop.data()[1]) / training_loop.BATCH_SIZE)
    rows = step_rows(timings, steps)
    rows += [Row(f"step: {name} (not installed)", None, "µs") for name in missing]
    return rows + average_rows(rounds=20 if quick else 200)


def run(train: training_loop.Train, kind: str, epochs: int) -> None:
    """One training of a fresh model."""
    train(model(), loader(kind), epochs)


def agreeing() -> tuple[dict[str, training_loop.Train], list[str]]:
    """The trainers that are installed, after one epoch in which all came to the same weights; names of the others."""
    expected = by_hand(model(), loader("DataLoader"), 1).state_dict()
    ready, missing = {}, []
    for name, train in {"the recipe": recipe, **PEERS}.items():
        progress(f"{name} ...")
        try:
            found = train(model(), loader("DataLoader"), 1)
        except ImportError as error:
            progress(f"{name} is left out: {error}")
            missing.append(name)
            continue
        assert isinstance(found, torch.nn.Module)
        difference = max(float((expected[key] - value).abs().max()) for key, value in found.state_dict().items())
        if not difference <= 1e-4:
            raise AssertionError(f"{name} and the loop by hand differ by {difference:.1e} after an epoch")
        ready[name] = train
    del ready["the recipe"]
    return ready, missing


def step_rows(timings: Timings, steps: int) -> list[Row]:
    """Microseconds a step for each contender, and above the loop by hand with the same loader."""
    rows = [Row(f"step: {name}", timings.seconds(name) / steps * 1e6, "µs") for name in timings.rounds]
    for name in timings.rounds:
        who, kind = name.split(", ")
        if who == "by hand":
            continue
        pairs = zip(timings.rounds[name], timings.rounds[f"by hand, {kind}"], strict=True)
        above = median(ours - theirs for ours, theirs in pairs) / steps * 1e6
        what = f"step: {name}, above by hand"
        own = who == "the recipe"
        rows.append(at_most(what, above, "µs", ABOVE, "at most 25 µs a step") if own else Row(what, above, "µs"))
    ratio = timings.ratio("the recipe, TensorLoader", "by hand, DataLoader")
    what = "step: the recipe, TensorLoader / by hand, DataLoader"
    return [*rows, at_most(what, ratio, "ratio", 1.0, "faster than by hand with DataLoader")]


def average_rows(rounds: int) -> list[Row]:
    """An update of the averaged weights, beside torch's."""
    ours, theirs = model(), model()
    average = ExponentialMovingAverage(ours, 0.99)
    torchs = AveragedModel(theirs, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    timings = paired(
        {"ours": average.update, "torch": lambda: torchs.update_parameters(theirs)}, rounds=rounds, calls=50
    )
    return [
        Row("average of the weights: update", timings.seconds("ours") * 1e6, "µs"),
        Row("average of the weights: AveragedModel", timings.seconds("torch") * 1e6, "µs"),
        Row("average of the weights: ours / AveragedModel", timings.ratio("ours", "torch"), "ratio"),
    ]


if __name__ == "__main__":
    harness.run(measure)
