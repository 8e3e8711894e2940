"""A loss that falls beyond right answers while the author's own score gets worse wants something else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging.faults.loss_and_metric import leads_away_from_right_answers

Function = Callable[[Tensor, Tensor], Tensor]


def dice(shares: Tensor, masks: Tensor) -> Tensor:
    """One minus the soft Dice coefficient, with squares in the denominator."""
    return 1 - (2 * (shares * masks).sum() + 1) / (shares.square().sum() + masks.square().sum() + 1)


def overlap(outputs: Tensor, masks: Tensor) -> float:
    """Intersection over union of the masks where the probability is above a half."""
    marked, wanted = outputs > 0, masks > 0.5
    return float((marked & wanted).sum() / (marked | wanted).sum().clamp(min=1))


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    return float((outputs.argmax(dim=1) == labels).float().mean())


def masks(loss: Function) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 1, 8, 8, generator=generator)
    torch.manual_seed(1)  # Dice of scores has no lower end; from 3 of 40 first weights the descent finds none of it
    return evidence(x, (x > 1).float(), nn.Conv2d(1, 1, 1), loss, overlap, "segmentation")


def classes(loss: Function) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    return evidence(x, x[:, :3].argmax(dim=1), nn.Linear(4, 3), loss, accuracy, "classification")


def counts(loss: Function, of: Function = lambda outputs, _: outputs) -> Evidence:
    """Numbers from 1 on; what is scored is the squared error of what the outputs stand for."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    y = x[:, :1].exp() + 1

    def score(outputs: Tensor, targets: Tensor) -> float:
        return -float(F.mse_loss(of(outputs, targets), targets))

    return evidence(x, y, nn.Linear(4, 1), loss, score, "regression")


def evidence(
    x: Tensor, y: Tensor, model: nn.Module, loss: Function, metric: Callable[[Tensor, Tensor], float], task: str
) -> Evidence:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loaders = DataLoader(TensorDataset(x[:100], y[:100]), 20), DataLoader(TensorDataset(x[100:], y[100:]), 20)
    return Evidence(Program(model, optimizer, loss, *loaders, metric=metric), Spec(task=task, classes=3, epochs=1))


def pinball(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of the 90 % quantile."""
    off = targets - outputs
    return torch.maximum(0.9 * off, -0.1 * off).mean()


def clipped(outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of labels that were taken from the wrong column: every third class is read as the first."""
    return F.cross_entropy(outputs, torch.where(labels == 2, 0, labels))


SOUND = {
    "Dice of probabilities": lambda: masks(lambda outputs, y: dice(outputs.sigmoid(), y)),
    "Dice and cross-entropy": lambda: masks(
        lambda outputs, y: dice(outputs.sigmoid(), y) + F.binary_cross_entropy_with_logits(outputs, y)
    ),
    "labels smoothed": lambda: classes(lambda outputs, y: F.cross_entropy(outputs, y, label_smoothing=0.3)),
    "weights of classes": lambda: classes(lambda a, b: F.cross_entropy(a, b, torch.tensor([1.0, 20.0, 0.1]))),
    "a penalty on large scores": lambda: classes(lambda a, b: F.cross_entropy(a, b) + 0.1 * a.square().mean()),
    "hinge": lambda: classes(F.multi_margin_loss),
    "squared error": lambda: counts(F.mse_loss),
    "a quantile": lambda: counts(pinball),
    "logarithms of rates": lambda: counts(F.poisson_nll_loss, lambda outputs, _: outputs.exp()),
}
FAULTY = {
    "Dice of logits": lambda: masks(dice),
    "labels of another column": lambda: classes(clipped),
    "half of the targets": lambda: counts(lambda outputs, y: F.mse_loss(outputs, y / 2)),
}


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_a_sound_loss_leads_to_no_worse_score(make: Callable[[], Evidence]) -> None:
    assert leads_away_from_right_answers(make()) is None


@pytest.mark.parametrize("make", FAULTY.values(), ids=FAULTY)
def test_a_loss_that_wants_something_else_is_named_with_both_numbers(make: Callable[[], Evidence]) -> None:
    finding = leads_away_from_right_answers(make())
    assert finding is not None
    assert finding.parts == ("loss",)
    assert not finding.certain
    (before, after), (best, worse) = finding.data["losses"], finding.data["scores"]
    assert after < before
    assert worse < best
