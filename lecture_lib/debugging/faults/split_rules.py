"""Rung 1: whether validation is honest and like training, seen without training anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data import ShiftReport, leakage_report, shift_report
from ...data.shift import LEAST
from .._engine.assumptions import NotAskedError, classes_second, picture
from .._engine.evidence import Evidence
from .._engine.loss_calls import scores_given
from .._engine.preserve import untouched
from .._engine.run_data import Examples, counted
from .._engine.windows import continued
from .finding import Finding
from .model_rules import differ, outputs_of

FAR = 1.0  # shift of the mean, in standard deviations, and of the deviation, as |log2|: another preprocessing
UNLIKE = 0.05  # p-value above which inputs count as alike
OVERLAP = 0.2  # share of validation windows; where series are divided in time, only those at the border
LEAKS = {"exact duplicates": "D17", "near duplicates": "D18", "shared groups": "D19", "time order": "D20"}


def classes_renumbered(evidence: Evidence) -> Finding | None:
    """D11: the two splits' tables of classes differ, or renaming the predictions makes them right."""
    train_index, val_index = evidence.spec.train_classes, evidence.spec.val_classes
    if train_index is not None and val_index is not None:
        moved = [name for name in train_index.keys() & val_index.keys() if train_index[name] != val_index[name]]
        if moved:
            name = sorted(moved)[0]
            return Finding("D11", f"{name!r} is {train_index[name]} in training and {val_index[name]} in validation")
    outputs = evidence.run.outputs[1]
    if evidence.spec.task not in ("classification", "sequence") or outputs is None or evidence.val is None:
        return None
    from scipy.optimize import linear_sum_assignment

    y = evidence.val.y
    classes_second(outputs, y, scores_given(evidence))
    predicted = outputs.argmax(dim=1)
    if predicted.shape != y.shape:
        return None
    if outputs.ndim < 2 or int(y.max()) >= outputs.shape[1]:
        return None
    kept = counted(y, evidence.spec)
    table = torch.zeros(outputs.shape[1], outputs.shape[1])
    table.index_put_((predicted[kept], y[kept]), torch.ones(int(kept.sum())), accumulate=True)
    # The renaming of classes with which most predictions are right.
    rows, columns = linear_sum_assignment(-table.numpy())
    plain, matched = float(table.trace() / table.sum()), float(table[rows, columns].sum() / table.sum())
    pairs = [(int(a), int(b)) for a, b in zip(rows, columns, strict=True) if a != b]
    moved = [f"{a} for {b}" for a, b in pairs]
    if matched - plain < 0.2 or matched < max(1.5 * plain, 0.6) or not moved:
        return None
    if any(table[a, b] <= 3 for a, b in pairs):  # no exchange: a class that is never named, or never met
        return None
    return Finding(
        "D11",
        f"validation accuracy is {plain:.0%}; with classes renamed ({', '.join(moved[:4])}) it is {matched:.0%}",
        {"plain": plain, "matched": matched},
    )


def leaks(evidence: Evidence) -> Finding | None:
    """D17 to D20: validation examples, their likes, their groups or their past are in training."""
    if evidence.train is None or evidence.val is None:
        return None
    spec = evidence.spec
    train, val = evidence.plain or evidence.train, evidence.val
    floats = train.x.is_floating_point()
    x, v = train.flat(), val.flat()
    in_any_order = not floats and train.x.ndim == 2 and _order_ignored(evidence, train.x[:64])
    # Rows of few values are often equal by chance, and more so in any order.
    few = not floats or all(len(np.unique(column)) <= 4 for column in x.T)
    by_chance = _copies_by_chance(x, v, in_any_order) if few else 0.0
    if in_any_order:
        x, v = (np.unique(np.sort(rows, axis=1), axis=0) for rows in (x, v))
    counts = np.unique(x, axis=0, return_counts=True)[1]
    own = float(counts[counts > 1].sum()) / len(x)
    if few and own < 0.3:  # sentences of a small language repeat in training too
        by_chance = max(by_chance, own)
    by_kind = {}
    if np.isfinite(x).all() and np.isfinite(v).all() and x.shape[1] == v.shape[1]:
        report = leakage_report(x, v, seed=evidence.seed)
        by_kind = {
            leak.kind: leak
            for leak in report.leaks
            if not few or (leak.kind == "exact duplicates" and leak.share > 1.5 * by_chance + 0.02)
        }
        if not by_kind and floats and picture(train.x.shape[1:]):
            report = leakage_report(_wherever(train.x), _wherever(val.x), seed=evidence.seed)
            by_kind = dict.fromkeys(["near duplicates"] * bool(report.leaks), *report.leaks[:1])
    for kind, ours, theirs in (
        ("groups", spec.train_groups, spec.val_groups),
        ("times", spec.train_times, spec.val_times),
    ):
        if ours is not None and theirs is not None:
            rows = np.arange(len(ours), dtype=float)[:, None], len(ours) + np.arange(len(theirs), dtype=float)[:, None]
            columns: dict[str, Any] = {kind: (list(ours), list(theirs))}
            report = leakage_report(*rows, **columns, seed=evidence.seed)
            wanted = "shared groups" if kind == "groups" else "time order"
            by_kind |= {leak.kind: leak for leak in report.leaks if leak.kind == wanted}
    if "exact duplicates" in by_kind and not in_any_order and not _labels_agree(train, val):
        del by_kind["exact duplicates"]  # inputs that hold little are alike by nature
    for kind in ("shared groups", "time order", "exact duplicates", "near duplicates"):
        if kind in by_kind:
            leak = by_kind[kind]
            swapped = in_any_order and kind == "exact duplicates"
            how = "; ids may be in another order, which this model does not see" if swapped else ""
            return Finding(LEAKS[kind], leak.evidence + how, {"share": leak.share}, certain=kind != "near duplicates")
    return None


def windows_overlap(evidence: Evidence) -> Finding | None:
    """D20: windows of a series were divided at random: training's go on where validation's end."""
    if evidence.train is None or evidence.val is None:
        return None
    share = continued(evidence.val.x, (evidence.plain or evidence.train).x)
    if share < OVERLAP:
        return None
    text = f"{share:.0%} of the validation windows are continued by training windows, which hold what comes after"
    return Finding("D20", text, {"share": share})


def _order_ignored(evidence: Evidence, x: Tensor) -> bool:
    """Whether the model gives rows of ids the same outputs in another order: a pair both ways, a bag of words."""
    rows = x.sort(dim=-1).values
    outputs, of_ordered = outputs_of(evidence, x), outputs_of(evidence, rows)
    if outputs is None or of_ordered is None or torch.equal(x, rows):
        return False
    return differ(outputs, outputs.roll(1, 0), outputs) and not differ(outputs, of_ordered, outputs)


def _labels_agree(train: Examples, val: Examples) -> bool:
    """Whether validation examples mostly have the labels of their copies in training."""
    labels = {row.tobytes(): y for row, y in zip(train.flat(), train.y, strict=True)}
    pairs = [(labels[key], y) for row, y in zip(val.flat(), val.y, strict=True) if (key := row.tobytes()) in labels]
    same = [a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0.05) for a, b in pairs]
    return not same or sum(same) > 0.7 * len(same)


def _wherever(images: Tensor) -> np.ndarray:
    """Features that stay when an image is moved or mirrored: the sizes of its frequencies."""
    # A shift changes the phases of the frequencies, and a mirror image swaps the signs of the horizontal ones.
    sizes = torch.fft.fft2(images.double()).abs()
    return np.asarray((sizes + sizes.flip(3).roll(1, 3)).flatten(1).float().double())


def _copies_by_chance(train: np.ndarray, val: np.ndarray, in_any_order: bool) -> float:
    """The share of copies that few values in a few columns give by nature: with the columns shuffled apart."""
    generator = np.random.default_rng(0)
    mixed = np.concatenate([train, val])
    # Each column keeps its values and no row keeps its combination.
    mixed = np.stack([generator.permutation(column) for column in mixed.T], axis=1)
    if in_any_order:
        mixed = np.sort(mixed, axis=1)
    train_rows = {row.tobytes() for row in mixed[: len(train)]}
    return float(np.mean([row.tobytes() in train_rows for row in mixed[len(train) :]]))


def other_preprocessing(evidence: Evidence) -> Finding | None:
    """D03: what the model is fed in validation has another level or scale than in training."""
    fed = evidence.run.recording.fed
    if not fed[True] or not fed[False]:
        return None
    try:
        train, val = torch.cat(fed[True]), torch.cat(fed[False])
    except RuntimeError:  # sequences of different lengths are none of another preprocessing
        sizes = [{tuple(batch.shape[1:]) for batch in fed[training]} for training in (True, False)]
        if any(len(shapes) > 1 for shapes in sizes) or not sizes[0].isdisjoint(sizes[1]):
            return None
        return Finding("D03", f"inputs have shape {list(fed[True][0].shape)} in training, {list(fed[False][0].shape)}")
    padding = evidence.spec.padding_index
    if padding is not None and train.ndim == 2 and not train.is_floating_point():
        first = [float((sequences[:, 0] == padding).float().mean()) for sequences in (train, val)]
        if abs(first[0] - first[1]) > 0.2:
            sides = f"{first[0]:.0%} of training and {first[1]:.0%} of validation sequences"
            return Finding("D03", f"{sides} begin with padding: they are filled up on different sides")
    if not train.is_floating_point() or train.shape[1:] != val.shape[1:] or train.ndim < 2:
        return None
    noisy = evidence.augmented or _augments_in_its_epoch(evidence)
    axes = [0] if train.ndim == 2 else [0, *range(2, train.ndim)]
    for name, over in (("", list(range(train.ndim))), ("in a channel or column ", axes)):
        a, b = train.double(), val.double()
        spread = a.std(dim=over)
        lively = spread > 0.1 * a.std()  # a corner that is nearly always empty says nothing
        if not lively.any():
            continue
        moved = ((b.mean(dim=over) - a.mean(dim=over))[lively] / spread[lively]).abs()
        scaled = (b.std(dim=over).clamp(min=1e-9)[lively] / spread[lively]).log2().abs()
        # Of a few channels one is enough, of many columns most.
        shift, ratio = (values.max() if values.numel() <= 4 else values.median() for values in (moved, scaled))
        if shift > FAR or (ratio > FAR and not noisy):
            return Finding(
                "D03",
                f"{name}the inputs fed in training have mean {a.mean():.3g} and deviation {a.std():.3g}, in validation "
                f"{b.mean():.3g} and {b.std():.3g}",
                {"shift": float(shift), "log2_ratio": float(ratio)},
            )
    return None


def _augments_in_its_epoch(evidence: Evidence) -> bool:
    """Whether an epoch of training feeds another version of the same batch each time."""
    fed: list[list[Tensor]] = []
    for _ in range(2):
        with untouched(evidence.program, evidence.seed) as program:
            torch.manual_seed(len(fed))

            def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
                fed[-1].append(args[0].detach().clone())

            fed.append([])
            handle = program.model.register_forward_pre_hook(keep)
            try:
                assert evidence.train is not None
                program.train_loader = [evidence.train.part(slice(0, 32)).dataset()[:]]
                program.run_epoch()
            except Exception:
                return False
            finally:
                handle.remove()
    return bool(fed[0]) and not all(torch.equal(a, b) for a, b in zip(*fed, strict=False))


def shifts(evidence: Evidence) -> Finding | None:
    """D25, D26, D27: inputs, shares of the classes, or the rule differ between the splits."""
    if evidence.plain is None or evidence.val is None or evidence.spec.shift_expected:
        return None
    plain = _as_many_as_groups(evidence.plain, evidence.spec.train_groups, evidence.seed)
    val = _as_many_as_groups(evidence.val, evidence.spec.val_groups, evidence.seed)
    task, labels = evidence.spec.task, None
    if task == "sequence" and not plain.x.is_floating_point():
        ids = int(max(plain.x.max(), val.x.max())) + 1
        x, v = (_counts(examples.x, ids) for examples in (plain, val))
    elif plain.x.is_floating_point() and task in ("classification", "regression"):
        x, v = plain.flat(), val.flat()
    else:
        return None
    if x.shape[1] != v.shape[1] or not (np.isfinite(x).all() and np.isfinite(v).all()):
        return None
    if (fewer := min(len(plain.y), len(val.y))) < LEAST:
        raise NotAskedError(f"{fewer} examples, or groups of them, in a split; a shift is asked of {LEAST} or more")
    y, w = plain.y, val.y
    if task == "classification" and y.ndim == 1 and not y.is_floating_point():
        labels = (y.numpy(), w.numpy())
    elif task == "regression" and y[0].numel() == 1:
        train_targets, val_targets = y.flatten().double().numpy(), w.flatten().double().numpy()
        edges = np.quantile(train_targets, [0.25, 0.5, 0.75])
        labels = (np.searchsorted(edges, train_targets), np.searchsorted(edges, val_targets))
    report = shift_report(x, v, labels=labels, seed=evidence.seed)
    if task == "sequence" and report.primary is None:
        reports = [_of_one_word(plain, val, ids, seed) for seed in (evidence.seed, evidence.seed + 1)]
        # One word of each sentence says little of a language with few words: two random draws must say the same.
        report = reports[0] if reports[0].primary == reports[1].primary else report
    fault = {"covariate": "D25", "label": "D26", "concept": "D27"}.get(report.primary or "")
    if fault is None or (fault == "D25" and evidence.spec.val_times is not None):
        return None  # where validation is declared to be later, inputs drift
    if fault == "D25" and evidence.program.plain_loader is None and evidence.augmented:
        raise NotAskedError("training's inputs are others in each epoch; plain_loader= can say what they come from")
    shift = report[str(report.primary)]
    sampler = getattr(evidence.program.train_loader, "sampler", None)
    if fault == "D26" and (evidence.spec.class_weights or hasattr(sampler, "weights")):
        return None  # the shares differ on purpose
    if fault == "D26" and (report["covariate"].p_value or 0.0) > UNLIKE and _predictable(evidence):
        fault = "D10"  # other shares among the same inputs: it is the labels that are wrong
    if fault == "D27" and (shift.effect or 0) < 0:
        fault = "D10"  # training labels surprise more than validation's do
    return Finding(fault, shift.evidence, {"effect": shift.effect, "p_value": shift.p_value}, certain=False)


def _as_many_as_groups(examples: Examples, groups: Sequence[Any] | None, seed: int) -> Examples:
    """As many examples, drawn at random, as there are groups: those of one patient are no evidence of their own."""
    if groups is None:
        return examples
    generator = torch.Generator().manual_seed(seed)
    return examples.part(torch.randperm(len(examples.y), generator=generator)[: len(set(groups))])


def _predictable(evidence: Evidence) -> bool:
    """Whether inputs say much about labels, so that other shares of these would show in them."""
    return min((row.train_loss for row in evidence.run.rows), default=math.inf) < 0.7 * evidence.constant_loss


def _of_one_word(train: Examples, val: Examples, size: int, seed: int) -> ShiftReport:
    rows, tags = zip(*(_one_word(examples, size, seed) for examples in (train, val)), strict=True)
    return shift_report(*rows, labels=tags, seed=seed)


def _one_word(examples: Examples, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each sentence one word with the one before it, [N, 2 * size], and its tag, [N]."""
    generator = torch.Generator().manual_seed(seed)
    legal = ((examples.y >= 0) & (examples.x != 0)).double() + 1e-12
    place = torch.multinomial(legal, 1, generator=generator)
    word, tag = examples.x.gather(1, place), examples.y.gather(1, place)[:, 0]
    before = torch.cat([torch.zeros_like(examples.x[:, :1]), examples.x[:, :-1]], dim=1).gather(1, place)
    rows = torch.nn.functional.one_hot(torch.cat([word, before], dim=1), size).flatten(1)
    return np.asarray(rows.double()), np.asarray(tag)


def _counts(ids: Tensor, size: int) -> np.ndarray:
    """How often each id occurs in each sentence."""
    return np.asarray(torch.nn.functional.one_hot(ids, size).sum(dim=1).double())
