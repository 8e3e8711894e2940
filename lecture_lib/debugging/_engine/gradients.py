"""Gradients beside each other, and the leaves of a graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

SCALED_BY = 2.0**12  # brings what float16 rounds to 0 back, mostly without overflow


def flat_gradient(start: Tensor, leaves: Sequence[Tensor]) -> dict[int, Tensor]:
    """The gradient of a scalar by each leaf that it depends on, by id; the graph stays."""
    if not leaves:
        return {}
    raw = torch.autograd.grad(start, list(leaves), retain_graph=True, allow_unused=True)
    dense = [gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient for gradient in raw]
    return {id(leaf): gradient.detach() for leaf, gradient in zip(leaves, dense, strict=True) if gradient is not None}


def compare(actual: Mapping[int, Tensor], expected: Mapping[int, Tensor]) -> tuple[float, float]:
    """The scale c for which c * expected is nearest to actual, and what is left over, relative to actual.

    NaN for both where either is zero or empty, or not finite.
    """
    # In double precision, because sums over all weights lose digits in float32.
    inner = total = square = 0.0
    for key in actual.keys() | expected.keys():
        a, b = actual.get(key), expected.get(key)
        if a is not None:
            total += float(a.double().pow(2).sum())
        if b is not None:
            square += float(b.double().pow(2).sum())
        if a is not None and b is not None:
            inner += float((a.double() * b.double()).sum())
    if not (0 < total < math.inf and 0 < square < math.inf) or not math.isfinite(inner):
        return math.nan, math.nan
    scale = inner / square
    return scale, math.sqrt(max(total - scale * inner, 0.0) / total)


def lost_in_float16(plain: Mapping[int, Tensor], scaled: Mapping[int, Tensor]) -> float:
    """The share of entries that are 0 in a gradient, and are not in that of the loss times SCALED_BY."""
    lost = sum(int(((plain[key] == 0) & (scaled[key] != 0)).sum()) for key in plain.keys() & scaled.keys())
    return lost / max(sum(gradient.numel() for gradient in plain.values()), 1)


def leaves_of(start: Tensor) -> tuple[list[Tensor], bool]:
    """The tensors with requires_grad that a tensor was computed from, and whether a graph node names float16."""
    if start.grad_fn is None:
        return ([start] if start.requires_grad else []), start.dtype == torch.float16
    leaves: dict[int, Tensor] = {}
    visited, nodes, half = {start.grad_fn}, [start.grad_fn], False
    while nodes:
        node = nodes.pop()
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            leaves[id(leaf)] = leaf
            half |= leaf.dtype == torch.float16
        half |= any(getattr(entry, "dtype", None) == torch.float16 for entry in getattr(node, "_input_metadata", ()))
        for parent, _ in node.next_functions:
            if parent is not None and parent not in visited:
                visited.add(parent)
                nodes.append(parent)
    return list(leaves.values()), half


def detached(value: Any) -> Any:
    """A tensor without its graph; anything else as it is."""
    return value.detach() if isinstance(value, Tensor) else value


def dense(gradient: Tensor) -> Tensor:
    """A gradient with all its entries."""
    gradient = gradient.detach()
    return gradient.to_dense() if gradient.is_sparse else gradient


def norm_of(gradients: Mapping[int, Tensor]) -> float:
    """The 2-norm of all of them together."""
    return math.sqrt(sum(float(gradient.double().pow(2).sum()) for gradient in gradients.values()))


def at_a_step(
    parameters: Sequence[Tensor],
    gradients: dict[int, Tensor],
    fresh: Mapping[int, Tensor],
    last_gradients: Mapping[int, Tensor],
    last_fresh: Mapping[int, Tensor],
) -> dict[str, Any]:
    """What a `Step` says of gradients: those that the optimizer sees, beside fresh ones and those of the step before.

    Args:
        parameters: of the optimizer.
        gradients: their .grad, by id.
        fresh: what the backward passes since the last step gave, of any parameters.
        last_gradients: .grad at the step before.
        last_fresh: what the backward passes before that step gave.

    """
    ids = {id(p) for p in parameters}
    fresh = {key: gradient for key, gradient in fresh.items() if key in ids}
    scale, residual = compare(gradients, fresh)
    both = {key: g + last_gradients[key] if key in last_gradients else g for key, g in fresh.items()}
    added_scale, added = compare(gradients, both)
    return {
        "norm": norm_of(gradients),
        "fresh": norm_of(fresh),
        "scale": scale,
        "residual": residual,
        "added": added if last_gradients and added_scale > 0 else math.nan,
        "stale": compare(gradients, last_fresh)[1],
        "missing": frozenset(id(p) for p in parameters if p.grad is None),
        "finite": all(bool(t.isfinite().all()) for t in (*gradients.values(), *(p.detach() for p in parameters))),
    }
