"""An evaluation that reads outputs otherwise than the loss gives a low score to outputs that fit the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.assumptions import NotAskedError
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging.faults.best_answers import evaluation_reads_outputs_otherwise

Decode = Callable[[Tensor], Tensor]
CELLS = 5


def interval(outputs: Tensor) -> Tensor:
    """Middle and length [N, 2] of an interval: the best cell's, with the place within it, and an exponential."""
    cell = outputs[:, :CELLS].argmax(dim=1).float()
    return torch.stack([cell + outputs[:, CELLS].sigmoid(), outputs[:, CELLS + 1].exp()], dim=1)


def in_the_middle(outputs: Tensor) -> Tensor:
    """As if every middle lay at the beginning of its cell."""
    decoded = interval(outputs)
    return torch.stack([decoded[:, 0].floor(), decoded[:, 1]], dim=1)


def as_logarithm(outputs: Tensor) -> Tensor:
    decoded = interval(outputs)
    return torch.stack([decoded[:, 0], decoded[:, 1].log().clamp(min=0.01)], dim=1)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    cell = targets[:, 0].long()
    place = F.mse_loss(outputs[:, CELLS].sigmoid(), targets[:, 0] - cell)
    length = F.mse_loss(outputs[:, CELLS + 1], targets[:, 1].log())
    return F.cross_entropy(outputs[:, :CELLS], cell) + 5 * place + 5 * length


def iou(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[:, 0] - a[:, 1] / 2, b[:, 0] - b[:, 1] / 2)
    high = torch.minimum(a[:, 0] + a[:, 1] / 2, b[:, 0] + b[:, 1] / 2)
    common = (high - low).clamp(min=0)
    return common / (a[:, 1] + b[:, 1] - common)


def evaluation(decode: Decode, name: str, of: Callable[[Program], Iterable[Tensor]]) -> Callable[[Program], object]:
    def evaluate(program: Program) -> dict[str, float]:
        program.model.eval()
        with torch.no_grad():
            targets = torch.cat([y for _, y in program.val_loader])
            return {name: iou(decode(torch.cat([*of(program)])), targets).mean().item()}

    return evaluate


def once(program: Program) -> Iterable[Tensor]:
    return [program.model(x) for x, _ in program.val_loader]


def mirrored_too(program: Program) -> Iterable[Tensor]:
    """Each batch twice, as test-time augmentation asks."""
    return [(program.model(x) + program.model(x.flip(1).flip(1))) / 2 for x, _ in program.val_loader]


def by_a_copy(program: Program) -> Iterable[Tensor]:
    copied = nn.Linear(4, CELLS + 2)
    copied.load_state_dict(program.model.state_dict())
    return [copied(x) for x, _ in program.val_loader]


def program(evaluate: Callable[[Program], object]) -> Program:
    torch.manual_seed(0)
    x = torch.randn(400, 4)
    y = torch.stack([CELLS * x[:, 0].sigmoid().clamp(0.01, 0.99), 0.5 + x[:, 1].sigmoid()], dim=1)
    model = nn.Linear(4, CELLS + 2)
    loaders = [DataLoader(TensorDataset(x[rows], y[rows]), 50) for rows in (slice(0, 300), slice(300, 400))]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Program(model, optimizer, loss, *loaders, evaluate=evaluate)


@pytest.mark.parametrize(
    ("decode", "name", "of", "told"),
    [
        (in_the_middle, "mean_iou", once, True),
        (as_logarithm, "IoU", once, True),
        (interval, "mean_iou", once, False),
        (in_the_middle, "overlap", once, False),  # a name that does not say what the best is
    ],
)
def test_outputs_that_fit_must_score_high(
    decode: Decode, name: str, of: Callable[[Program], Iterable[Tensor]], told: bool
) -> None:
    finding = evaluation_reads_outputs_otherwise(Evidence(program(evaluation(decode, name, of)), Spec(epochs=2)))
    assert (finding is not None) == told
    if finding is not None:
        assert (finding.part, finding.certain) == ("metric", False)
        assert f"'{name}' 0." in finding.evidence


def test_a_copy_of_the_model_gives_its_own_outputs() -> None:
    evidence = Evidence(program(evaluation(in_the_middle, "mean_iou", by_a_copy)), Spec(epochs=2))
    with pytest.raises(NotAskedError):
        evaluation_reads_outputs_otherwise(evidence)


def test_a_model_that_is_asked_twice_for_each_example_is_left_alone() -> None:
    """Answers would come in another order than the examples."""
    evidence = Evidence(program(evaluation(interval, "mean_iou", mirrored_too)), Spec(epochs=2))
    assert evaluation_reads_outputs_otherwise(evidence) is None
