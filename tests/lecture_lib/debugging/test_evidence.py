"""What is asked about a program beside its run, and what that leaves in the recording."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.events import LossCall
from lecture_lib.debugging._engine.evidence import Evidence

ROWS = 8


def evidence_of(loss: Callable[[Tensor, Tensor], Tensor], *, couples_samples: bool = True) -> Evidence:
    model, x = nn.Linear(4, 1), torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    loaders = (DataLoader(TensorDataset(part, part[:, :1]), ROWS) for part in (x[:32], x[32:]))
    program = Program(model, torch.optim.SGD(model.parameters(), 0.1), loss, *loaders)
    return Evidence(program, Spec(epochs=2, couples_samples=couples_samples))


def of_pairs(outputs: Tensor, targets: Tensor) -> Tensor:
    """0/0 where all targets are equal, which they are in no batch of the program."""
    different = (targets != targets.T).float()
    return (different / (1 + (outputs - outputs.T).abs())).sum() / different.sum()


def test_what_the_ladder_asks_of_the_loss_is_no_part_of_the_run() -> None:
    evidence = evidence_of(of_pairs)
    recording = evidence.run.recording
    calls = len(recording.of(LossCall))
    assert calls >= 8
    assert evidence.own_loss(torch.zeros(4, 1), torch.ones(4, 1)).isnan()
    assert len(recording.of(LossCall)) == calls
    assert recording.broke is None


@pytest.mark.parametrize(("couples", "most"), [(True, ROWS), (False, 44)])
def test_a_loss_that_couples_samples_is_asked_about_batches_of_the_programs_size(couples: bool, most: int) -> None:
    sizes = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        sizes.append(len(outputs))
        return (outputs - targets).square().mean()

    outputs = torch.ones(44, 1)
    assert evidence_of(loss, couples_samples=couples).own_loss(outputs, torch.zeros(44, 1)).item() == 1.0
    assert max(sizes) == most
    assert sum(sizes) == (40 if couples else 44)
