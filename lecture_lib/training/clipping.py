"""Gradient norms and clipping: by the global norm, which the recipe uses, and two other ways to compare it with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn

from ._run.checks import require_numbers, require_positive

Parameters = Iterable[Tensor] | Tensor
Groups = dict[torch.device, list[Tensor]]


@torch.no_grad()
def clip_by_global_norm(parameters: Parameters, max_norm: float) -> Tensor:
    """Scale all gradients by one factor, so that the norm over all of them is at most max_norm.

    The direction is kept. The factor is max_norm / norm, exactly 1 for a norm at or below max_norm;
    `torch.nn.utils.clip_grad_norm_` divides by norm + 1e-6, so it ends slightly below max_norm. Call it once for each
    optimizer step: after the last backward of the window, and after unscaling under FP16. It does not synchronise with
    the GPU.

    [3, 4] with max_norm 1 has norm 5 and becomes [0.6, 0.8].
    Source: Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063; lecture part 3, clipping.

    Args:
        parameters: those whose .grad is scaled in place, each counted once; without a gradient they do not count.
            Sparse gradients are coalesced.
        max_norm: largest 2-norm of all gradients together, above 0; math.inf only measures.

    Returns:
        The norm before, a scalar; 0 without gradients. When it is not finite, the gradients are as they were. FP32
        squares overflow, so that is also the case for finite gradients above about 1e19.

    Raises:
        TypeError, ValueError: max_norm is not a number above 0.

    """
    require_positive(max_norm, "max_norm")
    groups = gradients_by_device(parameters)
    norm = global_norm(groups)
    scale_to_norm(groups, norm, max_norm)
    return norm


def scale_to_norm(groups: Groups, norm: Tensor | float, max_norm: float) -> None:
    """Scale gradients by max_norm / norm, if that is below 1.

    Args:
        groups: see `gradients_by_device`.
        norm: their global norm. A number saves work where the norm is at most max_norm; with a tensor nothing
            synchronises with the GPU.
        max_norm: above 0.

    """
    if isinstance(norm, Tensor):
        # Not a clamped quotient: max_norm / norm is computed as max_norm * (1 / norm), below 1 for some equal numbers.
        scale = torch.where((norm > max_norm) & norm.isfinite(), max_norm / norm, torch.ones_like(norm))
        for device, gradients in groups.items():
            # One call for all gradients of a device: on a GPU a loop would launch a kernel for each parameter.
            torch._foreach_mul_(gradients, scale.to(device))
    elif max_norm < norm < math.inf:
        for gradients in groups.values():
            torch._foreach_mul_(gradients, max_norm / norm)


@torch.no_grad()
def clip_by_parameter_norm(parameters: Parameters, max_norm: float) -> Tensor:
    """Scale each parameter's gradient by its own factor, so that its own norm is at most max_norm.

    The direction of the whole gradient changes: [3, 4] in two parameters becomes [1, 1] with max_norm 1, where the
    global norm gives [0.6, 0.8]. It is here for comparison (practice problem P6). A gradient whose own norm is not
    finite stays as it was. Arguments and errors are those of `clip_by_global_norm`.

    Returns:
        The global norm before, a scalar.

    """
    require_positive(max_norm, "max_norm")
    groups = gradients_by_device(parameters)
    norm = global_norm(groups)
    for gradients in groups.values():
        scales = (max_norm / torch.stack(_norms(gradients)).nan_to_num(0.0, 0.0)).clamp_(max=1.0)
        torch._foreach_mul_(gradients, scales.unbind())
    return norm


@torch.no_grad()
def clip_by_value(parameters: Parameters, max_value: float) -> Tensor:
    """Move each entry of each gradient into [-max_value, max_value].

    The direction changes: [3, 4] becomes [1, 1] with max_value 1. It is here for comparison. NaN stays NaN and ±inf
    becomes ±max_value, so look at the returned norm.

    Args:
        parameters: as in `clip_by_global_norm`.
        max_value: largest magnitude of an entry, above 0.

    Returns:
        The global norm before, a scalar.

    Raises:
        TypeError, ValueError: max_value is not a number above 0.

    """
    require_positive(max_value, "max_value")
    groups = gradients_by_device(parameters)
    norm = global_norm(groups)
    for gradients in groups.values():
        torch._foreach_clamp_min_(gradients, -max_value)
        torch._foreach_clamp_max_(gradients, max_value)
    return norm


class Gradients:
    """The gradients of some parameters as one vector: its norm, and how to clip it.

    Args:
        parameters: those with the gradients, which are read after the last backward pass of a step.

    """

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    @cached_property
    def groups(self) -> Groups:
        """See `gradients_by_device`."""
        return gradients_by_device(self._parameters)

    @cached_property
    def norm(self) -> Tensor | float:
        """The global norm; on a GPU a tensor, so that the host does not wait for it."""
        norm = global_norm(self.groups)
        if norm.device.type != "cpu":
            return norm
        if norm == math.inf:  # the squares of large finite gradients overflow in FP32
            norm = global_norm(
                {device: [gradient.double() for gradient in group] for device, group in self.groups.items()}
            )
        return norm.item()

    def clip(self, max_norm: float) -> None:
        """Scale all gradients by max_norm / norm where that is below 1."""
        scale_to_norm(self.groups, self.norm, max_norm)
        if not isinstance(self.norm, Tensor):  # on a GPU nobody needs the norm after clipping
            self.norm = min(self.norm, max_norm)


def clip_threshold(norms: Iterable[float], percent: float = 95.0) -> float:
    """Return the norm below which `percent` of a run's gradient norms lie: a limit that clips only the unusual ones.

    Record the norms without clipping, over a few hundred steps after the warm-up:
    `clip_by_global_norm(parameters, math.inf)` measures and changes nothing. Norms that are not finite are left out,
    since such steps say nothing about the usual size. Between two norms the percentile is interpolated, as in
    `numpy.percentile`.
    Source: lecture part 3, clipping.

    Args:
        norms: global norms before clipping, one for each step.
        percent: from 0 to 100.

    Returns:
        The threshold, in the unit of the norms.

    Raises:
        TypeError, ValueError: percent is not a number from 0 to 100; no norm is finite.

    """
    require_numbers(percent=percent)
    if not 0 <= percent <= 100:
        raise ValueError(f"percent is {percent}; pass a number from 0 to 100, such as 95.")
    finite = sorted(float(norm) for norm in norms if math.isfinite(norm))
    if not finite:
        raise ValueError("none of the norms is a finite number: record them over steps that did not overflow.")
    place = (len(finite) - 1) * percent / 100
    below, above = finite[math.floor(place)], finite[math.ceil(place)]
    return below + (place - math.floor(place)) * (above - below)


def gradients_by_device(parameters: Parameters) -> Groups:
    """Each gradient that has entries, once; of a sparse one its values."""
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    groups: Groups = {}
    # A parameter that is listed twice must be neither counted nor scaled twice.
    for parameter in {id(parameter): parameter for parameter in parameters}.values():
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.is_sparse:
            # Entries that share an index add up, and only their sums have the gradient's norm.
            parameter.grad = gradient = gradient.coalesce()
            gradient = gradient.values()
        # A gradient without entries has no largest magnitude, and nothing to clip.
        if gradient.numel():
            groups.setdefault(gradient.device, []).append(gradient)
    return groups


def global_norm(groups: Groups) -> Tensor:
    """The 2-norm of all gradients as one vector, on the device of the first of them."""
    if not groups:
        return torch.zeros(())
    first = next(iter(groups))
    norms = [norm.to(first) for gradients in groups.values() for norm in _norms(gradients)]
    return torch.linalg.vector_norm(torch.stack(norms))


def gradient_norms(model: nn.Module) -> dict[str, float | None]:
    """Each layer's gradient norm after a backward; None where no parameter of it has a gradient.

    Args:
        model: its modules with parameters of their own, by name.

    """
    norms: dict[str, float | None] = {}
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        gradients = [parameter.grad for parameter in own if parameter.grad is not None]
        if own:
            # The root module's own name is empty.
            norms[name or "model"] = math.hypot(*map(float, _norms(gradients))) if gradients else None
    return norms


def _norms(gradients: list[Tensor]) -> list[Tensor]:
    """Each gradient's own 2-norm; in FP32 for half precision, where a norm above 65504 would overflow."""
    if any(gradient.dtype in (torch.float16, torch.bfloat16) for gradient in gradients):
        gradients = [gradient.float() if gradient.itemsize == 2 else gradient for gradient in gradients]
    return list(torch._foreach_norm(gradients))
