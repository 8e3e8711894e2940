"""Rungs 2 and 3: what a model's outputs depend on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...training._run.preserve import preserved_modes
from .._engine.assumptions import NotAskedError, draws_again
from .._engine.changes import DROPOUT, Substitution, drawn_large
from .._engine.events import Batch, Forward
from .._engine.evidence import Evidence
from .._engine.inspection import fingerprints
from .._engine.preserve import untouched
from .finding import Finding

SAME = 1e-4  # of outputs that rounding alone parts, relative to their spread
PROBED = 64  # sequences, at most, whose later positions are exchanged
AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def outputs_of(evidence: Evidence, x: Any) -> Tensor | None:
    """Outputs for these inputs in evaluation mode; None where they are no tensor or the model objects."""
    model = evidence.program.model
    try:
        with preserved_modes(model), torch.no_grad():
            model.eval()
            outputs = evidence.outputs(x)
    except Exception:
        return None
    return outputs.cpu() if isinstance(outputs, Tensor) else None


def differ(a: Tensor, b: Tensor, scale: Tensor) -> bool:
    """Whether two outputs differ by more than rounding does."""
    return a.shape != b.shape or float((a - b).abs().max()) > SAME * max(float(scale.float().std()), 1e-6)


def inputs_ignored(evidence: Evidence) -> Finding | None:
    """E02: outputs are the same for other inputs, whatever the weights; or training feeds something else."""
    if evidence.train is None or len(evidence.train.x) < 16:
        return None
    first, second = evidence.train.x[:8], evidence.train.x[8:16]
    a, b = outputs_of(evidence, first), outputs_of(evidence, second)
    if a is not None and b is not None and a.shape == b.shape and len(a) == 8 and torch.equal(a, b):
        with untouched(evidence.program, evidence.seed) as program, drawn_large(program):
            a, b = outputs_of(evidence, first), outputs_of(evidence, second)
        if a is not None and b is not None and torch.equal(a, b):
            return Finding("E02", "outputs are the same, digit for digit, for eight other examples")
    outputs_of(evidence, second)
    after_second = outputs_of(evidence, first)
    again = outputs_of(evidence, first)
    once_more = outputs_of(evidence, first)
    if after_second is None or again is None or once_more is None:
        return None
    if differ(after_second, again, again) and not differ(again, once_more, again):
        return Finding("E02", "outputs depend on the batch before, not only on the inputs")
    return _fed_something_else(evidence)


def _fed_something_else(evidence: Evidence) -> Finding | None:
    recording = evidence.run.recording
    fed = [fingerprints(inputs) for inputs in recording.fed[True] if inputs.ndim]
    late: list[bool] = []
    k, latest, before = 0, tuple[int, ...](), tuple[int, ...]()
    for event in recording.events:
        if isinstance(event, Batch):
            before, latest = latest, event.rows
        elif isinstance(event, Forward) and event.grad and k < len(fed):
            late.append(bool(before) and fed[k] == before and fed[k] != latest)
            k += 1
    if len(late) > 3 and sum(late) >= 0.8 * len(late):
        return Finding("E02", "the model is fed the inputs of the batch before, with the targets of this one")
    loader_rows = {row for batch in recording.of(Batch) for row in batch.rows}
    same = len(fed) > 2 and all(rows == fed[0] for rows in fed) and len({b.rows for b in recording.of(Batch)}) > 2
    if same and not set(fed[0]) <= loader_rows:
        return Finding("E02", f"the model was fed the same inputs in {len(fed)} batches, and none of the loader's")
    return None


def outputs_random(evidence: Evidence) -> Finding | None:
    """D30, G24: in evaluation mode the same inputs give other outputs each time; because of dropout, or of noise."""
    if evidence.val is None:
        return None
    repeats = [outputs_of(evidence, evidence.val.x[:16]) for _ in range(3)]
    if any(outputs is None for outputs in repeats):
        return None
    first, second, third = (outputs for outputs in repeats if outputs is not None)
    if not (differ(first, second, first) and differ(second, third, first)):
        return None
    if again := draws_again(evidence.run.recording):
        raise NotAskedError(again)
    with Substitution(dict.fromkeys(DROPOUT, lambda function, x, *args, **kwargs: x)):
        still = [outputs_of(evidence, evidence.val.x[:16]) for _ in range(2)]
    if still[0] is not None and still[1] is not None and not differ(still[0], still[1], first):
        return Finding(
            "G24",
            "dropout is on in evaluation mode: a function must be told the mode, training=self.training",
            where="layers",
        )
    return Finding("D30", "in evaluation mode the same validation examples give other outputs each time")


def samples_mixed(evidence: Evidence) -> Finding | None:
    """A11: the output for an example changes with the other examples of its batch, in evaluation mode."""
    if evidence.train is None or evidence.spec.couples_samples or len(evidence.train.x) < 18:
        return None
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is None for m in _modules(evidence)):
        return None  # a matter of its statistics
    x, mates = evidence.train.x[:9], evidence.train.x[9:18]
    before, again = outputs_of(evidence, x), outputs_of(evidence, x)
    if before is None or again is None or differ(before, again, before):
        return None
    if before.ndim == 0 or len(before) != len(x):
        return None
    for position in (0, 4, 8):
        mixed = mates.clone()
        mixed[position] = x[position]
        after = outputs_of(evidence, mixed)
        if after is not None and differ(before[position], after[position], before):
            change = float((before[position] - after[position]).abs().max())
            return Finding("A11", f"with other batch mates the output of example {position} changes by {change:.3g}")
    return None


def batch_axis_lost(evidence: Evidence) -> Finding | None:
    """A13: a batch of one example gives outputs of another rank than a batch of three."""
    if evidence.train is None or len(evidence.train.x) < 3:
        return None
    single, three = outputs_of(evidence, evidence.train.x[:1]), outputs_of(evidence, evidence.train.x[:3])
    if three is None or three.ndim == 0 or len(three) != 3:
        return None
    if single is None:
        return Finding("A13", f"three examples give {list(three.shape)}, a single one is an error")
    if single.shape == (1, *three.shape[1:]):
        return None
    return Finding("A13", f"three examples give outputs {list(three.shape)}, one gives {list(single.shape)}")


def future_read(evidence: Evidence) -> Finding | None:
    """Other inputs at later positions change outputs at earlier ones, which are declared not to see them.

    It need not be declared where the targets are the inputs, one position on: to read the next input is to read the
    answer.
    """
    train, spec = evidence.train, evidence.spec
    if train is None or train.x.ndim not in (2, 3):
        return None
    # Positions may be on the second or the third axis: where either reading sees no future, all is well. Labels may say
    # which it is: one for each position, or the inputs themselves, one position on.
    labelled = train.y.ndim == 2 and not train.y.is_floating_point()
    lengths = dict(enumerate(train.x.shape))
    axes = [n for n in (1, 2) if lengths.get(n, 1) > 1 and (not labelled or lengths[n] == train.y.shape[1])]
    ahead = [n for n in axes if train.x.shape == train.y.shape and _is_next(train.x, train.y, n)]
    if not (spec.causal or ahead):
        return None
    # From all over the data set: sequences that are side by side may end alike.
    x = train.x[:: max(1, -(-len(train.x) // PROBED))]
    changes = [_change_by_the_future(evidence, x, axis) for axis in ahead or axes]
    if not changes or not all(changes):
        return None
    meant = "is declared causal" if spec.causal else "is to give the next input, which is its own target"
    text = f"other inputs at later positions change outputs at earlier ones by {changes[0]:.3g}, and the model {meant}"
    look = "look for a missing mask, padding at both ends or cut off at the wrong one, and layers that read both ways"
    certain = spec.causal and (spec.task == "sequence" or bool(ahead))
    return Finding(None, f"{text}; {look}", {"changes": changes}, certain, where="layers")


def _is_next(x: Tensor, y: Tensor, axis: int) -> bool:
    return torch.equal(y.narrow(axis, 0, y.shape[axis] - 1), x.narrow(axis, 1, x.shape[axis] - 1))


def _change_by_the_future(evidence: Evidence, x: Tensor, axis: int) -> float:
    """How far outputs of the first half move when inputs of the second half come from other examples.

    0 where none does, and where no axis of the outputs is as long as this one.
    """
    length = x.shape[axis]
    early = length // 2
    before, again, after = (outputs_of(evidence, inputs) for inputs in (x, x, of_others_from(x, axis, early)))
    if before is None or again is None or after is None or differ(before, again, before) or length < 2:
        return 0.0
    axes = [place for place in range(1, before.ndim) if before.shape[place] == length and after.shape == before.shape]
    pairs = [(before.narrow(place, 0, early), after.narrow(place, 0, early)) for place in axes]
    # Where there are as many classes as positions, both readings must say so.
    if not pairs or not all(differ(a, b, before) for a, b in pairs):
        return 0.0
    return min(float((a - b).abs().max()) for a, b in pairs)


def of_others_from(x: Tensor, axis: int, start: int) -> Tensor:
    """Each example with what another one has from this position of an axis on."""
    return torch.cat([x.narrow(axis, 0, start), x.roll(1, 0).narrow(axis, start, x.shape[axis] - start)], dim=axis)


def all_affine(evidence: Evidence) -> Finding | None:
    """A09: with several layers the whole model is one affine map, whatever its weights."""
    if evidence.train is None or sum(isinstance(m, AFFINE) for m in _modules(evidence)) < 2:
        return None
    x = evidence.train.x[:16]
    if not x.is_floating_point():
        return _directly_chained(evidence, x)
    a, b = x[:8], x[8:16]
    with untouched(evidence.program, evidence.seed) as program, drawn_large(program):
        # 3 - 2 = 1, so that the bias of an affine map stays.
        outputs = [outputs_of(evidence, inputs) for inputs in (a, b, 3 * a - 2 * b)]
    if any(values is None or values.shape != outputs[0].shape for values in outputs):  # type: ignore[union-attr]
        return None
    first, second, mixed = (values for values in outputs if values is not None)
    off = float((mixed - 3 * first + 2 * second).abs().max()) / max(float(mixed.std()), 1e-9)
    if off > 1e-3 or not mixed.isfinite().all():
        return None
    return Finding("A09", f"f(3a - 2b) = 3 f(a) - 2 f(b) up to {off:.1g} of its spread: the model is affine")


def _directly_chained(evidence: Evidence, x: Tensor) -> Finding | None:
    """For ids: an affine layer whose input is the output of another one, which nothing else uses."""
    made: list[tuple[str, Tensor]] = []
    chained: list[tuple[str, str, Tensor]] = []
    handles = []
    for name, module in evidence.program.model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv1d)):

            def hook(_: nn.Module, args: tuple[Tensor, ...], out: Tensor, name: str = name) -> None:
                chained.extend((before, name, output) for before, output in made if torch.equal(output, args[0]))
                made.append((name, out))

            handles.append(module.register_forward_hook(hook))
    with untouched(evidence.program, evidence.seed) as program, drawn_large(program):
        program.model.eval()
        outputs = evidence.outputs(x)
    for handle in handles:
        handle.remove()
    for before, name, between in chained:
        if isinstance(outputs, Tensor) and uses(outputs, between) == 1:
            return Finding("A09", f"{name} takes the outputs of {before} as they are: both are one affine map")
    return None


def uses(end: Tensor, tensor: Tensor) -> int:
    """How many nodes of the graph of `end` take a tensor."""
    visited, nodes, count = {end.grad_fn}, [end.grad_fn], 0
    while nodes:
        node = nodes.pop()
        for parent, _ in node.next_functions if node is not None else ():
            count += parent is tensor.grad_fn
            if parent is not None and parent not in visited:
                visited.add(parent)
                nodes.append(parent)
    return count


def _modules(evidence: Evidence) -> list[nn.Module]:
    return list(evidence.program.model.modules())


MODEL_RULES = (samples_mixed, batch_axis_lost, future_read)
