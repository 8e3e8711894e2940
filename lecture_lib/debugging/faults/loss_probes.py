"""Rung 3: what the loss function does with outputs and targets that the ladder chooses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .._engine.assumptions import NotAskedError, classes_second
from .._engine.evidence import Evidence
from .._engine.loss_calls import calls, probabilities, scores_given
from .._engine.preserve import untouched
from .._engine.run_data import counted
from .._engine.yardstick import MOVES, RATES, lowest_loss
from .finding import Finding

ALIKE = 0.02  # what outputs that differ must gain, as a share of the loss
TURNED = 0.8  # cosine of a gradient that has only changed its sign; noise of the step's own makes it smaller than 1


def score_of_the_label(evidence: Evidence) -> Finding | None:
    """L03, L04 by hand: the loss is minus the label's probability, or minus its score."""
    pair = sample(evidence)
    if calls(evidence, "kl_div"):
        return None
    if pair is None or pair[0].ndim < 2 or pair[1].is_floating_point() or pair[1].ndim != pair[0].ndim - 1:
        return None
    outputs, targets = pair
    classes_second(outputs, targets, scores_given(evidence))
    noise = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        for fault, scores in (("L04", outputs + noise), ("L03", (outputs + noise).softmax(dim=1))):
            kept = (targets >= 0) & (targets < outputs.shape[1])
            of_label = scores.gather(1, targets.clamp(0, outputs.shape[1] - 1)[:, None])[:, 0][kept].mean()
            candidates = [outputs + noise, scores] if fault == "L03" else [scores]
            for candidate in candidates:
                loss = evidence.own_loss(candidate, targets)
                if bool(of_label.abs() > 1e-3) and abs(float(loss + of_label)) < 1e-5 * abs(float(of_label)):
                    already = probabilities(outputs) or fault == "L03"
                    quantity = "probability" if already else "score"
                    return Finding(
                        "L03" if already else "L04", f"the loss is minus the {quantity} of the label, no logarithm"
                    )
    return None


def against_the_loss(evidence: Evidence) -> Finding | None:
    """G18 by hand: a step that computes a loss of its own gives the optimizer the declared one's gradient, turned."""
    program, train = evidence.program, evidence.train
    own = program.step is not None or program.train_epoch is not None
    if train is None or program.loss_fn is None or not own or len(program.optimizers) != 1:
        return None
    batch = train.part(slice(0, train.batch_size))
    gradients: list[list[Tensor | None]] = []
    with untouched(program, evidence.seed):
        parameters = [parameter for parameter in program.model.parameters() if parameter.requires_grad]

        def keep(*_: Any) -> None:
            gradients.append([None if parameter.grad is None else parameter.grad.clone() for parameter in parameters])

        program.model.train()
        torch.manual_seed(evidence.seed)  # dropout leaves out the same units both times
        loss = evidence.own_loss(evidence.outputs(batch.x), batch.y)
        wanted = torch.autograd.grad(loss, parameters, allow_unused=True)
        program.train_loader = [batch.dataset()[:]]
        handle = program.optimizers[0].register_step_pre_hook(keep)
        torch.manual_seed(evidence.seed)
        try:
            program.run_epoch()
        finally:
            handle.remove()
    if not gradients:
        raise NotAskedError("no step of the optimizer is seen")
    pairs = [
        (a.flatten(), b.flatten()) for a, b in zip(gradients[0], wanted, strict=True) if a is not None and b is not None
    ]
    if not pairs:
        return None
    actual, right = (torch.cat(part) for part in zip(*pairs, strict=True))
    cosine = float(torch.cosine_similarity(actual, right, dim=0))
    if program.optimizers[0].param_groups[0].get("maximize"):
        cosine = -cosine
    if not cosine < -TURNED:
        return None
    return Finding("G18", f"the step's gradient points away from the loss's (cosine {cosine:.3f})", {"cosine": cosine})


def sample(evidence: Evidence) -> tuple[Tensor, Tensor] | None:
    """Outputs and targets of up to 64 examples, of the model as it is; None where there are none."""
    if evidence.program.loss_fn is None or evidence.train is None:
        return None
    rows = torch.randperm(len(evidence.train.y), generator=torch.Generator().manual_seed(0))[:64]
    examples = evidence.train.part(rows)
    outputs = evidence.measure(examples)[2]
    if outputs is None or not outputs.is_floating_point() or not outputs.isfinite().all():
        return None
    return outputs, examples.y


def class_axis(evidence: Evidence) -> Finding | None:
    """L13: another axis than the second one holds the classes; the position of a changed input tells which."""
    recorded = calls(evidence, "cross_entropy", "nll_loss")
    if not recorded or evidence.train is None or recorded[0].outputs.ndim < 3:
        return None
    four = evidence.train.part(slice(0, 4))
    x, outputs = four.x, evidence.measure(four)[2]
    if outputs is None or outputs.ndim != 3 or x.ndim < 2:
        return None
    changed = x.clone()
    last = x.shape[1] - 1
    # Values from the data, so that the model takes them.
    changed[:, last] = x[[1, 2, 3, 0], 0]
    after = evidence.measure(replace(four, x=changed))[2]
    if after is None:
        return None
    difference = (after - outputs).abs()
    moved = (difference > 0).any(dim=0)
    alone = int(moved.sum()) == moved.shape[0]  # as many outputs as classes, and no column of them
    if evidence.spec.causal and alone and not moved[:, -1].all() and not moved[-1].all():
        return Finding("L13", "a change of the last position changes outputs of others: axes were reshaped, not moved")
    if outputs.shape[1] != outputs.shape[2]:
        return None
    by_second, by_third = difference.sum(dim=(0, 2)), difference.sum(dim=(0, 1))
    if float(by_second.sum()) == 0 or float((by_second[:last] > 0).sum()) > 0 or float((by_third > 0).sum()) < 2:
        return None
    return Finding(
        "L13",
        f"outputs are {list(outputs.shape)}; a change of the last position changes the second axis at its end, so that "
        "is the position, and cross_entropy takes it for the class",
    )


def pairing(evidence: Evidence) -> Finding | None:
    """L13: the loss compares a target with outputs of another place."""
    pairs = _pairs(evidence)
    off = [place for place, compared in pairs if {place} not in compared]
    if not pairs or len(off) < min(3, len(pairs)) or shifts_labels(evidence):
        return None
    return Finding("L13", f"the label of place {list(pairs[0][0])} is compared with outputs of another place")


def shifts_labels(evidence: Evidence) -> bool:
    """Whether the labels are the inputs themselves, and the loss compares each output with the one that comes next."""
    train = evidence.train
    if train is None or train.x.shape != train.y.shape or train.y.ndim < 2:
        return False
    kept = counted(train.y, evidence.spec)
    pairs = _pairs(evidence) if torch.equal(train.x[kept], train.y[kept]) else []
    return bool(pairs) and all({(*place[:-1], place[-1] - 1)} in compared for place, compared in pairs)


def _pairs(evidence: Evidence) -> list[tuple[tuple[int, ...], list[set[tuple[int, ...]]]]]:
    """Places of labels, each with those of the outputs that it is compared with, for classes second and last.

    When one label changes, the gradient changes at the outputs that it is compared with.
    """
    pair = sample(evidence)
    if pair is None or pair[1].is_floating_point() or pair[0].ndim != pair[1].ndim + 1 or pair[1].ndim < 2:
        return []
    outputs, targets = pair[0].clone().requires_grad_(), pair[1]
    legal = [v for v in targets.unique().tolist() if 0 <= v < max(outputs.shape[1], outputs.shape[-1])]
    places = [p for p in (targets == legal[0]).nonzero().tolist() if any(p[1:])] if len(legal) > 1 else []
    pairs = []
    for place in map(tuple, places[:5]):
        changed = targets.clone()
        changed[place] = legal[1]
        gradients = [torch.autograd.grad(evidence.own_loss(outputs, y), outputs)[0] for y in (targets, changed)]
        moved = (gradients[0] - gradients[1]).abs()
        slots = (moved > 0.3 * moved.max()).nonzero().tolist()
        pairs.append((place, [{(slot[0], *slot[2:]) for slot in slots}, {tuple(slot[:-1]) for slot in slots}]))
    return pairs


def against_the_labels(evidence: Evidence) -> Finding | None:
    """G18: the loss rises when outputs come closer to their targets."""
    pair = sample(evidence)
    if pair is None or evidence.spec.task is None:
        return None
    outputs, targets = pair
    classes_second(outputs, targets, scores_given(evidence))
    risen, before, after = 0, 0.0, 0.0
    with torch.no_grad():
        for seed in range(3):
            noise = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(seed))
            start = outputs + noise * outputs.std().clamp(min=0.1)
            if targets.is_floating_point() and targets.shape == start.shape:
                target = targets if evidence.spec.task == "regression" else 4 * targets - 2
                # On both sides of the targets: outputs may be their logarithms, which lie on one side.
                start = target + noise * target.std().clamp(min=0.1)
                better = start + 0.2 * (target - start)
            elif not targets.is_floating_point() and start.ndim == targets.ndim + 1:
                if int(targets.max()) >= start.shape[1]:
                    raise NotAskedError("labels have no column of outputs each")
                better = start.clone()
                legal = (targets >= 0) & (targets < start.shape[1])
                index = targets.clamp(0, start.shape[1] - 1)[:, None]
                better.scatter_add_(1, index, 0.2 * legal[:, None].to(start))
            else:
                return None
            if probabilities(outputs) and not targets.is_floating_point():
                start, better = start.softmax(dim=1), better.softmax(dim=1)
            before, after = (float(evidence.own_loss(answer, targets)) for answer in (start, better))
            risen += after > before + 1e-4 * abs(before)
    if risen < 3:
        return None
    return Finding("G18", f"outputs closer to their targets raise the loss, from {before:.4g} to {after:.4g}")


def wants_all_alike(evidence: Evidence) -> Finding | None:
    """The loss is nowhere lower than for outputs that are the same for every example, although their targets differ.

    Outputs are free here: they start where the model's are, and where each target has a direction of its own.
    """
    pair = sample(evidence)
    if pair is None or pair[1].ndim == 0:
        return None
    outputs, targets = pair
    values, which = targets.reshape(len(targets), -1).unique(dim=0, return_inverse=True)
    if len(values) < 2:
        return None
    drawn = torch.randn(len(values), *outputs.shape[1:], generator=torch.Generator().manual_seed(3)).to(outputs)
    of_outputs, of_drawn = (rows.reshape(len(rows), -1).norm(dim=1).mean() for rows in (outputs, drawn))
    apart = drawn * of_outputs.clamp(min=0.1) / of_drawn
    starts = [outputs, apart[which.reshape(-1)]]
    if targets.is_floating_point() and targets.numel() == outputs.numel():
        starts.append(targets.reshape(outputs.shape).to(outputs))
    own = evidence.own_loss
    losses = [lowest_loss(own, start, outputs, targets, rate, MOVES) for start in starts for rate in RATES]
    alike = min(lowest_loss(own, outputs[:1], outputs, targets, rate, MOVES) for rate in RATES)
    lowest = min(losses)
    if lowest < 0:
        raise NotAskedError("the loss falls below 0, as of a density, and how far it can fall is not known")
    if not all(map(math.isfinite, (*losses, alike))) or lowest < alike - ALIKE * abs(alike):
        return None
    text = f"no outputs that were tried have a lower loss than the same output for all examples: {lowest:.4g}"
    return Finding(None, f"{text} and {alike:.4g}", {"losses": losses}, False, where="loss")


def unstable_when_sure(evidence: Evidence) -> Finding | None:
    """L20: for scores far apart the loss or its gradient is not finite."""
    pair = sample(evidence)
    if pair is None or evidence.spec.task not in ("classification", "sequence", "segmentation", "multi-label"):
        return None
    outputs, targets = pair
    if float(outputs.min()) >= 0 and float(outputs.max()) <= 1:
        return None
    for factor in (30.0, -30.0):
        scores = (factor * outputs / outputs.std().clamp(min=1e-6)).requires_grad_()
        loss = evidence.own_loss(scores, targets)
        if not loss.requires_grad:
            return None
        gradient = torch.autograd.grad(loss, scores)[0]
        if not (loss.isfinite().all() and gradient.isfinite().all()):
            quantity = "gradient" if loss.isfinite().all() else "loss"
            return Finding("L20", f"for scores up to {float(scores.abs().max()):.0f} the {quantity} is not finite")
    return None
