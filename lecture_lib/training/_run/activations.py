"""What comes out of each layer for a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..._common.palette import BLUE, VERMILION
from ..._common.randomness import preserved_random_streams
from .batches import forward, unpack
from .preserve import preserved_modes
from .snapshot import Snapshot, buffers_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Activation:
    """What came out of a layer for a batch.

    Attributes:
        layer: its name in the model.
        kind: its class.
        mean: of all entries.
        deviation: their standard deviation.
        zeros: share of entries that are exactly 0.
        dead: share of units (channels) that are 0 for every example; None for outputs [B].

    """

    layer: str
    kind: str
    mean: float
    deviation: float
    zeros: float
    dead: float | None


class ActivationStatistics(list[Activation]):
    """A row for each layer without layers of its own, in the order in which they ran."""

    def __str__(self) -> str:
        width = max([len(row.layer) + len(row.kind) for row in self], default=0) + 3
        lines = [f"{'layer':{width}}      mean  deviation  zeros  dead"]
        for row in self:
            dead = "" if row.dead is None else f"{row.dead:5.0%}"
            name = f"{row.layer} ({row.kind})"
            lines.append(f"{name:{width}} {row.mean:9.3g}  {row.deviation:9.3g}  {row.zeros:5.0%} {dead}")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the standard deviation (left axis, log) and the share of zeros (right axis) by layer."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        names = [f"{row.layer}\n{row.kind}" for row in self]
        axes.plot(names, [row.deviation for row in self], "o-", color=BLUE, label="standard deviation")
        axes.set_yscale("log")
        axes.set_xlabel("layer, in order")
        axes.set_ylabel("standard deviation of the activations")
        right = axes.twinx()
        right.plot(names, [row.zeros for row in self], "s--", color=VERMILION, label="share of zeros (right)")
        right.set_ylim(-0.05, 1.05)
        right.set_ylabel("share of zeros (fraction)")
        handles = axes.get_legend_handles_labels()[0] + right.get_legend_handles_labels()[0]
        axes.legend(handles=handles, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return figure


def activation_statistics(model: nn.Module, batch: Any) -> ActivationStatistics:
    """Send one batch through the model in its present modes and look at what comes out of each layer.

    Nothing is left behind: no graph, no hook, and buffers, modes and random streams are as before.

    Args:
        model: any module; layers that give no floating-point tensor are left out.
        batch: (inputs [B, ...], labels), or of another structure that `train` takes.

    Returns:
        A row for each layer.

    """
    rows = ActivationStatistics()
    names = {module: name or "model" for name, module in model.named_modules() if not list(module.children())}

    def look(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and output.numel():
            rows.append(_describe(names[module], module, output.detach()))

    hooks = [module.register_forward_hook(look) for module in names]
    buffers = Snapshot(buffers_of(model))  # batch normalisation in train mode moves its running statistics
    try:
        with torch.no_grad(), preserved_random_streams(), preserved_modes(model):
            own = next(model.parameters(), None)
            forward(model, unpack(batch, 1).to(torch.device("cpu") if own is None else own.device))
    finally:
        buffers.restore()
        for hook in hooks:
            hook.remove()
    return rows


def _describe(name: str, module: nn.Module, output: Tensor) -> Activation:
    # In float64, because float16 sums overflow; MPS has none.
    values, zero = output.double() if output.device.type != "mps" else output.float(), output == 0
    dead = None
    if output.ndim >= 2:
        # Units are channels: all axes but the second of [B, C, ...], the last of [B, T, C] of linear layers.
        unit = 1 if output.ndim != 3 or isinstance(module, nn.Conv1d) else 2
        dead = float(zero.movedim(unit, 0).flatten(1).all(1).double().mean())
    deviation = float(values.std(correction=0))
    return Activation(name, type(module).__name__, float(values.mean()), deviation, float(zero.double().mean()), dead)
