"""Where a program's parts differ from the reference parts, seen without training: listed, and never an accusation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ..program import Program, Spec
from .assumptions import NotAskedError
from .difference import Difference
from .gradients import dense
from .observing import why_not
from .reference_parts import declared, standard_loss
from .replace_layers import without_dropout
from .replace_training import declares_more, has_hooks, is_standard, own_loop
from .replacement import Watched
from .runs import Runs

STEPS = 4  # of the optimizer that are compared with the reference's
SAME = 1e-3  # relative; what rounding leaves
LEFT = 0.03  # of a gradient's length, below which clipping leaves hardly anything
USUAL = (0.4, 2.5)  # deviation of a weight matrix, relative to PyTorch's
LARGE = 3.0  # root mean square of inputs from which on they are far from standardised, and one over it
UNEVEN = 10.0  # largest deviation of a feature over the median one
FALLEN = 0.01  # of the largest rate
ORDERED = 8.0  # standard deviations by which successive targets agree more than in a shuffled order


def differences(runs: Runs, watched: Watched) -> tuple[list[Difference], list[str]]:
    """All differences, and what could not be compared, with the reason."""
    found, refused = [], []
    for part, ask in COMPARISONS:
        try:
            what = ask(runs, watched)
        except Exception as error:
            refused.append(f"{part} beside the reference: {why_not(error)}")
            continue
        if what:
            found.append(Difference(part, what))
    return found, refused


class _Window:
    """A loader of a few batches that notes those it has given since this was last asked."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self._batches, self.given = list(batches), list[Any]()

    def __iter__(self) -> Any:
        for batch in self._batches:
            self.given.append(batch)
            yield batch

    def __len__(self) -> int:
        return len(self._batches)

    def since(self) -> list[Any]:
        given, self.given = self.given, []
        return given


def gradient_at_the_step(runs: Runs, watched: Watched) -> str:
    """The gradient that each step gets beside that of the declared loss on the batches since the step before."""
    with runs.fresh(0) as (program, spec):
        if not (own_loop(program) or has_hooks(program) or declares_more(spec)):
            return ""
        if len(program.optimizers) != 1 or program.loss_fn is None or program.train_loader is None:
            raise NotAskedError("the program has not one optimizer, one loss_fn and one train_loader")
        count = STEPS * spec.accumulate
        loader = program.train_loader = _Window(list(islice(program.train_loader, count)))
        texts: list[str] = []
        used: list[bool] = []
        shortest: list[float] = []

        def beside_the_reference(*_: Any) -> None:
            used.append(True)
            window = loader.since()
            if texts or not window:
                return
            own = _gradients(program, spec)
            wanted, left = _reference_gradients(program, spec, window)
            shortest.append(left)
            if len(window) != spec.accumulate and len(used) < STEPS:
                texts.append(f"a step after {len(window)} batches, declared are {spec.accumulate}")
            else:
                texts.extend(filter(None, [_apart(own, wanted, len(used))]))

        handle = program.optimizers[0].register_step_pre_hook(beside_the_reference)
        try:
            with without_dropout(program):
                program.run_epoch()
        finally:
            handle.remove()
    if not loader.given and not used:
        raise NotAskedError("the loop does not read train_loader")
    if len(used) < STEPS and not texts:
        texts.append(f"{len(used)} steps in {count} batches")
    if not texts and max(shortest, default=1.0) < LEFT:
        texts.append(f"clipping as it is declared leaves {max(shortest):.2g} of each gradient, at most")
    return texts[0] if texts else ""


def _gradients(program: Program, spec: Spec) -> list[Tensor | None]:
    kept = [p for name, p in program.model.named_parameters() if not declared(name, spec.frozen)]
    return [None if p.grad is None else dense(p.grad).clone() for p in kept]


def _reference_gradients(program: Program, spec: Spec, window: Sequence[Any]) -> tuple[list[Tensor | None], float]:
    """What zero_grad, forward, loss, backward and clipping give for these batches, and what share clipping leaves.

    All is put back.
    """
    model, loss_fn = program.model, program.loss_fn
    assert loss_fn is not None
    kept = [p.grad for p in model.parameters()]
    buffers = [one.detach().clone() for one in model.buffers()]
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
        left = 1.0
        if spec.max_norm is not None:
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), spec.max_norm))
            left = min(1.0, spec.max_norm / max(norm, 1e-30))
        return _gradients(program, spec), left
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
        return f"in step {number} {missing or 'all'} gradients are missing that the reference step has"
    given, right = (torch.cat([one.double().flatten() for one in side]) for side in zip(*pairs, strict=True))
    if not float((given - right).norm()) > SAME * float(right.norm()):
        return ""
    ratio = float(given.norm() / right.norm().clamp(min=1e-30))
    cosine = float(torch.cosine_similarity(given, right, dim=0))
    return (
        f"in step {number} the gradient is {ratio:.3g} times as long as the reference step's, their cosine {cosine:.2f}"
    )


def value_and_gradient_of_the_loss(runs: Runs, watched: Watched) -> str:
    """The loss on the same outputs beside the standard loss of the task, and its gradient."""
    with runs.fresh(0) as (program, spec):
        own = program.loss_fn
        if own is None or is_standard(own) or watched.train is None or watched.outputs is None:
            return ""
        y = watched.train.y[: len(watched.outputs)]
        outputs = watched.outputs.detach().clone().requires_grad_()
        values = [own(outputs.to(program.device), y.to(program.device)).cpu(), standard_loss(outputs, y, spec)]
        gradients = [torch.autograd.grad(value, outputs)[0].flatten().double() for value in values]
    cosine = float(torch.cosine_similarity(gradients[0], gradients[1], dim=0))
    ratio = float(gradients[0].norm() / gradients[1].norm().clamp(min=1e-30))
    if cosine > 1 - SAME and 0.9 < ratio < 1.1:
        return ""
    a, b = (float(value.detach()) for value in values)
    gradient = f"its gradient is {ratio:.3g} times as long, their cosine {cosine:.2f}"
    return f"the loss is {a:.3g}, the standard one {b:.3g}; {gradient}"


def sequence_of_rates(runs: Runs, watched: Watched) -> str:
    """A rate that is next to nothing for half of the run."""
    flat = watched.rate_curve
    if not flat or max(flat) <= 0:
        return ""
    late = max(flat[len(flat) // 2 :])
    return f"from half of the run on the rate is {late / max(flat):.2g} times its largest" * (late < FALLEN * max(flat))


def initial_weights(runs: Runs, watched: Watched) -> str:
    """Weight matrices that are far larger or smaller than PyTorch draws them, or far from a mean of 0."""
    with runs.fresh(0) as (program, _):
        embeddings = {id(m.weight) for m in program.model.modules() if isinstance(m, nn.Embedding)}
        for name, parameter in program.model.named_parameters():
            if parameter.ndim < 2 or parameter.numel() < 64 or id(parameter) in embeddings:
                continue
            expected = 1 / math.sqrt(3 * parameter.numel() / len(parameter))
            spread, mean = float(parameter.detach().std()) / expected, float(parameter.detach().mean()) / expected
            if not USUAL[0] < spread < USUAL[1] or abs(mean) > 1:
                return f"{name} has a deviation {spread:.2g} times as large as PyTorch draws it, and mean {mean:.2g}"
    return ""


def settings_of_the_optimizer(runs: Runs, watched: Watched) -> str:
    """Parameters that no optimizer holds, and rates outside of what is usual."""
    with runs.fresh(0) as (program, spec):
        held = {id(p) for one in program.optimizers for group in one.param_groups for p in group["params"]}
        free = [name for name, p in program.model.named_parameters() if id(p) not in held or not p.requires_grad]
        free = [name for name in free if not declared(name, spec.frozen)]
        if held and free:
            return f"not trained, and not declared frozen: {', '.join(free[:4])}"
        adaptive = [hasattr(one, "defaults") and "betas" in one.defaults for one in program.optimizers]
    rates = [rate for group in watched.rates for rate in group if rate > 0]
    low, high = (1e-5, 0.03) if adaptive and all(adaptive) else (1e-4, 1.0)
    off = [rate for rate in rates if not low <= rate <= high]
    return f"a learning rate of {off[0]:.2g}" if off else ""


def inputs_as_they_come(runs: Runs, watched: Watched) -> str:
    """Inputs far from standardised, in batches of one or of all examples, or in the order of their targets."""
    train = watched.train
    if train is None:
        return ""
    count = len(train.y)
    if train.batch_size <= 2 or train.batch_size > count / 3:
        return f"batches of {train.batch_size}, of {count} examples"
    y = train.y.reshape(count, -1)[:, 0].double()
    if float(y.std()) > 0 and count > 40:
        z = float(torch.corrcoef(torch.stack([y[1:], y[:-1]]))[0, 1]) * math.sqrt(count)
        if z > ORDERED:
            return f"successive targets agree {z:.0f} standard deviations more than in a shuffled order"
    if not train.x.is_floating_point() or train.x.ndim < 2:
        return ""
    x = train.x.double()
    size = float(x.square().mean().sqrt())
    deviations = x.flatten(1).std(dim=0)
    lively = deviations[deviations > 0]
    if not 1 / LARGE < size < LARGE:
        return f"inputs have a root mean square of {size:.3g}"
    if x.ndim == 2 and len(lively) and float(lively.max() / lively.median()) > UNEVEN:
        return f"the deviations of features lie from {float(lively.min()):.3g} to {float(lively.max()):.3g}"
    return ""


def labels_as_declared(runs: Runs, watched: Watched) -> str:
    """Labels outside of the declared classes, classes that one split has and the other not, targets far from 1."""
    train, val, spec = watched.train, watched.val, watched.spec
    if train is None:
        return ""
    if train.y.is_floating_point():
        y = train.y.double()
        size = float(y.square().mean().sqrt())
        return f"targets have a root mean square of {size:.3g}" if not 1 / 30 < size < 30 else ""
    ignored = -100 if spec.ignore_index is None else spec.ignore_index
    known = [set(one.y[one.y != ignored].unique().tolist()) for one in (train, val) if one is not None]
    outside = [label for label in known[0] if spec.classes is not None and not 0 <= label < spec.classes]
    if outside:
        return f"label {outside[0]}, and {spec.classes} classes are declared"
    if len(known) == 2 and known[1] - known[0]:
        return f"validation has classes that training has not: {sorted(known[1] - known[0])[:4]}"
    return ""


def evaluated_twice(runs: Runs, watched: Watched) -> str:
    """The same examples in evaluation mode, one time after the other."""
    return "in evaluation mode the same examples give other outputs each time" if watched.random else ""


Comparison = Callable[[Runs, Watched], str]
COMPARISONS: tuple[tuple[str, Comparison], ...] = (
    ("step", gradient_at_the_step),
    ("loss", value_and_gradient_of_the_loss),
    ("schedule", sequence_of_rates),
    ("optimizer", settings_of_the_optimizer),
    ("initialisation", initial_weights),
    ("inputs", inputs_as_they_come),
    ("labels", labels_as_declared),
    ("metric", evaluated_twice),
)
