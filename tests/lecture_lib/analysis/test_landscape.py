"""The loss around a model: scale-free along filter-normalised directions, and the model as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lecture_lib.analysis import loss_landscape

X = torch.randn(64, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = (X[:, 0] > 0).long()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).double()


def loss(model: nn.Module) -> torch.Tensor:
    return F.cross_entropy(model(X), Y)


def test_the_middle_is_the_models_own_loss_and_the_model_stays() -> None:
    model = network()
    before = copy.deepcopy(model.state_dict())
    landscape = loss_landscape(model, loss, points=5)
    assert landscape.losses.shape == (5, 5)
    assert landscape.losses[2, 2] == pytest.approx(loss(model).item(), abs=1e-12)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_two_sets_of_weights_of_one_function_have_one_landscape() -> None:
    model = network()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight *= 8
        twin[0].bias *= 8
        twin[2].weight /= 8
    ours, theirs = (loss_landscape(each, loss, points=5, seed=3) for each in (model, twin))
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-12)
    raw = [loss_landscape(each, loss, points=5, seed=3, normalise=False).losses for each in (model, twin)]
    assert np.abs(raw[0] - raw[1]).max() > 0.1


def test_a_quadratic_has_the_rise_that_the_formula_gives() -> None:
    model = nn.Linear(3, 2, bias=False).double()
    curve = loss_landscape(
        model, lambda m: m.weight.square().sum(), directions=1, radius=0.5, points=3, normalise=False
    )
    direction = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = [(model.weight + step * direction).square().sum().item() for step in (-0.5, 0.0, 0.5)]
    np.testing.assert_allclose(curve.losses, wanted)
    assert curve.sharpness == pytest.approx((wanted[0] + wanted[2]) / 2 - wanted[1])


def test_it_draws_both_forms() -> None:
    for directions, label in ((1, "loss"), (2, "first direction")):
        figure = loss_landscape(network(), loss, directions=directions, points=3).plot()
        assert figure.axes[0].get_ylabel() == label


@pytest.mark.parametrize("wrong", [{"directions": 3}, {"radius": 0}, {"points": 4}, {"points": 1}])
def test_settings_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="odd number of points"):
        loss_landscape(network(), loss, **wrong)  # type: ignore[arg-type]


def test_a_model_without_matrices_is_refused() -> None:
    with pytest.raises(ValueError, match="two axes"):
        loss_landscape(nn.LayerNorm(4), lambda model: torch.zeros(()))
