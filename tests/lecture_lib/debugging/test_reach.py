"""What a model is to answer and what its last activation can give; how wide its first answers are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging._engine.run_data import counted
from lecture_lib.debugging.faults.reach_rules import targets_out_of_reach
from lecture_lib.debugging.swaps import swap_parts

X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
STANDARD, SHARES = X[:, :1], X[:, :1].sigmoid()


def evidence(last: nn.Module, y: Tensor, loss: Any = F.mse_loss, model: Any = None) -> Evidence:
    model = model or nn.Sequential(nn.Linear(4, 1), last)
    loaders = (DataLoader(TensorDataset(X[rows], y[rows]), 50) for rows in (slice(200), slice(200, None)))
    return Evidence(Program(model, torch.optim.SGD(model.parameters(), 0.1), loss, *loaders), Spec("regression"))


@pytest.mark.parametrize(
    ("last", "y", "told"),
    [
        (nn.Sigmoid(), STANDARD, "sigmoid, from 0 to 1"),
        (nn.ReLU(), STANDARD, "relu, from 0 to inf"),
        (nn.Tanh(), 3 * STANDARD, "tanh, from -1 to 1"),
        (nn.Softplus(), STANDARD, "softplus, from 0 to inf"),
        (nn.Sigmoid(), SHARES, None),
        (nn.ReLU(), SHARES, None),
        (nn.Tanh(), STANDARD / 10, None),
        (nn.Identity(), STANDARD, None),
        (nn.Sequential(nn.Sigmoid(), nn.Linear(1, 1)), STANDARD, None),  # the activation is not the last thing
    ],
)
def test_targets_beyond_what_the_last_activation_gives(last: nn.Module, y: Tensor, told: str | None) -> None:
    found = targets_out_of_reach(evidence(last, y))
    assert (found is not None) == (told is not None), found
    if found is not None:
        assert told in found.evidence
        assert (found.part, found.certain) == ("layers", False)


def test_a_bound_that_the_loss_respects_is_meant() -> None:
    """The loss compares with targets that are cut off at the bound."""
    cut = evidence(nn.ReLU(), STANDARD, lambda outputs, y: F.mse_loss(outputs, y.clamp(min=0)))
    assert targets_out_of_reach(cut) is None


def test_an_activation_that_is_stretched_in_its_place_reaches_further() -> None:
    class Stretched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).tanh().mul_(5)

    assert targets_out_of_reach(evidence(nn.Identity(), STANDARD, model=Stretched())) is None


@pytest.mark.parametrize("bounded", [False, True])
def test_one_of_several_outputs(bounded: bool) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.scale = nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mean = self.mean(x)
            return mean.sigmoid() if bounded else mean, F.softplus(self.scale(x))

    def likelihood(outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        mean, scale = outputs
        return (((mean - y) / scale) ** 2 / 2 + scale.log()).mean()

    found = targets_out_of_reach(evidence(nn.Identity(), STANDARD, likelihood, Two()))
    assert (found is not None) == bounded


@pytest.mark.parametrize("wide", [False, True])
def test_embeddings_that_start_too_wide_for_a_product(wide: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(30, 3, generator=generator), torch.randn(30, 3, generator=generator)
    pairs = torch.randint(0, 30, (2000, 2), generator=generator)
    y = (left[pairs[:, 0]] * right[pairs[:, 1]]).sum(dim=1) / 3

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Embedding(30, 32), nn.Embedding(30, 32)
            if not wide:
                for table in (self.left, self.right):
                    nn.init.normal_(table.weight, std=0.1)

        def forward(self, pair: Tensor) -> Tensor:
            return (self.left(pair[:, 0]) * self.right(pair[:, 1])).sum(dim=1)

    def make(seed: int) -> tuple[Program, Spec]:
        torch.manual_seed(seed)
        model = Factors()
        order = torch.Generator().manual_seed(seed)
        loaders = (
            DataLoader(TensorDataset(pairs[:1500], y[:1500]), 50, shuffle=True, generator=order),
            DataLoader(TensorDataset(pairs[1500:], y[1500:]), 500),
        )
        program = Program(model, torch.optim.Adam(model.parameters(), 0.01), nn.MSELoss(), *loaders)
        return program, Spec("regression", epochs=8)

    explained = swap_parts(make=make, budget=40).explained
    assert (explained.part if explained else "") == ("initialisation" if wide else ""), explained


def test_labels_that_are_left_out_do_not_count() -> None:
    y = torch.tensor([-100, -1, 0, 1])
    assert counted(y, Spec()).tolist() == [False, False, True, True]
    assert counted(y, Spec(ignore_index=0)).tolist() == [False, False, False, True]
