"""Initial weights against their formulas, activations against a forward pass by hand."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pytest
import torch
from torch import nn

from lecture_lib.training import activation_statistics, gradient_norms, initialise


def deep(widths: int = 256, depth: int = 4) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(widths, widths), nn.ReLU()]
    return nn.Sequential(*layers)


DEVIATIONS = {
    "pytorch": lambda fan_in, fan_out: 1 / math.sqrt(3 * fan_in),
    "xavier": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "he": lambda fan_in, fan_out: math.sqrt(2 / fan_in),
}


@pytest.mark.parametrize("scheme", DEVIATIONS)
@pytest.mark.parametrize(
    ("layer", "fans"),
    [(nn.Linear(300, 500), (300, 500)), (nn.Conv2d(32, 64, 3), (32 * 9, 64 * 9))],
    ids=["linear", "conv"],
)
def test_weights_have_the_schemes_deviation(scheme: str, layer: nn.Module, fans: tuple[int, int]) -> None:
    initialise(layer, scheme, generator=torch.Generator().manual_seed(0))
    expected = DEVIATIONS[scheme](*fans)
    assert layer.weight.std().item() == pytest.approx(expected, rel=0.02)
    assert abs(layer.weight.mean().item()) < 0.05 * expected
    if scheme == "pytorch":
        assert layer.bias.abs().max() <= 1 / math.sqrt(fans[0])
        assert layer.bias.std() > 0
        assert layer.weight.abs().max() <= 1 / math.sqrt(fans[0])
    else:
        assert (layer.bias == 0).all()


def test_nn_linear_starts_smaller_than_he_by_root_six() -> None:
    torch.manual_seed(0)
    own = nn.Linear(400, 1000).weight.std().item()
    he = nn.Linear(400, 1000)
    initialise(he, "he", generator=torch.Generator().manual_seed(0))
    assert own == pytest.approx(1 / math.sqrt(3 * 400), rel=0.01)
    assert he.weight.std().item() / own == pytest.approx(math.sqrt(6), rel=0.01)


def test_what_was_drawn_is_told_and_the_rest_stays() -> None:
    model = nn.Sequential(nn.Embedding(5, 64), nn.LayerNorm(64), nn.Linear(64, 3, bias=False))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stream = torch.get_rng_state()
    assert initialise(model, "pytorch", generator=torch.Generator().manual_seed(0)) == {"2": "uniform ±0.125"}
    assert torch.equal(stream, torch.get_rng_state())
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert changed == ["2.weight"]
    assert initialise(model, "he")["2"] == "normal, standard deviation 0.177"


@pytest.mark.parametrize(
    ("model", "scheme", "says"),
    [(nn.Linear(1, 1), "kaiming", "'pytorch', 'xavier', 'he'"), (nn.ReLU(), "he", "no linear")],
)
def test_refused(model: nn.Module, scheme: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        initialise(model, scheme)


def test_he_keeps_activations_and_pytorchs_default_shrinks_them() -> None:
    x = torch.randn(200, 256, generator=torch.Generator().manual_seed(1))
    last = {}
    for scheme in ("pytorch", "he"):
        model = deep()
        initialise(model, scheme, generator=torch.Generator().manual_seed(0))
        last[scheme] = activation_statistics(model, (x, torch.zeros(200)))[-1].deviation
    assert 0.5 < last["he"] < 1.5
    assert last["pytorch"] < 0.1


def test_statistics_are_those_of_a_forward_pass_by_hand_in_the_order_of_running() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].bias[2] = -100.0  # a dead unit
    x = torch.randn(10, 6)
    rows = activation_statistics(model, (x, torch.zeros(10)))
    with torch.no_grad():
        outputs = [model[0](x)]
        outputs += [outputs[0].relu(), model[2](outputs[0].relu())]
    assert [(row.layer, row.kind) for row in rows] == [("0", "Linear"), ("1", "ReLU"), ("2", "Linear")]
    for row, output in zip(rows, outputs, strict=True):
        assert row.mean == pytest.approx(output.double().mean().item(), rel=1e-9)
        assert row.deviation == pytest.approx(output.double().std(correction=0).item(), rel=1e-9)
        assert row.zeros == pytest.approx((output == 0).float().mean().item())
    assert rows[1].dead == pytest.approx(float((outputs[1] == 0).all(0).float().mean()))
    assert rows[1].dead >= 1 / 8
    assert "1 (ReLU)" in str(rows)


def test_dead_channels_of_a_convolution() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    with torch.no_grad():
        model[0].bias[1] = -100.0
        model[0].bias[[0, 2, 3]] = 100.0
    assert activation_statistics(model, (torch.rand(5, 1, 6, 6), torch.zeros(5)))[1].dead == 0.25


def test_dead_units_of_a_sequence_are_those_of_the_last_axis() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    with torch.no_grad():
        model[0].bias[1] = -100.0
        model[0].bias[[0, 2, 3]] = 100.0
    assert activation_statistics(model, (torch.rand(5, 7, 6), torch.zeros(5)))[1].dead == 0.25


def test_looking_leaves_no_trace_also_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stream = torch.get_rng_state()
    activation_statistics(model, (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(4)))
    with pytest.raises(RuntimeError):
        activation_statistics(model, (torch.zeros(4, 5), torch.zeros(4)))
    assert torch.equal(stream, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_the_plot_has_a_point_for_each_layer() -> None:
    figure = activation_statistics(deep(8, 2), (torch.randn(4, 8), torch.zeros(4))).plot()
    left, right = figure.axes
    assert len(left.get_lines()[0].get_xdata()) == len(right.get_lines()[0].get_xdata()) == 4
    assert left.get_yscale() == "log"
    plt.close(figure)


def test_gradient_norms_are_those_of_each_layers_own_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    model(torch.ones(2, 4)).sum().backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in model[2].parameters()]).norm().item()
    found = gradient_norms(model)
    assert found["0"] is None
    assert found["2"] == pytest.approx(expected, rel=1e-6)
    assert set(found) == {"0", "2"}
