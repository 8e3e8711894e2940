"""What the calls of losses were given."""

from __future__ import annotations

from torch import Tensor

from .events import LossCall
from .evidence import Evidence

BINARY = {"binary_cross_entropy", "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"}
NUMBERS = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def calls(evidence: Evidence, *names: str) -> list[LossCall]:
    """The calls of these losses in training whose outputs were kept."""
    recorded = evidence.run.recording.of(LossCall)
    return [call for call in recorded if call.name in names and call.grad and isinstance(call.outputs, Tensor)]


def scores_given(evidence: Evidence) -> list[Tensor]:
    """What PyTorch's losses of classes were given as scores."""
    return [call.outputs for call in calls(evidence, "cross_entropy", "nll_loss")]


def probabilities(outputs: Tensor, dim: int = 1) -> bool:
    """Whether a tensor holds probabilities that add up to 1."""
    if outputs.ndim <= dim or outputs.shape[dim] < 2:
        return False
    total = outputs.double().sum(dim=dim)
    return bool((outputs >= 0).all()) and bool(((total - 1).abs() < CLOSE).all())


CLOSE = 1e-4  # of probabilities that add up to 1
