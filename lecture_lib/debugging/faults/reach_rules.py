"""Rung 4: what the model is to answer must lie where its last activation can go."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._engine.changes import ActivationRecorder, drawn_large
from .._engine.evidence import Evidence
from .._engine.preserve import untouched
from .finding import Finding

REACH = {
    **dict.fromkeys(("sigmoid", "softmax"), (0.0, 1.0)),
    **dict.fromkeys(("relu", "softplus"), (0.0, math.inf)),
    **dict.fromkeys(("log_softmax", "logsigmoid"), (-math.inf, 0.0)),
    "tanh": (-1.0, 1.0),
}
"""Activation -> the smallest and largest number that it gives."""
MANY = 0.05  # share of targets
ASKED = 256  # examples


def targets_out_of_reach(evidence: Evidence) -> Finding | None:
    """An output is an activation's, many targets lie beyond what that can give, and the loss is lower there.

    No more than a guess, since a bound may be meant; but then the loss should not ask for what is beyond it.
    """
    program, train, own = evidence.program, evidence.train, evidence.program.loss_fn
    if train is None or own is None or not train.y.is_floating_point():
        return None
    y = train.y[:ASKED].to(evidence.device)
    with untouched(program), torch.no_grad():
        program.model.eval()
        with ActivationRecorder() as recorder:
            outputs = evidence.outputs(train.x[:ASKED])
        with drawn_large(program):
            of_large_weights = _parts(evidence.outputs(train.x[:ASKED]))
    parts = _parts(outputs)
    for place, part in enumerate(parts):
        name = _activation_of(part, recorder)
        if name not in REACH or part.shape != y.shape:
            continue
        low, high = REACH[name]
        # Otherwise it was changed in its place after the activation.
        stays = bool(((of_large_weights[place] >= low) & (of_large_weights[place] <= high)).all())
        beyond = float(((y < low) | (y > high)).float().mean())

        def loss(answer: Tensor, place: int = place) -> float:
            answers = [*parts[:place], answer, *parts[place + 1 :]]
            return float(own(type(outputs)(answers) if outputs is not parts[0] else answer, y))

        if stays and beyond >= MANY and loss(y) < loss(y.clamp(low, high)):
            text = f"an output is that of {name}, from {low:g} to {high:g}; {beyond:.0%} of the targets lie beyond"
            text += ", and the loss would be lower there"
            return Finding(None, text, {"beyond": beyond}, certain=False, where="layers")
    return None


def _parts(outputs: Any) -> list[Any]:
    return list(outputs) if type(outputs) in (tuple, list) else [outputs]


def _activation_of(output: object, recorder: ActivationRecorder) -> str:
    """The name of the activation whose result this is, or a view of it; '' for other tensors."""
    for name, _, result in reversed(recorder.calls):
        if isinstance(output, Tensor) and output.data_ptr() == result.data_ptr() and output.numel() == result.numel():
            return name
    return ""
