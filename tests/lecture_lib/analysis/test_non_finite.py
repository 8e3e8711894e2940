"""Where the first number that is not finite appears, on losses that break at known places."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from lecture_lib.analysis import find_non_finite

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())


def overflowing(model: nn.Module) -> torch.Tensor:
    return model(X * 1e38 * 1e38).sum()


@pytest.mark.parametrize(
    ("loss", "phase", "where"),
    [
        (lambda model: (model(X) - model(X).detach()).abs().pow(0.5).sum(), "backward", ""),
        (lambda model: torch.where(model(X) > 0, model(X).log(), 0.0).sum(), "backward", "Log"),
        (lambda model: (model(X) / (model(X) - model(X).detach())).sum(), "loss", "loss"),
        (overflowing, "inputs", "0"),
    ],
)
def test_it_names_the_place(loss, phase: str, where: str) -> None:
    place = find_non_finite(network(), loss)
    assert place is not None
    assert place.phase == phase
    assert where in place.where
    assert str(place) == place.about


def test_a_layer_that_makes_it_and_a_broken_weight_are_named() -> None:
    model = network()
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    place = find_non_finite(model, lambda model: model(X).sum())
    assert place is not None
    assert (place.phase, place.where) == ("forward", "0")
    with torch.no_grad():
        model[1].bias[1] = torch.nan
    place = find_non_finite(model, lambda model: model(X).sum())
    assert place is not None
    assert (place.phase, place.where) == ("weights", "1.bias")


def test_a_sound_loss_gives_none_and_the_model_stays() -> None:
    model = network()
    before = copy.deepcopy(model.state_dict())
    assert find_non_finite(model, lambda model: model(X).square().mean()) is None
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not torch.is_anomaly_enabled()


def test_an_error_of_the_loss_itself_is_not_swallowed() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        find_non_finite(network(), lambda model: model(X[:, :2]).sum())
