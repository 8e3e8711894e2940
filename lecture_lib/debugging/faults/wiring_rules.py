"""Rules about parameters: those a loss depends on, those a model registers, those an optimizer holds, those declared.

Each is a function of the recording and the spec alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from torch import nn

from .._engine.assumptions import NotAskedError, Rule, assumes, closures
from .._engine.events import Backward, Recording, Step
from .._engine.reference_parts import declared
from ..program import Spec
from .finding import Finding

MOSTLY = 0.8  # of an optimizer's steps


def named(recording: Recording, ids: Iterable[int]) -> list[str]:
    """The names of parameters, in the model's order."""
    wanted = set(ids)
    return [name for key, name in recording.names.items() if key in wanted]


def shortened(names: list[str]) -> str:
    """A few of many names."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def graph_was_seen(recording: Recording) -> bool:
    """Whether the leaves of at least one graph are known."""
    return any(event.leaves for event in recording.of(Backward))


def unregistered(recording: Recording, spec: Spec) -> Finding | None:
    """P01, P02: the loss depends on tensors that neither model nor optimizer knows."""
    optimised = frozenset().union(*recording.optimised)
    for key, place in recording.strangers.items():
        if key in optimised or not (place or isinstance(recording.tensors[key], nn.Parameter)):
            continue
        kind, _, name = place.partition(" ")
        shape = list(recording.tensors[key].shape)
        if not name and key in recording.lasting:
            raise NotAskedError(f"the loss depends on a parameter {shape} that stays, and is not kept in the model")
        where = f"kept in {name}" if name else "made anew in each forward"
        return Finding("P02" if kind == "tensor" else "P01", f"the loss depends on a tensor {shape}, {where}")
    return None


def optimizer_of_another_model(recording: Recording, spec: Spec) -> Finding | None:
    """P04: the optimizer holds parameters that are not the model's, and that no loss depends on."""
    if not recording.optimised or not graph_was_seen(recording):
        return None
    held = recording.optimised[-1]
    stale = held - recording.names.keys() - recording.reached
    if not stale:
        return None
    return Finding("P04", f"{len(stale)} of the optimizer's {len(held)} parameters are not in the model")


def not_in_the_optimizer(recording: Recording, spec: Spec) -> Finding | None:
    """P03, P08: parameters get gradients, and no optimizer holds them."""
    if not recording.optimised or optimizer_of_another_model(recording, spec):
        return None
    held = frozenset().union(*recording.optimised)
    first, last = recording.trainable[0], recording.trainable[-1]
    left_out = [key for key in recording.names if key in last and key in recording.reached | (last - first)]
    left_out = [key for key in left_out if key not in held and not declared(recording.names[key], spec.frozen)]
    if left_out and recording.moved.issuperset(left_out):
        names = shortened(named(recording, left_out))
        raise NotAskedError(f"parameters change, and no optimizer that was given holds them: {names}")
    left_out = [key for key in left_out if key not in recording.moved]
    if not left_out:
        return None
    later = [key for key in left_out if key not in first]
    if later:
        return Finding("P08", f"trainable since a later epoch, in no optimizer: {shortened(named(recording, later))}")
    if recording.stepped_before:
        left = shortened(named(recording, left_out))
        return Finding("P08", f"trainable, in no optimizer, which has been stepping since an earlier phase: {left}")
    return Finding("P03", f"they get gradients, and no optimizer holds them: {shortened(named(recording, left_out))}")


def frozen_undeclared(recording: Recording, spec: Spec) -> Finding | None:
    """P06: parameters that do not ask for a gradient, and are not declared frozen."""
    if not recording.trainable:
        return None
    # What moves without a gradient, such as a teacher that follows the weights, is meant to have none.
    free = recording.ever_trainable | recording.moved
    frozen = [name for key, name in recording.names.items() if key not in free and not declared(name, spec.frozen)]
    if not frozen:
        return None
    return Finding("P06", f"requires_grad is False: {shortened(frozen)}", {"names": frozen})


def no_gradient_arrives(recording: Recording, spec: Spec) -> Finding | None:
    """G20, P15: parameters that ask for a gradient, and get none: outputs depend on them, or not."""
    if not graph_was_seen(recording):
        return None
    asking = recording.trainable[-1] & recording.names.keys()
    asking -= recording.moved - frozenset().union(*recording.optimised)  # moved by hand, such as a teacher
    missing = [key for key in asking - recording.reached if not declared(recording.names[key], spec.frozen)]
    if not missing:
        return None
    cut = [key for key in missing if recording.modules_of.get(key, "") in recording.called]
    if recording.influential is not None:
        cut = [key for key in missing if key in recording.influential]
    names = shortened(named(recording, cut or missing))
    if cut:
        return Finding("G20", f"used in forward, and the loss does not depend on them: {names}")
    return Finding("P15", f"no output depends on them: {names}")


def untied(recording: Recording, spec: Spec) -> Finding | None:
    """P11: a pair that is declared one tensor is two."""
    if not recording.untied:
        return None
    return Finding("P11", f"declared one, and two tensors: {' and '.join(recording.untied[0])}")


@assumes(closures)
def gradient_of_anothers_loss(recording: Recording, spec: Spec) -> Finding | None:
    """Of optimizers that take turns, one steps on gradients that hold the loss of another, as nothing cleared them.

    Only where its own loss reaches its own parameters alone, as a critic's does: several losses may train one trunk.
    """
    everywhere = frozenset[int]().union(*recording.owned)
    passes: list[tuple[frozenset[int], set[int]]] = []  # what each reached, and which optimizers have used it
    mixed, steps = Counter[int](), Counter[int]()
    for event in recording.events:
        if isinstance(event, Step):
            steps[event.optimizer] += not math.isnan(event.norm)
            for leaves, users in passes:
                if leaves & recording.owned[event.optimizer]:
                    users.add(event.optimizer)
        elif isinstance(event, Backward) and event.leaves is not None:
            for turn, own in enumerate(recording.owned):
                before = next((users for leaves, users in reversed(passes) if leaves & own), set[int]())
                alone = event.leaves & everywhere <= own and event.leaves & own
                # Used by another and not by this one, and still there as this one's own pass begins.
                mixed[turn] += bool(alone and before and turn not in before and turn in event.held)
            passes.append((event.leaves, set()))
    for turn, count in mixed.items():
        if count >= max(2, MOSTLY * steps[turn]):
            text = f"in {count} of {steps[turn]} steps of optimizer {turn + 1} the gradient held that of a loss that "
            text += "another one had used for its step; clear this one's gradients before its own backward"
            return Finding(None, text, {"steps": count}, certain=False, where="step")
    return None


WIRING_RULES: tuple[Rule, ...] = (
    unregistered,
    optimizer_of_another_model,
    not_in_the_optimizer,
    frozen_undeclared,
    no_gradient_arrives,
    gradient_of_anothers_loss,
    untied,
)
