"""What a recorder writes down: plain data, in the order in which it happened."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Batch:
    """A loader gave a batch.

    Attributes:
        rows: a number for each example, equal for equal inputs.

    """

    rows: tuple[int, ...]


@dataclass(frozen=True)
class Forward:
    """The model was called.

    Attributes:
        grad: whether a graph was recorded.
        training: mode of the model.
        evaluating: names of normalisation and dropout layers in evaluation mode.

    """

    grad: bool
    training: bool
    evaluating: tuple[str, ...]


@dataclass(frozen=True)
class LossCall:
    """One of PyTorch's losses was called, or the program's own.

    Attributes:
        name: such as 'cross_entropy'; 'loss_fn' for the program's.
        outputs, targets: detached.
        options: weight, reduction, ignore_index as they were passed.
        value: the loss; NaN for one that is no scalar.
        total: the sum of its entries.
        grad: whether a graph was recorded.

    """

    name: str
    outputs: Any
    targets: Any
    options: dict[str, Any]
    value: float
    total: float
    grad: bool


@dataclass(frozen=True)
class Backward:
    """A backward pass.

    Attributes:
        value: what it started from; NaN where nobody looked.
        kept: whether the gradient goes into .grad by itself.
        losses: how many losses were called since the last backward.
        scale: of its gradient against that of these losses' sum; NaN where there was none.
        residual: what that scale leaves over, relative.
        leaves: ids of the tensors at the leaves of the graph; None where nobody looked.
        held: positions of the optimizers whose parameters hold a gradient that is not 0 as it begins.
        underflow: share of the gradient's entries that are 0 only because float16 has no smaller numbers; NaN without
            float16.

    """

    value: float = math.nan
    kept: bool = True
    losses: int = 0
    scale: float = math.nan
    residual: float = math.nan
    leaves: frozenset[int] | None = None
    underflow: float = math.nan
    held: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Step:
    """An optimizer's step, as it begins.

    Attributes:
        optimizer: its position.
        learning_rates: of its groups.
        backwards: since its last step.
        waiting: whether a forward pass waits for its backward.
        norm: of the gradient that the optimizer sees; 0 for none; NaN where nobody looked.
        fresh: norm of what the backward passes since the last step gave; the same.
        scale: of the seen gradient against the fresh one.
        residual: what that scale leaves over, relative to the seen gradient.
        added: residual of the seen gradient against the fresh one and the last seen one together.
        stale: residual of the seen gradient against what the backward passes before the last step gave.
        missing: ids of the optimizer's parameters without a gradient.
        finite: whether gradient and parameters are.
        closure: whether the step was given a function that computes the loss.

    """

    optimizer: int
    learning_rates: tuple[float, ...]
    backwards: int
    waiting: bool
    norm: float = math.nan
    fresh: float = math.nan
    scale: float = math.nan
    residual: float = math.nan
    added: float = math.nan
    stale: float = math.nan
    missing: frozenset[int] = frozenset()
    finite: bool = True
    closure: bool = False


@dataclass(frozen=True)
class Mark:
    """Where something begins or ends: 'epoch', 'evaluation', 'end of epoch', 'end of evaluation'.

    Attributes:
        name: what.
        gradients: whether any parameter holds a gradient that is not 0.

    """

    name: str
    gradients: bool = False


Event = Batch | Forward | LossCall | Backward | Step | Mark


@dataclass(frozen=True)
class Break:
    """The first thing that was not finite.

    Attributes:
        quantity: 'loss' or 'gradient'.
        outputs: magnitude of the largest output, of which the loss was computed; infinite where one was not finite.
        largest: magnitude of the model's largest weight then.
        step: how many steps had been taken.

    """

    quantity: str
    outputs: float
    largest: float
    step: int


@dataclass
class Recording:
    """The events of a run, and what was seen around it.

    Attributes:
        events: in order.
        names: id -> name, of the model's parameters.
        trainable: ids of parameters with requires_grad, at the first backward and at the last one.
        ever_trainable: ids of parameters that had requires_grad at any backward.
        moved: ids of parameters that ended with other values than they began with.
        optimizers: how many there are.
        owned: ids of the parameters of each optimizer, as the recording began.
        optimised: ids of the parameters of all optimizers, at the first step and at the last one.
        called: names of the modules whose forward ran in training.
        reached: ids of the parameters that had a gradient at a step, or were a leaf of a graph.
        modules_of: parameter id -> name of its module.
        modal: names of normalisation and dropout layers.
        strangers: id -> where a leaf that the model does not register was found; '' where it was not.
        lasting: ids of such leaves that later graphs have, too.
        influential: ids of parameters on which the outputs' values depend; None where nobody looked.
        stepped_before: whether an optimizer had taken steps before the recording.
        untied: pairs of names that are declared one and are two, before the run or after it.
        maximised: whether an optimizer climbs.
        warnings: texts of warnings.
        fed: inputs of the model's first calls with a graph (True) and without (False).
        broke: the first thing that was not finite; None where all was.
        evaluated: outputs and targets of the last losses that were computed without a graph.
        tensors: what ids stand for, so that they stay taken.

    """

    events: list[Event] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    trainable: list[frozenset[int]] = field(default_factory=list)
    ever_trainable: set[int] = field(default_factory=set)
    moved: frozenset[int] = frozenset()
    optimizers: int = 1
    owned: list[frozenset[int]] = field(default_factory=list)
    optimised: list[frozenset[int]] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)
    modules_of: dict[int, str] = field(default_factory=dict)
    modal: tuple[str, ...] = ()
    strangers: dict[int, str] = field(default_factory=dict)
    lasting: set[int] = field(default_factory=set)
    influential: frozenset[int] | None = None
    stepped_before: bool = False
    untied: list[tuple[str, str]] = field(default_factory=list)
    maximised: bool = False
    warnings: list[str] = field(default_factory=list)
    fed: dict[bool, list[Any]] = field(default_factory=lambda: {True: [], False: []})
    broke: Break | None = None
    evaluated: deque[tuple[Any, Any]] = field(default_factory=lambda: deque(maxlen=20))
    tensors: dict[int, Any] = field(default_factory=dict)

    def of(self, kind: type) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]
