"""The numbers that each rung shows, whether it holds or not: its evidence as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from ...data.contract import CONTRACTS, check_contract
from ...training._run.sweep import SCHEDULED
from ...training.lr_finder import find_lr
from ..program import Program
from .assumptions import NotAskedError, closures, several_optimizers, unseen_updates
from .evidence import Evidence
from .preserve import untouched
from .run_data import EpochRow, Examples, index_left_out
from .yardstick import lowest_loss

BATCH = 32  # examples that are memorised
STEPS = 150  # of the program's own, on that batch
SUBSET = 256  # examples of rung 4
SUBSET_STEPS = 120  # on them
SUBSET_SEEDS = 3
SWEEP = 80  # steps of the finder
TENTHS = [tenth / 10 for tenth in range(11)]
GROUPS = 5  # of validation examples, from the least to the most confident
HALF = 0.5  # of a constant answer's loss may be left on the subset
SEARCHED = 0.01  # nats; the attainable loss is searched for, and a program may come a little further
LEARNT = 0.1  # of the way from the start to the attainable loss may be left


def data(evidence: Evidence) -> dict[str, Any]:
    """Rung 1: sizes, and the share of each class."""
    numbers: dict[str, Any] = {}
    for name, examples in (("training", evidence.train), ("validation", evidence.val)):
        if examples is not None:
            numbers[f"{name} examples"] = len(examples.y)
            numbers[f"{name} classes"] = classes(examples)
            numbers[f"{name} targets, deciles"] = tenths(examples.y) if examples.y.is_floating_point() else None
    numbers["differs from the batch contract"] = contract(evidence)
    return {key: value for key, value in numbers.items() if value is not None}


def tenths(values: Tensor) -> list[float]:
    """Smallest, largest and what lies between after each tenth of the values."""
    return [float(value) for value in values.detach().double().flatten().nan_to_num().sort().values[_places(values)]]


def _places(values: Tensor) -> list[int]:
    return [round(tenth * (values.numel() - 1)) for tenth in TENTHS]


def contract(evidence: Evidence) -> list[str] | None:
    """How the first training batch differs from those of its task in the lecture; None where the task is not known.

    No fault by itself, and no remedy is named: ids for an embedding, say, are whole numbers.
    """
    if evidence.train is None or evidence.spec.task not in CONTRACTS:
        return None
    batch = evidence.train.part(slice(0, evidence.train.batch_size))
    outputs = evidence.measure(batch)[2]
    ignored = index_left_out(evidence.spec)
    violations = check_contract(
        evidence.spec.task, batch.x, batch.y, outputs, classes=evidence.spec.classes, ignore_index=ignored
    )
    return [f"{one.item}, {one.kind}: {one.found} in place of {one.wanted}" for one in violations]


def classes(examples: Examples) -> dict[int, int] | None:
    """How many examples each class has; None for targets that are no classes."""
    if examples.y.is_floating_point():
        return None
    values, counts = examples.y.unique(return_counts=True)
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)} if len(values) <= 100 else None


def baselines(evidence: Evidence) -> dict[str, Any]:
    """Rung 2: the loss at the start beside that of the best constant answer."""
    if not math.isfinite(evidence.run.before):
        return {}
    return {"first loss": evidence.run.before, "loss of the best constant answer": evidence.constant_loss}


def one_batch(evidence: Evidence) -> dict[str, Any]:
    """Rung 3: whether one batch of mixed classes is memorised, against the attainable loss."""
    train, program = evidence.train, evidence.program
    if train is None or evidence.run.error is not None:
        return {}
    _measurable(evidence)
    # Several classes: a batch of one class is learnt by a constant answer.
    batch = mixed_batch(train)
    numbers: dict[str, Any] = {}
    first = classes(train.part(slice(0, train.batch_size)))
    if first is not None and len(first) == 1 and evidence.spec.task == "classification":
        numbers["first batch"] = (
            "holds one class only: it can be learnt without the inputs, so a batch of mixed classes was taken"
        )
    lowest = attainable(evidence, batch)
    with untouched(program, evidence.seed):
        start = evidence.measure(batch)[0]
        program.train_loader = [batch.dataset()[:]] * (STEPS // 5)
        for _ in range(5):
            program.run_epoch()
        reached = evidence.measure(batch)[0]
    if 0 < lowest - reached < SEARCHED:
        lowest = reached
    left = (reached - lowest) / max(start - lowest, 1e-9)
    return {**numbers, "start": start, "attainable": lowest, "reached": reached, "learnt": bool(left < LEARNT)}


def small_subset(evidence: Evidence) -> dict[str, Any]:
    """Rung 4: whether a few hundred examples are learnt better than by the best constant answer, over seeds."""
    train, program = evidence.train, evidence.program
    if train is None or evidence.run.error is not None:
        return {}
    _measurable(evidence)
    subset = mixed_batch(train, SUBSET)
    loader = shuffled(subset)
    reached = []
    for seed in range(SUBSET_SEEDS):
        with untouched(program, evidence.seed + seed):
            program.train_loader = loader
            for _ in range(max(1, SUBSET_STEPS // len(loader))):
                program.run_epoch()
            reached.append(evidence.measure(subset)[0])
    constant = evidence.constant_loss
    learnt = all(loss < HALF * constant for loss in reached)
    return {"examples": len(subset.y), "constant": constant, "reached, by seed": reached, "learnt": learnt}


class _AsFed(nn.Module):
    """The model, called as the program calls it."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.model, self._program = program.model, program

    def forward(self, x: Any) -> Any:
        """What the program gives for inputs."""
        return self._program.outputs(x)


def _measurable(evidence: Evidence) -> None:
    if evidence.program.loss_fn is None:
        raise NotAskedError("the program has no loss_fn")
    if evidence.tensors_out:
        raise NotAskedError(evidence.tensors_out)


def shuffled(examples: Examples) -> DataLoader[Any]:
    """Examples in batches of training's size, in another order each time."""
    return DataLoader(examples.dataset(), examples.batch_size, shuffle=True)


def mixed_batch(train: Examples, size: int = BATCH) -> Examples:
    """Examples of as many classes as there are, in turn; of other targets the first ones."""
    rows = torch.arange(min(size, len(train.y)))
    if not train.y.is_floating_point() and train.y.ndim == 1:
        order = train.y.argsort(stable=True)
        starts: dict[int, int] = {}
        turn = []
        for row in order.tolist():
            label = int(train.y[row])
            turn.append((starts.setdefault(label, 0), label, row))
            starts[label] += 1
        rows = torch.tensor([row for _, _, row in sorted(turn)[:size]])
    return train.part(rows)


def attainable(evidence: Evidence, batch: Examples) -> float:
    """The lowest loss that any outputs could have on a batch: smoothing and mixing keep it above 0."""
    outputs = evidence.measure(batch)[2]
    if outputs is None:
        return 0.0
    return lowest_loss(evidence.own_loss, outputs, outputs, batch.y, rate=0.3, steps=200)


def rates(evidence: Evidence) -> dict[str, Any]:
    """Rung 5: what the finder suggests beside the rate that is used."""
    program = evidence.program
    if evidence.train is None or evidence.run.error:
        return {}
    _measurable(evidence)
    for reason in (several_optimizers, closures, unseen_updates):
        if text := reason(evidence.run.recording, evidence.spec):
            raise NotAskedError(text)
    optimizer = program.optimizers[0]
    used = [group["lr"] for group in optimizer.param_groups]
    with untouched(program, evidence.seed), _without_scheduler(optimizer):
        loader, loss_fn = shuffled(evidence.train), evidence.own_loss
        try:
            result = find_lr(_AsFed(program), loader, optimizer, loss_fn, steps=SWEEP)
        except (ValueError, TypeError) as error:
            raise NotAskedError(f"the finder refuses: {error}") from error
    rates, losses = list(result.learning_rates), list(result.losses)
    return {"used": used, "suggested": result.suggestion, "why": result.reason, "rates": rates, "losses": losses}


@contextmanager
def _without_scheduler(optimizer: Optimizer) -> Iterator[None]:
    """The optimizer as it was before a scheduler was attached: with its own step, and the rates that it was made with.

    A scheduler puts a wrapper that counts in the place of `step`, by which the finder knows it, and may have set the
    first rate to 0 for a warm-up.
    """
    wrapped = vars(optimizer).pop("step") if hasattr(optimizer.step, SCHEDULED) else None
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group.get("initial_lr", group["lr"])
    try:
        yield
    finally:
        if wrapped is not None:
            optimizer.step = wrapped  # type: ignore[method-assign]
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


def run(evidence: Evidence) -> dict[str, Any]:
    """Rung 6: the curves."""
    rows = evidence.run.rows
    curves = {**losses(rows), "validation metric": [row.val_metric for row in rows]}
    return curves if any(math.isfinite(value) for values in curves.values() for value in values) else {}


def losses(rows: Sequence[EpochRow]) -> dict[str, list[float]]:
    """The losses of a run, epoch by epoch."""
    return {
        "training loss": [row.train_loss for row in rows],
        "validation loss": [row.val_loss for row in rows],
    }


def errors(evidence: Evidence) -> dict[str, Any]:
    """Rung 7: accuracy by confidence on validation examples, or absolute errors from the smallest to the largest."""
    val, outputs = evidence.val, evidence.run.outputs[1]
    if val is not None and outputs is not None and outputs.shape == val.y.shape and val.y.is_floating_point():
        return {"absolute errors, deciles": tenths((outputs - val.y).abs())}
    if val is None or outputs is None or evidence.spec.task != "classification" or outputs.ndim != 2:
        return {}
    sure, answer = outputs.softmax(1).max(1)
    right = (answer == val.y[: len(answer)]).float()
    parts = [part for part in sure.argsort().tensor_split(GROUPS) if len(part)]
    return {
        "confidence": [float(sure[part].mean()) for part in parts],
        "accuracy": [float(right[part].mean()) for part in parts],
    }


MEASURES = {1: data, 2: baselines, 3: one_batch, 4: small_subset, 5: rates, 6: run, 7: errors}
