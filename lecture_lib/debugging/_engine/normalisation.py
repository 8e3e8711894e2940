"""What a trained model loses by the statistics that its batch normalisation has kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from statistics import fmean
from typing import TYPE_CHECKING

import torch
from torch import nn

from .events import Recording
from .run_data import RecordedRun

if TYPE_CHECKING:
    from .evidence import Evidence


def norms_of(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The layers of batch normalisation."""
    return [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


@contextmanager
def modes_of_norms(model: nn.Module) -> Iterator[list[set[bool]]]:
    """The modes of the model in which each layer of batch normalisation is called: True for training."""
    norms = norms_of(model)
    modes: list[set[bool]] = [set() for _ in norms]
    handles = [
        norm.register_forward_hook(lambda *_, layer_modes=layer_modes: layer_modes.add(model.training))
        for norm, layer_modes in zip(norms, modes, strict=True)
    ]
    try:
        yield modes
    finally:
        for handle in handles:
            handle.remove()


def evaluates_a_copy(modes: list[set[bool]]) -> bool:
    """Whether layers were called in evaluation only while others were trained: a copy of them is evaluated."""
    return {False} in modes and any(True in layer_modes for layer_modes in modes)


UPDATES = 50
"""Batches after which a momentum of 0.1 has forgotten the statistics of earlier weights: 0.9 ** 50 is 0.5 %."""
MOMENTS = 5


def statistics_anew(evidence: Evidence, copied: bool) -> tuple[float, float]:
    """Loss on training examples in evaluation mode, and with new statistics; NaN without batch normalisation.

    Statistics lag behind weights that still move fast. A lag is no fault: the first loss is the lower of the one as it
    is and of the one after the layers have gone on averaging, in their own way, while the weights stay.

    Args:
        evidence: after its run; the caller puts the model back.
        copied: the layers that are evaluated are not those that were trained.

    """
    norms = norms_of(evidence.program.model)
    if evidence.train is None or not norms or any(m.running_mean is None for m in norms):
        return RecordedRun(Recording()).statistics
    part = evidence.train.part(slice(0, 512))
    loss, _, outputs = evidence.measure(part)
    before = min(loss, evidence.cooled(outputs, part.y, least=1.0))  # too high confidence is another matter
    if not copied and all(norm.num_batches_tracked for norm in norms):
        before = min(before, _caught_up(evidence, norms))
    evidence.program.model.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    with torch.no_grad():
        for x, _ in evidence.train.batches():
            evidence.outputs(x)
    after = evidence.measure(part)[0]
    with torch.no_grad():  # the model is in evaluation mode, its norms are not: each batch has its own statistics
        for norm in norms:
            norm.train()
        own = [evidence.own_loss(evidence.outputs(x), y) * len(y) for x, y in part.batches()]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return before, min(after, float(sum(own)) / len(part.y))


def _caught_up(evidence: Evidence, norms: list[nn.modules.batchnorm._BatchNorm]) -> float:
    """Loss on training examples after the layers have averaged over further batches with their own momentum.

    The mean over five moments: where a layer keeps little but its last batch, the loss depends on the moment.
    """
    train = evidence.train
    assert train is not None
    evidence.program.model.eval()
    batches = chain.from_iterable(train.loader(evidence.seed + epoch) for epoch in range(UPDATES))
    several = (x for x, *_ in batches if len(x) > 1)  # one example alone has no statistics
    losses = []
    for update, x in enumerate(islice(several, UPDATES + MOMENTS)):
        for norm in norms:
            norm.train()
        with torch.no_grad():
            evidence.outputs(x)
        if update >= UPDATES:
            losses.append(evidence.measure(train.part(slice(0, 512)))[0])
    return fmean(losses or [float("inf")])
