"""Where a program's parts differ from the reference parts, seen without training: listed, and never an accusation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ..program import Program, Spec
from .assumptions import NotAskedError
from .difference import Difference
from .differences_at_start import SIGNS
from .gradients import dense
from .instrumentation import why_not
from .reference_parts import declared
from .replace_layers import without_dropout
from .replace_training import beside_the_standard_loss, declares_more, has_hooks, is_standard, own_loop
from .replacement import Profile
from .run_data import index_left_out
from .runs import Runs

STEPS = 4  # of the optimizer that are compared with the reference's
SAME = 1e-3  # relative; what rounding leaves
FALLEN = 0.01  # of the largest rate


def differences(runs: Runs, profile: Profile) -> tuple[list[Difference], list[str]]:
    """All differences, and what could not be compared, with the reason."""
    listed, refused = [], []
    for ask in COMPARISONS:
        try:
            difference = ask(runs, profile)
        except Exception as error:
            refused.append(f"{ask.__name__.replace('_', ' ')}, beside the reference: {why_not(error)}")
            continue
        if difference is not None:
            listed.append(difference)
    return listed, refused


class _Window:
    """A loader of a few batches that notes those it has given since this was last asked."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self._batches, self.recent_batches = list(batches), list[Any]()

    def __iter__(self) -> Any:
        for batch in self._batches:
            self.recent_batches.append(batch)
            yield batch

    def __len__(self) -> int:
        return len(self._batches)

    def since(self) -> list[Any]:
        window, self.recent_batches = self.recent_batches, []
        return window


def gradient_at_the_step(runs: Runs, profile: Profile) -> Difference | None:
    """The gradient that each step gets beside that of the declared loss on the batches since the step before."""
    with runs.fresh(0) as (program, spec):
        if not (own_loop(program) or has_hooks(program) or declares_more(spec)):
            return None
        if len(program.optimizers) != 1 or program.loss_fn is None or program.train_loader is None:
            raise NotAskedError("the program does not have exactly one optimizer, one loss_fn and one train_loader")
        count = STEPS * spec.accumulate
        loader = program.train_loader = _Window(list(islice(program.train_loader, count)))
        texts: list[str] = []
        used: list[bool] = []

        def beside_the_reference(*_: Any) -> None:
            used.append(True)
            window = loader.since()
            if texts or not window:
                return
            own = _gradients(program, spec)
            wanted = _reference_gradients(program, spec, window)
            if len(window) != spec.accumulate and len(used) < STEPS:
                texts.append(f"a step after {len(window)} batches, declared are {spec.accumulate}")
            else:
                texts.extend(filter(None, [_apart(own, wanted, len(used))]))

        handle = program.optimizers[0].register_step_pre_hook(beside_the_reference)
        try:
            # Dropout would leave out other units in the reference's forward pass.
            with without_dropout(program):
                program.run_epoch()
        finally:
            handle.remove()
    if not loader.recent_batches and not used:
        raise NotAskedError("the loop does not read train_loader")
    if len(used) < STEPS and not texts:
        texts.append(f"{len(used)} steps in {count} batches")
    return Difference("step", texts[0]) if texts else None


def _gradients(program: Program, spec: Spec) -> list[Tensor | None]:
    kept = [p for name, p in program.model.named_parameters() if not declared(name, spec.frozen)]
    return [None if p.grad is None else dense(p.grad).clone() for p in kept]


def _reference_gradients(program: Program, spec: Spec, window: Sequence[Any]) -> list[Tensor | None]:
    """What zero_grad, forward, loss, backward and clipping give for these batches; all is put back."""
    model, loss_fn = program.model, program.loss_fn
    assert loss_fn is not None
    kept = [p.grad for p in model.parameters()]
    # The forward pass moves the running statistics of batch normalisation.
    buffers = [buffer.detach().clone() for buffer in model.buffers()]
    try:
        for parameter in model.parameters():
            parameter.grad = None
        with torch.enable_grad():
            for batch in window:
                inputs, targets = program.parts(batch)
                (loss_fn(program.outputs(inputs), targets) / len(window)).backward()
        for name, parameter in model.named_parameters():
            if declared(name, spec.frozen):
                parameter.grad = None
        if spec.max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), spec.max_norm)
        return _gradients(program, spec)
    finally:
        for parameter, gradient in zip(model.parameters(), kept, strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, before in zip(model.buffers(), buffers, strict=True):
                buffer.copy_(before)


def _apart(own: Sequence[Tensor | None], wanted: Sequence[Tensor | None], number: int) -> str:
    missing = sum(a is None and b is not None for a, b in zip(own, wanted, strict=True))
    pairs = [(a, b) for a, b in zip(own, wanted, strict=True) if a is not None and b is not None]
    if missing or not pairs:
        return f"in step {number}, {missing or 'all'} gradients are missing that the reference step has"
    actual, right = (torch.cat([gradient.double().flatten() for gradient in side]) for side in zip(*pairs, strict=True))
    if not float((actual - right).norm()) > SAME * float(right.norm()):
        return ""
    ratio = float(actual.norm() / right.norm().clamp(min=1e-30))
    cosine = float(torch.cosine_similarity(actual, right, dim=0))
    return f"in step {number}, the gradient is {ratio:.3g} times as long as the reference's, their cosine {cosine:.2f}"


def value_and_gradient_of_the_loss(runs: Runs, profile: Profile) -> Difference | None:
    """The loss on the same outputs beside the standard loss of the task, and its gradient."""
    comparison = beside_the_standard_loss(profile)
    if comparison is None or is_standard(profile):
        return None
    own, standard, ratio, cosine = comparison
    gradient = f"its gradient is {ratio:.3g} times as long, their cosine {cosine:.2f}"
    return Difference("loss", f"the loss is {float(own):.3g}, the standard one {float(standard):.3g}; {gradient}")


def sequence_of_rates(runs: Runs, profile: Profile) -> Difference | None:
    """A rate that is next to nothing for half of the run."""
    flat = profile.rate_curve
    if not flat or max(flat) <= 0:
        return None
    late = max(flat[len(flat) // 2 :])
    text = f"from half of the run on the rate is {late / max(flat):.2g} times its largest"
    return Difference("schedule", text) if late < FALLEN * max(flat) else None


def labels_as_declared(runs: Runs, profile: Profile) -> Difference | None:
    """Labels outside of the declared classes or of 0 to 1, and classes that only validation has."""
    train, val, spec = profile.train, profile.val, profile.spec
    if train is None:
        return None
    of_yes_and_no = profile.outputs is not None and profile.outputs[0].numel() == train.y[0].numel()
    if of_yes_and_no and spec.task in ("classification", "multi-label", "segmentation"):
        low, high = float(train.y.min()), float(train.y.max())
        return Difference("labels", f"targets lie from {low:g} to {high:g}") if low < 0 or high > 1 else None
    if train.y.is_floating_point():
        return None
    ignored = index_left_out(spec)
    classes = [set(split.y[split.y != ignored].unique().tolist()) for split in (train, val) if split is not None]
    outside = [label for label in classes[0] if spec.classes is not None and not 0 <= label < spec.classes]
    if outside:
        return Difference("labels", f"label {outside[0]}, and {spec.classes} classes are declared")
    if len(classes) == 2 and (new := classes[1] - classes[0]):
        return Difference("labels", f"validation has classes that are not in training: {sorted(new)[:4]}")
    return None


def evaluated_twice(runs: Runs, profile: Profile) -> Difference | None:
    """G24: the same examples in evaluation mode, one time after the other."""
    text = "in evaluation mode the same examples give other outputs each time"
    return Difference("metric", text, "G24") if profile.random else None


Comparison = Callable[[Runs, Profile], Difference | None]
COMPARISONS: tuple[Comparison, ...] = (
    gradient_at_the_step,
    value_and_gradient_of_the_loss,
    sequence_of_rates,
    labels_as_declared,
    evaluated_twice,
    *SIGNS,
)
