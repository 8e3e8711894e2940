"""Parameter groups: weight decay for the matrices, none for biases and normalisation."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from torch import nn

# The normalisations whose scale can have two dimensions or more; that of the others is a vector.
_NORMS_OF_ANY_SHAPE = (nn.LayerNorm, nn.RMSNorm)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the trainable parameters for an optimizer: those that decay, then those that do not.

    Parameters with two dimensions or more decay: the weights of linear layers, convolutions and embeddings. Vectors and
    scalars (biases, scales of normalisations, a temperature) do not. Neither do parameters of any shape that are called
    bias or belong to LayerNorm or RMSNorm: pulling a scale or an offset towards 0 does not make a function simpler. The
    rule is that of nanoGPT. Some leave embeddings out as well, which is impossible when the output layer shares them.

        optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.05), lr=1e-3)

    Source: https://github.com/karpathy/nanoGPT, configure_optimizers; lecture part 3, optimizers.

    Args:
        model: each of its parameters with requires_grad is in exactly one group; a tied one is there once.
        weight_decay: of the first group, 0 or more.

    Returns:
        Two groups, either of which may be empty.

    Raises:
        TypeError, ValueError: weight_decay is not a number of 0 or more, or nothing is trainable.

    """
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, Real):
        raise TypeError(f"weight_decay is {weight_decay!r}; pass a number, 0 or more, such as 0.05.")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay is {weight_decay}; pass a finite number, 0 or more, such as 0.05.")
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, _NORMS_OF_ANY_SHAPE)
        for parameter in module.parameters(recurse=False)
    }
    decayed: list[nn.Parameter] = []
    spared: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():  # gives a tied parameter once
        if not parameter.requires_grad:
            continue
        is_bias = name.rpartition(".")[2] == "bias"
        decays = parameter.ndim >= 2 and not is_bias and id(parameter) not in norms
        (decayed if decays else spared).append(parameter)
    if not decayed and not spared:
        raise ValueError(
            "the model has no trainable parameters. Register them (nn.Parameter, nn.ModuleList), and set "
            "requires_grad=True on those that are to learn."
        )
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]
