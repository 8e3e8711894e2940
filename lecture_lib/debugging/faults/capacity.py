"""Rung 3, by comparison: a model that is too small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from .._engine.assumptions import NotAskedError
from .._engine.changes import Change
from .._engine.comparing import confirmed, room, trials
from .._engine.evidence import Evidence
from ..program import Program
from .finding import Finding
from .loop_rules import always_clipped

NARROW = 8  # units of a layer; wider ones are not suspected


def too_small(evidence: Evidence) -> Finding | None:
    """A20: a narrow layer, and training examples are learnt with a wide network beside the model."""
    if not room(evidence) or evidence.train is None or always_clipped(evidence.run.recording):
        return None  # a network beside the model would not be clipped with it
    if len(evidence.program.optimizers) != 1:
        raise NotAskedError(f"the program has {len(evidence.program.optimizers)} optimizers")
    affine = [
        m for m in evidence.program.model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.RNNBase))
    ]
    widths = [m.hidden_size if isinstance(m, nn.RNNBase) else int(m.weight.shape[0]) for m in affine]
    outputs = evidence.measure(evidence.train.part(slice(0, 8)))[2]
    if len(widths) < 2 or min(widths[:-1]) > NARROW or outputs is None or outputs.ndim not in (2, 3):
        return None
    sign = f"the narrowest layer has {min(widths[:-1])} units"
    wide = with_a_wide_network(evidence, outputs)
    found = confirmed(evidence, "A20", sign, wide)
    if found and evidence.val is not None and trials(evidence).gain(wide, validation=True).share <= 0:
        return None  # it has learnt noise by heart
    return found


def with_a_wide_network(evidence: Evidence, outputs: Tensor) -> Change:
    """The outputs are the model's plus those of a wide network, trained with it."""
    train = evidence.train
    assert train is not None

    @contextmanager
    def change(program: Program) -> Iterator[None]:
        side = wide_network(train.x, outputs)

        def hook(module: nn.Module, args: tuple[Any, ...], given: Tensor) -> Tensor:
            return given + side(args[0])

        optimizer = program.optimizers[0]
        group = {"params": list(side.parameters())}
        optimizer.add_param_group(group)
        handle = program.model.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()
            optimizer.param_groups.pop()
            for parameter in side.parameters():
                optimizer.state.pop(parameter, None)

    return change


def wide_network(x: Tensor, outputs: Tensor) -> nn.Module:
    """From inputs like x to outputs like these: two wide layers, or over a sequence a convolution of the past."""
    if x.is_floating_point():
        size = x[0].numel()
        return nn.Sequential(
            *(nn.Flatten(), nn.Linear(size, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()),
            nn.Linear(256, outputs.shape[1]),
        )
    return _OverIds(int(x.max()) + 1, outputs.shape[1], outputs.ndim == 3)


class _OverIds(nn.Module):
    """Ids [B, T] to scores for each position [B, C, T], or for the whole [B, C]."""

    def __init__(self, ids: int, classes: int, each: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 64)
        self.past = nn.Conv1d(64, 256, 3)
        self.head = nn.Conv1d(256, classes, 1)
        self.each = each

    def forward(self, ids: Tensor) -> Tensor:
        """The scores."""
        x = nn.functional.pad(self.embedding(ids).transpose(1, 2), (2, 0))
        scores: Tensor = self.head(self.past(x).relu())
        return scores if self.each else scores.mean(dim=2)
