"""Watch a training loop that knows nothing of it, and write down what happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ._engine.events import Backward, Batch, Break, Forward, LossCall, Mark, Recording, Step
from ._engine.gradients import SCALED_BY, at_a_step, compare, dense, detached, flat_gradient, leaves_of, lost_in_float16
from ._engine.inspection import WatchedLoader, all_warnings, checksums, fingerprints, gets_closure, held_by, where_is
from ._engine.listener import Listener

WITH_MODES = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
LOOKS = 12  # steps at the start whose gradients are compared, then two of every RARELY
RARELY = 100
SOMETIMES = 7  # events, after which what may change only between epochs is looked at
FED = 12  # batches of inputs that are kept, of training and of evaluation
KEPT = 40  # losses whose outputs and targets are kept


class _Hook:
    """A hook that stays behind when its model is copied or written to a file: a copy is none of the recorder's."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __call__(self, *args: Any) -> None:
        self._call(*args)

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """What a copy gets instead."""
        return _no_hook, ()


def _no_hook() -> Callable[..., None]:
    return _hear_nothing


def _hear_nothing(*_args: Any) -> None:
    """The hook of a copy."""


def _any_gradient(parameters: Iterable[Tensor]) -> bool:
    return any(p.grad is not None and bool(dense(p.grad).ne(0).any()) for p in parameters)


class Recorder:
    """Writes events of a model's training into a `Recording` while it is entered.

    Steps are looked at closely at the start (12), then 2 of every 100: there losses are seen and backward passes
    computed a second time. Evaluations are always seen; what runs inside `torch.compile` never is.

    Args:
        model: what is trained; several models as an `nn.ModuleList`.
        optimizers: what train it.

    """

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self.recording = Recording()
        self._listener = Listener(self.loss, self._backward_begins)
        self._model, self._optimizers = model, list(optimizers)
        self._attached = ExitStack()
        self._losses: list[Tensor] = []  # PyTorch's, with a graph, since the last backward
        self._own: list[Tensor] = []  # the program's own, the same
        self._steps = self._backwards = 0
        self._waiting = self._inside = False
        self._fresh: dict[int, Tensor] = {}  # since the last step: parameter id -> gradient
        self._last_fresh: dict[int, Tensor] = {}
        named = list(model.named_parameters())
        self._parameters = {id(parameter): parameter for _, parameter in named}
        self.recording.names = {id(parameter): name for name, parameter in named}
        for module_name, module in model.named_modules():
            for parameter in module.parameters(recurse=False):
                self.recording.modules_of.setdefault(id(parameter), module_name)
        self.recording.stepped_before = any(optimizer.state for optimizer in self._optimizers)
        for optimizer in self._optimizers:
            parameters = {id(parameter): parameter for group in optimizer.param_groups for parameter in group["params"]}
            self._parameters |= parameters
            self.recording.owned.append(frozenset(parameters))
            self.recording.maximised |= any(group.get("maximize") for group in optimizer.param_groups)
        self._last_gradients: dict[int, Tensor] = {}
        self._modal = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, WITH_MODES)]
        self.recording.modal = tuple(name for name, _ in self._modal)
        self._unreached = dict(self._parameters)
        self._kept = 0
        self._called_hooks: dict[str, Any] = {}
        self.recording.tensors.update(self._parameters)
        self.recording.optimizers = len(self._optimizers)
        self._sums: dict[int, float] = {}

    def __enter__(self) -> Recorder:
        """Attach hooks."""
        self._sums = checksums(self._parameters)
        for name, module in self._model.named_modules():
            hook = module.register_forward_hook(_Hook(self._module_called(name)))
            self._called_hooks[name] = hook
            self._attached.callback(hook.remove)
        roots = list(self._model) if isinstance(self._model, nn.ModuleList) else [self._model]
        for root in roots:
            self._attached.callback(root.register_forward_pre_hook(_Hook(self.forward)).remove)
        for number, optimizer in enumerate(self._optimizers):
            self._attached.callback(optimizer.register_step_pre_hook(_Hook(self._step(number))).remove)
        caught = self._attached.enter_context(all_warnings())
        self._attached.callback(lambda: self.recording.warnings.extend(caught))
        self._attached.enter_context(self._listener)
        return self

    def __exit__(self, *error: Any) -> None:
        """Take the hooks away."""
        self._attached.close()
        sums = checksums(self._parameters)
        self.recording.moved = frozenset(key for key, checksum in sums.items() if checksum != self._sums[key])

    def mark(self, name: str) -> None:
        """Note where something begins or ends."""
        self.recording.events.append(Mark(name, _any_gradient(self._model.parameters())))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Note nothing for a while."""
        # The tensors are shared, so that no other tensor gets the id of one that was noted.
        kept, self.recording = self.recording, Recording(tensors=self.recording.tensors)
        inside, self._inside = self._inside, True
        try:
            yield
        finally:
            self.recording, self._inside = kept, inside

    def watched(self, loader: Iterable[Any], inputs_of: Callable[[Any], Any]) -> WatchedLoader:
        """A loader whose batches are noted."""

        def note(batch: Any) -> None:
            inputs = inputs_of(batch)
            if isinstance(inputs, Tensor) and inputs.ndim:
                self.recording.events.append(Batch(fingerprints(inputs)))

        return WatchedLoader(loader, note)

    def loss(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> None:
        """Note a loss and keep it for the next backward."""
        if self._inside:
            return
        events = self.recording.events
        value = float(result.detach()) if result.numel() == 1 else math.nan
        keep, self._kept = self._kept < KEPT, self._kept + 1
        names = ("input", "target", "weight")
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        pair = arguments.get("input"), arguments.get("target")
        # A loss without a graph belongs to an evaluation.
        if name != "loss_fn" and not result.requires_grad and all(isinstance(part, Tensor) for part in pair):
            self.recording.evaluated.append(pair)
        outputs, targets = (detached(arguments.pop(part, None)) if keep else None for part in ("input", "target"))
        arguments = {key: detached(option) for key, option in arguments.items()}
        total = value if result.numel() == 1 else float(result.detach().double().sum())
        events.append(LossCall(name, outputs, targets, arguments, value, total, result.requires_grad))
        if not math.isfinite(value) and result.numel() == 1:
            first = args[0] if args else None
            largest = 0.0
            if isinstance(first, Tensor) and first.numel():
                largest = float(first.detach().abs().nan_to_num(math.inf).max())
            self._broke("loss", largest)
        if result.requires_grad and result.numel() == 1:
            (self._own if name == "loss_fn" else self._losses).append(result)

    def _broke(self, quantity: str, outputs: float) -> None:
        if self.recording.broke is None:
            largest = max((float(p.detach().abs().max()) for p in self._parameters.values() if p.numel()), default=0.0)
            self.recording.broke = Break(quantity, outputs, largest, len(self.recording.of(Step)))

    @property
    def _looking(self) -> bool:
        return self._steps < LOOKS or self._steps % RARELY < 2

    def _module_called(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if self._waiting or torch.is_grad_enabled():
                self.recording.called.add(name)

        return hook

    def forward(self, module: nn.Module, args: Any) -> None:
        """Note that the model is called, with these arguments."""
        grad = torch.is_grad_enabled()
        evaluating = tuple(name for name, layer in self._modal if not layer.training)
        self.recording.events.append(Forward(grad, module.training, evaluating))
        fed = self.recording.fed[grad]
        if len(fed) < FED and args and isinstance(args[0], Tensor):
            # A copy: a loop may fill the same tensor with its next batch.
            fed.append(args[0].detach().clone())
        self._waiting |= grad
        self._listener.attend(self._looking or not grad)

    def _backward_begins(self, tensors: Any, parameters: Any) -> bool:
        """A backward pass begins, or gradients are asked for: those of parameters are a backward pass too."""
        start = tensors if isinstance(tensors, Tensor) else tensors[0] if len(tensors) == 1 else None
        if self._inside or start is None:
            return False
        trains = parameters is None or any(id(parameter) in self._parameters for parameter in parameters)
        if trains:
            self._backward(start, parameters is None)
        return trains

    def _backward(self, start: Tensor, kept: bool) -> None:
        self._waiting, self._backwards = False, self._backwards + 1
        if self._looking or len(self.recording.events) % SOMETIMES == 0:
            trainable = frozenset(key for key, p in self._parameters.items() if p.requires_grad)
            self.recording.trainable = [*self.recording.trainable[:1], trainable]
            self.recording.ever_trainable |= trainable
        if not self._looking or start.grad_fn is None:
            # The value stays unread: on a GPU each step would wait for it.
            self.recording.events.append(Backward(kept=kept, losses=len(self._losses) or len(self._own)))
            self._losses, self._own = [], []
            return
        value = float(start.detach()) if start.numel() == 1 else math.nan
        leaves, half = leaves_of(start)
        self.recording.reached.update(map(id, leaves))
        for leaf in leaves:
            if id(leaf) not in self.recording.names and id(leaf) not in self._parameters:
                self.recording.tensors[id(leaf)] = leaf
                if id(leaf) in self.recording.strangers:
                    self.recording.lasting.add(id(leaf))
                self.recording.strangers.setdefault(id(leaf), where_is(leaf, self._model))
        scale = residual = underflow = math.nan
        differentiable = [leaf for leaf in leaves if leaf.requires_grad]
        # One kind only: PyTorch's losses inside of the program's own would be counted twice.
        losses = self._losses or self._own
        self._inside = True
        try:
            fresh = flat_gradient(start, differentiable)
            if losses:
                scale, residual = compare(fresh, flat_gradient(torch.stack(losses).sum(), differentiable))
            if half:
                underflow = lost_in_float16(fresh, flat_gradient(start * SCALED_BY, differentiable))
        except RuntimeError:  # a graph that cannot be walked twice; the author's own backward will say so if it must
            fresh = {}
        finally:
            self._inside = False
        for key, gradient in fresh.items():
            # Several passes before a step add up, as they do in .grad.
            self._fresh[key] = self._fresh[key] + gradient if key in self._fresh else gradient
        ids = frozenset(map(id, leaves))
        owned = self.recording.owned if len(self._optimizers) > 1 else []
        held = frozenset(turn for turn, own in enumerate(owned) if _any_gradient(self._parameters[key] for key in own))
        self.recording.events.append(Backward(value, kept, len(losses), scale, residual, ids, underflow, held))
        self._losses, self._own = [], []

    def _step(self, number: int) -> Any:
        def hook(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            looking = self._looking
            if looking:
                parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
                ids = frozenset(map(id, parameters))
                self.recording.optimised = [*self.recording.optimised[:1], held_by(self._optimizers)]
            rates = tuple(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)
            # A list, because entries are deleted on the way.
            for key in [key for key, p in self._unreached.items() if p.grad is not None]:
                del self._unreached[key]
                self.recording.reached.add(key)
            facts: dict[str, Any] = {}
            if looking:
                facts = self._look(parameters)
            facts["closure"] = gets_closure(args, kwargs)
            self.recording.events.append(Step(number, rates, self._backwards, self._waiting, **facts))
            if looking:
                self._last_fresh = self._fresh
                # What other optimizers hold waits for their own steps.
                self._fresh = {key: gradient for key, gradient in self._fresh.items() if key not in ids}
            self._backwards = 0
            if number == len(self._optimizers) - 1:
                self._steps += 1
                # Hooks slow every step down, and modules that were called need them no longer.
                if self._steps == LOOKS:
                    for name in self._called_hooks.keys() & self.recording.called:
                        self._called_hooks[name].remove()
                self._listener.attend(self._looking)

        return hook

    def _look(self, parameters: Sequence[Tensor]) -> dict[str, Any]:
        gradients = {id(p): dense(p.grad) for p in parameters if p.grad is not None}
        facts = at_a_step(parameters, gradients, self._fresh, self._last_gradients, self._last_fresh)
        self._last_gradients = {key: gradient.clone() for key, gradient in gradients.items()}
        if not all(bool(gradient.isfinite().all()) for gradient in gradients.values()):
            self._broke("gradient", 0.0)
        return facts
