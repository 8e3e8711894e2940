"""Rung 1: what a model is fed: inputs that a pretrained one does not expect, and the answer itself."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ...training._run.preserve import evaluating
from ...training._run.structures import map_tensors, tensors_of
from .._engine.batches import has_stored_examples
from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .finding import Finding
from .model_rules import differ, of_others_from, outputs_of

MATES = 32  # examples that are collated alone, and then with as many others


def other_statistics(evidence: Evidence) -> Finding | None:
    """D04: what the model is fed has another level or scale than declared, or than it remembers."""
    fed = [batch for batch in evidence.run.recording.fed[True] if batch.is_floating_point()]
    if not fed or fed[0].ndim < 2 or any(batch.shape[1:] != fed[0].shape[1:] for batch in fed):
        return None
    x = torch.cat(fed).double()
    over = [0] if x.ndim == 2 else [0, *range(2, x.ndim)]
    spec = evidence.spec
    if spec.input_mean is not None and spec.input_std is not None:
        a, b = x.mean(dim=over), x.std(dim=over)
        if len(spec.input_mean) == 1:
            a, b = x.mean(), x.std()
        off, ratio = a.abs().max(), b.log2().abs().max()
        if off > 0.75 or ratio > 1:
            return Finding(
                "D04",
                f"fed are channels of mean {_short(a)} and deviation {_short(b)}; standardised as declared they are "
                "near 0 and 1",
                {"off": float(off), "log2_ratio": float(ratio)},
            )
    return _remembered(evidence, x)


def _remembered(evidence: Evidence, x: Tensor) -> Finding | None:
    """The first batch normalisation of a pretrained model remembers what its inputs were like."""
    norms = [m for m in evidence.program.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms or norms[0].running_mean is None or int(norms[0].num_batches_tracked or 0) < 10:
        return None
    inputs: list[Tensor] = []
    handle = norms[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0].detach()))
    if evidence.train is not None:
        outputs_of(evidence, evidence.train.x[:256])
    handle.remove()
    if not inputs:
        return None
    y = inputs[0].double()
    over = [0, *range(2, y.ndim)]
    assert norms[0].running_var is not None
    deviation = norms[0].running_var.double().clamp(min=1e-12).sqrt()
    off = ((y.mean(dim=over) - norms[0].running_mean.double()) / deviation).abs().median()
    ratio = (y.std(dim=over) / deviation).clamp(min=1e-6).log2().abs().median()
    if off < 0.75 and ratio < 1.0:
        return None
    return Finding(
        "D04",
        f"before the first batch normalisation channels lie {off:.2g} deviations from what it remembers, with "
        f"{2 ** float(ratio):.2g} times its deviation",
        {"off": float(off)},
        certain=False,
    )


def _short(values: Tensor) -> str:
    return ", ".join(f"{value:.2g}" for value in values.flatten()[:4].tolist())


def reads_its_target(evidence: Evidence) -> Finding | None:
    """The targets are one of several inputs, and an output changes with the target of its own place.

    A decoder may be given the targets to shift them itself: then an output changes with earlier ones only.
    """
    program, task = evidence.program, evidence.spec.task
    if task not in ("classification", "sequence") or program.train_loader is None:
        return None
    with untouched(program, evidence.seed):
        inputs, targets = program.parts(next(iter(program.train_loader)))
        if isinstance(inputs, Tensor) or not isinstance(targets, Tensor) or targets.ndim not in (1, 2):
            return None
        # Half of the sequence is another one's; what is not a sequence, altogether.
        kept = targets.shape[1] // 2 if targets.ndim == 2 else 0
        mixed = of_others_from(targets, 1, kept) if targets.ndim == 2 else targets.roll(1, 0)
        if not any(_same(leaf, targets) for leaf in tensors_of(inputs)) or torch.equal(mixed, targets):
            return None
        with evaluating(program.model):
            asked = inputs, map_tensors(inputs, lambda leaf: mixed if _same(leaf, targets) else leaf)
            moved = [map_tensors(each, lambda leaf: leaf.to(evidence.device)) for each in asked]
            before, after = map(program.outputs, moved)
    if not isinstance(before, Tensor) or before.ndim < 2 or before.shape != after.shape:
        return None
    if targets.ndim == 2:
        if before.shape[1] != targets.shape[1]:
            return None
        before, after = before[:, : kept + 1], after[:, : kept + 1]
    if not differ(before, after, before):
        return None
    text = "the targets are one of the inputs, and an output changes with the target of its own place"
    return Finding(None, f"{text}: give it the targets before that place only", where="inputs")


def changes_with_its_batch(evidence: Evidence) -> Finding | None:
    """An example of validation is fed as other numbers when other examples are collated with it."""
    program = evidence.program
    loader: Any = program.val_loader
    dataset = loader.dataset if has_stored_examples(loader) else ()
    if evidence.spec.couples_samples or len(dataset) < 4:
        return None
    half = min(len(dataset) // 2, MATES)

    def fed(count: int) -> list[Tensor]:
        return list(tensors_of(program.parts(loader.collate_fn(copy.deepcopy(items[:count])))[0]))

    with untouched(program, evidence.seed):
        items = [dataset[row] for row in range(2 * half)]
        for part, both, again in zip(fed(half), fed(2 * half), fed(2 * half), strict=True):
            # What is padded to the longest has another shape, and what is drawn anew is another each time.
            rows = part.is_floating_point() and part.shape[1:] == both.shape[1:] and len(part) == half
            if rows and torch.equal(both, again) and differ(part, both[:half], both):
                change = float((part - both[:half]).abs().max())
                text = f"collated with {half} others an example of validation is fed as other numbers, by up to"
                return Finding(None, f"{text} {change:.2g}: take statistics from training", where="inputs")
    return None


def _same(leaf: Tensor, targets: Tensor) -> bool:
    return leaf.shape == targets.shape and torch.equal(leaf.cpu(), targets.cpu())
