"""Parameters that outputs depend on though no loss reaches them, and tied ones that have come apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .events import Recording

if TYPE_CHECKING:
    from .evidence import Evidence


def untied(evidence: Evidence) -> list[tuple[str, str]]:
    """The pairs that are declared one tensor and are two."""
    model = evidence.program.model
    pairs = [(a, b, attribute(model, a), attribute(model, b)) for a, b in evidence.spec.tied]
    return [(a, b) for a, b, first, second in pairs if first is not second or first is None]


def influential(evidence: Evidence, recording: Recording) -> frozenset[int] | None:
    """Ids of parameters that no loss reached and that change the outputs when they change; None where unknown."""
    if evidence.train is None:
        return None
    missing = [
        (key, p)
        for key, p in ((id(p), p) for p in evidence.program.model.parameters())
        if key not in recording.reached and p.requires_grad
    ]
    examples = evidence.train.part(slice(0, 8))
    before = evidence.measure(examples)[2] if missing else None
    influencing = set()
    for key, parameter in missing:
        value = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter).to(parameter))
            after = evidence.measure(examples)[2]
            parameter.copy_(value)
        if before is not None and after is not None and not torch.equal(before, after):
            influencing.add(key)
    return frozenset(influencing) if before is not None else None


def attribute(model: Any, path: str) -> Any:
    """What a dotted path names inside of a model; None where it names nothing."""
    for name in path.split("."):
        model = getattr(model, name, None)
    return model
