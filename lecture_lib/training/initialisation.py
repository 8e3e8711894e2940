"""How a network starts: its initial weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SCHEMES = ("pytorch", "xavier", "he")
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def initialise(model: nn.Module, scheme: str, *, generator: torch.Generator | None = None) -> dict[str, str]:
    """Draw the weights of all linear and convolution layers anew; embeddings and norms stay.

    'pytorch' is what nn.Linear does by itself: uniform in ±1/√fan_in, standard deviation 1/√(3 fan_in), six times less
    variance than 'he', which is normal with standard deviation √(2/fan_in) and keeps the size of activations through
    ReLU. 'xavier' is uniform in ±√(6/(fan_in + fan_out)), for tanh.
    Source: Glorot and Bengio 2010; He et al. 2015, arXiv:1502.01852; lecture part 3.

    Args:
        model: changed in place; biases become 0 under 'xavier' and 'he'.
        scheme: 'pytorch', 'xavier' or 'he'.
        generator: where the draws come from; default: torch's global stream.

    Returns:
        What was drawn, by layer: {"0": "uniform ±0.125", ...}.

    Raises:
        ValueError: an unknown scheme, or a model without such layers.

    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}; pass one of {', '.join(map(repr, SCHEMES))}.")
    distributions = {}
    for name, layer in model.named_modules():
        if isinstance(layer, _LAYERS):
            distributions[name or "model"] = _draw(layer, scheme, generator)
    if not distributions:
        raise ValueError("the model has no linear or convolution layer to initialise.")
    return distributions


@torch.no_grad()
def _draw(layer: nn.Module, scheme: str, generator: torch.Generator | None) -> str:
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    fan_in, _ = nn.init._calculate_fan_in_and_fan_out(weight)
    if scheme == "he":
        nn.init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
        distribution = f"normal, standard deviation {math.sqrt(2 / fan_in):.3g}"
    elif scheme == "xavier":
        nn.init.xavier_uniform_(weight, generator=generator)
        distribution = f"uniform ±{math.sqrt(6 / sum(nn.init._calculate_fan_in_and_fan_out(weight))):.3g}"
    else:
        nn.init.uniform_(weight, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in), generator=generator)
        distribution = f"uniform ±{1 / math.sqrt(fan_in):.3g}"
    if isinstance(bias, Tensor):
        bound = 1 / math.sqrt(fan_in) if scheme == "pytorch" else 0.0
        nn.init.uniform_(bias, -bound, bound, generator=generator)
    return distribution
