"""Good parts to put in the place of a program's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..program import Batch, Program, Spec
from .assumptions import NotAskedError
from .run_data import index_left_out

Loss = Callable[[Any, Any], Tensor]


def declared(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, or lies inside of one."""
    return any(fnmatchcase(name, pattern) or name.startswith(pattern.rstrip(".") + ".") for pattern in patterns)


def standard_loss(outputs: Tensor, targets: Tensor, spec: Spec) -> Tensor:
    """The usual loss of the task, of unnormalised outputs. Raises NotAskedError where none fits."""
    if not targets.is_floating_point() and outputs.ndim == targets.ndim + 1 and outputs.numel() != targets.numel():
        scores = outputs if outputs.shape[2:] == targets.shape[1:] else outputs.movedim(-1, 1)
        weight = None if spec.class_weights is None else scores.new_tensor(list(spec.class_weights))
        return F.cross_entropy(scores, targets.long(), weight=weight, ignore_index=index_left_out(spec))
    if outputs.numel() != targets.numel():
        raise NotAskedError(f"outputs {list(outputs.shape)} do not fit targets {list(targets.shape)}")
    targets = targets.reshape(outputs.shape).to(outputs)
    if spec.task in ("multi-label", "segmentation", "classification"):
        return F.binary_cross_entropy_with_logits(outputs, targets)
    return F.mse_loss(outputs, targets)


def reference_step(spec: Spec, loss_fn: Loss, scheduler: Any = None) -> Callable[[Program, Batch], None]:
    """zero_grad, forward, loss, backward, clip, step, as the spec declares them; for one run.

    A schedule that is given here takes a step after each of the optimizer's.
    """
    window: list[Batch] = []

    def mean_loss(program: Program) -> Tensor:
        for optimizer in program.optimizers:
            optimizer.zero_grad()
        total = torch.zeros(())
        for batch in window:
            inputs, targets = program.parts(batch)
            loss = loss_fn(program.outputs(inputs), targets) / len(window)
            loss.backward()
            total = total + loss.detach().cpu()
        for name, parameter in program.model.named_parameters():
            if declared(name, spec.frozen):
                parameter.grad = None
        if spec.max_norm is not None:
            nn.utils.clip_grad_norm_(program.model.parameters(), spec.max_norm)
        return total

    def step(program: Program, batch: Batch) -> None:
        for name, module in program.model.named_modules():
            if name and declared(name, spec.eval_modules):
                module.eval()
        window.append(batch)
        if len(window) < spec.accumulate:
            return
        asks = [optimizer for optimizer in program.optimizers if _wants_closure(optimizer)]
        if not asks:
            mean_loss(program)
        for optimizer in program.optimizers:
            if optimizer in asks:
                optimizer.step(lambda: float(mean_loss(program)))
            else:
                optimizer.step()
        if scheduler is not None:
            scheduler.step()
        window.clear()

    return step


def _wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def reference_model(x: Tensor, outputs: Tensor, causal: bool) -> nn.Module:
    """A plain network from inputs like x to outputs like these. Raises NotAskedError where none is known."""
    if outputs.ndim == 1 or outputs.ndim == 2:
        wide = outputs.shape[1] if outputs.ndim == 2 else 1
        body: nn.Module
        if not x.is_floating_point() and x.ndim == 2:
            # One id more than x has, for those that only validation has.
            body = _Reader(int(x.max()) + 2, wide, pooled=True)
        elif x.is_floating_point() and x.ndim == 4 and min(x.shape[2:]) >= 6:
            body = _pictures(x.shape[1], wide)
        elif x.is_floating_point():
            size = x[0].numel()
            # Normalised first, so that the scale of the inputs does not matter.
            body = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(size), *_two_layers(size), nn.Linear(128, wide))
        else:
            raise NotAskedError(f"no reference model for inputs {list(x.shape)}")
        return nn.Sequential(body, nn.Flatten(0)) if outputs.ndim == 1 else body
    if not x.is_floating_point() and x.ndim == 2 and outputs.ndim == 3:
        classes_last = outputs.shape[1] == x.shape[1]
        wide = outputs.shape[2] if classes_last else outputs.shape[1]
        return _Reader(int(x.max()) + 2, wide, both_ways=not causal, classes_last=classes_last)
    raise NotAskedError(f"no reference model from inputs {list(x.shape)} to outputs {list(outputs.shape)}")


def _two_layers(size: int) -> tuple[nn.Module, ...]:
    return nn.Linear(size, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()


def _pictures(channels: int, wide: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        *(nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, wide)),
    )


class _Reader(nn.Module):
    """Ids [B, T] to scores of each position [B, T, C] or [B, C, T], or of the whole [B, C]."""

    def __init__(
        self, ids: int, wide: int, pooled: bool = False, both_ways: bool = False, classes_last: bool = True
    ) -> None:
        super().__init__()
        self.ids, self.pooled, self.classes_last = ids, pooled, classes_last
        self.embedding = nn.Embedding(ids, 32)
        self.reader = nn.GRU(32, 64, batch_first=True, bidirectional=both_ways)
        self.head = nn.Linear(128 if both_ways or pooled else 64, wide)

    def forward(self, ids: Tensor) -> Tensor:
        """The scores."""
        read, _ = self.reader(self.embedding(ids.clamp(0, self.ids - 1)))
        if self.pooled:
            read = torch.cat([read.mean(dim=1), read.amax(dim=1)], dim=1)
        scores: Tensor = self.head(read)
        return scores if self.pooled or self.classes_last else scores.transpose(1, 2)


def reference_optimizer(model: nn.Module, spec: Spec) -> torch.optim.Optimizer:
    """Adam over all parameters that are not declared frozen."""
    trained = [parameter for name, parameter in model.named_parameters() if not declared(name, spec.frozen)]
    return torch.optim.Adam(trained, lr=2e-3)
