"""Rung 1: what is wrong with the data, seen without training.

Each rule is a function of the evidence alone.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .._engine.assumptions import NO_PICTURES, NotAskedError, picture
from .._engine.events import LossCall
from .._engine.evidence import Evidence
from .._engine.loss_calls import BINARY
from .._engine.run_data import Examples
from .._engine.windows import LONG
from .finding import Finding
from .id_rules import numbered_anew
from .mask_rules import turned_apart
from .sequence_rules import nearly_copied, never_labelled, steps_first
from .split_rules import classes_renumbered, leaks, other_preprocessing, shifts, windows_overlap
from .time_rules import knows_the_future


def not_finite(evidence: Evidence) -> Finding | None:
    """D06: NaN or infinity in inputs or targets."""
    for name, examples in (("training", evidence.train), ("validation", evidence.val)):
        if examples is None:
            continue
        for kind, values in (("inputs", examples.x), ("targets", examples.y)):
            if values.is_floating_point() and not values.isfinite().all():
                rows = (~values.isfinite()).reshape(len(values), -1).any(dim=1).nonzero()[:, 0]
                first = rows[:5].tolist()
                return Finding(
                    "D06",
                    f"{kind} of {len(rows)} {name} examples are not finite; in the loader's order: {first}",
                    {"rows": rows.tolist()},
                )
    return None


def axes_scrambled(evidence: Evidence) -> Finding | None:
    """D08: read as rows, columns, channels the images are smoother than as channels, rows, columns."""
    fed = [batch for batch in evidence.run.recording.fed[True] if batch.ndim == 4 and batch.is_floating_point()]
    if not fed or any(batch.shape[1:] != fed[0].shape[1:] for batch in fed):
        return None
    x = torch.cat(fed)[:200]
    n, c, h, w = x.shape
    if not picture(x.shape[1:]):
        raise NotAskedError(NO_PICTURES.format([c, h, w]))
    readings = {"[H, W, C]": x.reshape(n, h, w, c).permute(0, 3, 1, 2), "[C, W, H]": x.reshape(n, c, w, h)}
    for tile in (2, 4, 8):
        if h % tile == 0 and w % tile == 0 and min(h, w) > tile:
            tiles = x.reshape(n, c, h // tile, w // tile, tile, tile).transpose(3, 4)
            readings[f"tiles of {tile} x {tile}"] = tiles.reshape(n, c, h, w)
    rough = roughness(x)
    for name, reading in readings.items():
        if (name == "[H, W, C]" and c == 1) or (name == "[C, W, H]" and h == w):
            continue
        smoother, share, median = _smoother(roughness(reading) / rough)
        if smoother:
            return Finding(
                "D08",
                f"read as {name}, {share:.0%} of the images are smoother: neighbours differ by {median:.0%} "
                "of what they do as they are fed",
                {"ratio": median},
            )
    return None


def series_scrambled(evidence: Evidence) -> Finding | None:
    """D08: series [N, A, B] are smoother if the numbers, in their order, are read as [N, B, A]."""
    fed = [batch for batch in evidence.run.recording.fed[True] if batch.ndim == 3 and batch.is_floating_point()]
    if not fed or any(batch.shape[1:] != fed[0].shape[1:] for batch in fed):
        return None
    x = torch.cat(fed)[:200]
    n, a, b = x.shape
    if a == b or min(a, b) < 2 or max(a, b) < LONG:
        return None
    smoother, share, median = _smoother(_rough_in_time(x.reshape(n, b, a)) / _rough_in_time(x))
    if not smoother or not _channels(x):
        return None
    text = f"read as [{b}, {a}] and exchanged, not as [{a}, {b}], {share:.0%} of the series are smoother: neighbours "
    return Finding("D08", f"{text}differ by {median:.0%} of what they do as they are fed", {"ratio": median})


def _channels(x: Tensor) -> bool:
    """Whether numbers [N, A, B], read as [N, B, A], are channels that each go on smoothly, and nothing else is.

    Frames of one signal go on from channel to channel, too, and in patches of a picture the next patch is further away.
    """
    n, a, b = x.shape
    place = torch.arange(a * b).reshape(b, a)
    time = place if a > b else place.T  # [channel, time]
    flat = x.reshape(n, -1)
    steps = (flat[:, time[:, 1:]] - flat[:, time[:, :-1]]).abs().mean(dim=0)
    crossing = (time // b).diff(dim=1) != 0  # from one row, as they are fed, to the next
    channel = torch.empty(a * b, dtype=torch.long).index_put((time,), torch.arange(len(time))[:, None])
    jumps = flat.diff(dim=1).abs().mean(dim=0)[channel.diff() != 0]
    return bool(steps[crossing].mean() < ODD * steps[~crossing].mean()) and bool(jumps.mean() > ODD * steps.mean())


def _smoother(ratio: Tensor) -> tuple[bool, float, float]:
    """Whether another reading is the right one by its roughness against that of the first: share that fell, median."""
    share, median = float((ratio < 1).float().mean()), float(ratio.median())
    return (share > 0.95 and median < SMOOTHER) or (share > 0.8 and median < MUCH_SMOOTHER), share, median


def _rough_in_time(x: Tensor) -> Tensor:
    """For each series [N, A, B] how much neighbours on the longer axis differ, relative to the spread there."""
    x = x if x.shape[2] > x.shape[1] else x.transpose(1, 2)
    steps = x.diff(dim=2).abs().mean(dim=2)
    return (steps / x.std(dim=2).clamp(min=1e-12)).mean(dim=1)


def roughness(x: Tensor) -> Tensor:
    """For each image [N, C, H, W] how much neighbours differ, relative to its spread."""
    across = (x[..., 1:] - x[..., :-1]).abs().flatten(1).mean(dim=1)
    down = (x[..., 1:, :] - x[..., :-1, :]).abs().flatten(1).mean(dim=1)
    return (across + down) / x.flatten(1).std(dim=1).clamp(min=1e-12)


def ordered_by_class(evidence: Evidence) -> Finding | None:
    """D15: in the order in which the loop meets them, labels change far less often than in a shuffled order.

    Where a label stands within its batch makes no difference, so each batch is shuffled first.
    """
    if evidence.train is not None and evidence.spec.task == "regression" and evidence.train.y[0].numel() == 1:
        return _ordered_by_value(_mixed_within_batches(evidence.train).flatten().double())
    if evidence.train is None or evidence.spec.task not in ("classification", "multi-label"):
        return None
    labels = _mixed_within_batches(evidence.train)
    if labels.shape[1] != 1:
        return None
    y = labels[:, 0].long().numpy()
    if evidence.spec.accumulate > 1:
        # A step mixes several micro-batches, so each may be of one kind; one after the other must not be.
        y = y[:: evidence.train.batch_size]
    n = len(y)
    shares = np.unique(y, return_counts=True)[1] / n
    if len(shares) < 2 or n < 20:
        return None
    # In a shuffled order two neighbours differ with probability 1 - sum of squared shares.
    expected = (1 - float((shares**2).sum())) * (n - 1)
    changes = int((y[1:] != y[:-1]).sum())
    deviation = math.sqrt(max(expected * (1 - expected / (n - 1)), 1e-9))
    z = (changes - expected) / deviation
    if z > -8:
        return None
    unit = "examples" if evidence.spec.accumulate == 1 else "micro-batches"
    return Finding("D15", f"the label changes {changes} times in {n} {unit}; shuffled: about {expected:.0f}", {"z": z})


def _mixed_within_batches(train: Examples) -> Tensor:
    """The labels [N, K], each batch in an order drawn for it."""
    generator = torch.Generator().manual_seed(0)
    batches = train.y.reshape(len(train.y), -1).split(max(train.batch_size, 1))
    return torch.cat([batch[torch.randperm(len(batch), generator=generator)] for batch in batches])


def _ordered_by_value(y: Tensor) -> Finding | None:
    neighbours = float(torch.corrcoef(torch.stack([y[1:], y[:-1]]))[0, 1]) if len(y) > 20 else 0.0
    # Shuffled, the correlation has a deviation of 1 / sqrt(n): the limit is 12 of them.
    if not neighbours * math.sqrt(len(y)) > 12:
        return None
    return Finding("D15", f"successive targets have a correlation of {neighbours:.2f}; shuffled: about 0")


def ignored_labels(evidence: Evidence) -> Finding | None:
    """D13: targets equal to the ignore_index that the loss uses, and that nobody declared."""
    if evidence.train is None:
        return None
    used = {
        int(call.options.get("ignore_index", -100))
        for call in evidence.run.recording.of(LossCall)
        if call.name in ("cross_entropy", "nll_loss")
    }
    declared, padding = evidence.spec.ignore_index, evidence.spec.padding_index
    x, y = evidence.train.x, evidence.train.y
    if declared is not None and declared >= 0 and padding is not None and x.shape == y.shape:
        real = (x != padding) & (y == declared)
        if real.any():
            share = float(real.sum() / (x != padding).sum())
            return Finding("D13", f"{share:.1%} of the real words have label {declared}, and are left out")
    for index in used - {evidence.spec.ignore_index}:
        left_out = int((evidence.train.y == index).sum())
        if left_out and not evidence.train.y.is_floating_point():
            share = left_out / evidence.train.y.numel()
            return Finding(
                "D13",
                f"{left_out} targets ({share:.1%}) are {index}, which the loss leaves out; declared: "
                f"{evidence.spec.ignore_index}",
                {"share": share, "ignore_index": index},
            )
    return None


def binary_targets(evidence: Evidence) -> Finding | None:
    """L11: a loss for 0 and 1 gets targets outside of them."""
    if evidence.spec.task == "regression":
        return None  # then it is the loss that is wrong
    for call in evidence.run.recording.of(LossCall):
        if call.name in BINARY and isinstance(call.targets, Tensor) and call.targets.is_floating_point():
            low, high = float(call.targets.min()), float(call.targets.max())
            if low < 0 or high > 1:
                return Finding("L11", f"targets lie from {low:g} to {high:g}; {call.name} wants 0 to 1")
    return None


def given_more_than_once(evidence: Evidence) -> Finding | None:
    """D32: workers repeat the whole of an iterable data set."""
    workers = getattr(evidence.program.train_loader, "num_workers", 0)
    dataset = getattr(evidence.program.train_loader, "dataset", None)
    if workers < 2 or not isinstance(dataset, torch.utils.data.IterableDataset) or evidence.train is None:
        return None
    counts = np.unique(evidence.train.flat(), axis=0, return_counts=True)[1]
    if np.median(counts) < 2:
        return None
    return Finding("D32", f"each example comes {np.median(counts):g} times in an epoch with {workers} workers")


MUCH_SMOOTHER = 0.75
ODD = 1.5  # times the mean of the other steps
SMOOTHER = 0.92  # roughness of an image read in another way, against the image as it is

DATA_RULES = (
    not_finite,
    axes_scrambled,
    series_scrambled,
    turned_apart,
    steps_first,
    numbered_anew,
    never_labelled,
    binary_targets,
    ignored_labels,
    given_more_than_once,
    other_preprocessing,
    classes_renumbered,
    leaks,
    windows_overlap,
    nearly_copied,
    knows_the_future,
    ordered_by_class,
    shifts,
)
