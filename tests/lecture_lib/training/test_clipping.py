"""Clipping against the lecture's numbers, float64 arithmetic and PyTorch's own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from lecture_lib.training.clipping import (
    clip_by_global_norm,
    clip_by_parameter_norm,
    clip_by_value,
    clip_threshold,
    gradient_norms,
)

ALL = [clip_by_global_norm, clip_by_parameter_norm, clip_by_value]


def with_gradients(*gradients, dtype=torch.float32) -> list[nn.Parameter]:
    parameters = []
    for gradient in gradients:
        gradient = torch.as_tensor(gradient, dtype=dtype)
        parameter = nn.Parameter(torch.zeros_like(gradient))
        parameter.grad = gradient.clone()
        parameters.append(parameter)
    return parameters


def gradients_of(parameters) -> list[list[float]]:
    return [parameter.grad.tolist() for parameter in parameters]


def bits(parameters) -> list[bytes]:
    return [parameter.grad.numpy().tobytes() for parameter in parameters]


# ---------------------------------------------------------------- the lecture's numbers


@pytest.mark.parametrize("split", [[[3.0, 4.0]], [[3.0], [4.0]]], ids=["one-parameter", "two-parameters"])
def test_three_and_four_have_norm_five_and_become_one_fifth(split):
    parameters = with_gradients(*split)
    norm = clip_by_global_norm(parameters, 1.0)
    assert norm.shape == ()
    assert norm.item() == 5.0
    assert torch.equal(torch.cat([p.grad for p in parameters]), torch.tensor([3.0, 4.0]) * torch.tensor(0.2))
    assert torch.cat([p.grad for p in parameters]).tolist() == pytest.approx([0.6, 0.8], rel=1e-7)


def test_the_three_ways_differ_on_two_parameters():
    """P6: only the global norm keeps the direction."""
    found = {}
    for clip in ALL:
        parameters = with_gradients([3.0], [4.0])
        assert clip(parameters, 1.0).item() == 5.0
        found[clip.__name__] = [round(value, 4) for (value,) in gradients_of(parameters)]
    assert found == {
        "clip_by_global_norm": [0.6, 0.8],
        "clip_by_parameter_norm": [1.0, 1.0],
        "clip_by_value": [1.0, 1.0],
    }


def test_per_parameter_and_per_value_differ_within_a_parameter():
    parameters = with_gradients([3.0, 4.0], [0.3, -0.4])
    clip_by_parameter_norm(parameters, 1.0)
    assert gradients_of(parameters)[0] == pytest.approx([0.6, 0.8])
    assert parameters[1].grad.equal(torch.tensor([0.3, -0.4]))
    parameters = with_gradients([3.0, 0.5], [-4.0, -0.5])
    clip_by_value(parameters, 1.0)
    assert gradients_of(parameters) == [[1.0, 0.5], [-1.0, -0.5]]


# ---------------------------------------------------------------- identities

NUMBERS = st.floats(-1e4, 1e4, width=32, allow_subnormal=True)
GRADIENTS = st.lists(st.lists(NUMBERS, min_size=0, max_size=6), min_size=1, max_size=5)
LIMITS = st.floats(1e-3, 1e5)


def exact_norm(gradients) -> float:
    return math.sqrt(sum(Fraction(value) ** 2 for gradient in gradients for value in gradient))


@settings(deadline=None)
@given(gradients=GRADIENTS, max_norm=LIMITS)
@example(gradients=[[2.9375]], max_norm=2.9375)  # 2.9375 * (1 / 2.9375) is below 1 in float32
def test_the_norm_is_returned_and_one_factor_is_applied(gradients, max_norm):
    parameters = with_gradients(*gradients)
    before, expected = bits(parameters), exact_norm(gradients)
    norm = clip_by_global_norm(iter(parameters), max_norm).item()
    # Squares below FP32's smallest number vanish.
    assert norm == pytest.approx(expected, rel=1e-5, abs=1e-18)
    if norm <= np.float32(max_norm):
        assert bits(parameters) == before
    else:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            wanted = np.array(gradient, dtype=np.float64) * (max_norm / expected)
            np.testing.assert_allclose(parameter.grad.double().numpy(), wanted, rtol=1e-5, atol=1e-40)
        clipped = exact_norm(gradients_of(parameters))
        assert clipped == pytest.approx(max_norm, rel=1e-5)


@settings(deadline=None)
@given(gradients=GRADIENTS, max_norm=LIMITS)
def test_every_parameter_is_clipped_as_if_it_were_alone(gradients, max_norm):
    together = with_gradients(*gradients)
    clip_by_parameter_norm(together, max_norm)
    for parameter, gradient in zip(together, gradients, strict=True):
        alone = with_gradients(gradient)
        clip_by_global_norm(alone, max_norm)
        np.testing.assert_allclose(parameter.grad.numpy(), alone[0].grad.numpy(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_factor_is_exact_where_torch_adds_a_millionth(dtype):
    parameters = with_gradients([3e-6, 4e-6], dtype=dtype)
    clip_by_global_norm(parameters, 1e-6)
    assert gradients_of(parameters)[0] == pytest.approx([0.6e-6, 0.8e-6], rel=1e-6)
    theirs = with_gradients([3e-6, 4e-6], dtype=dtype)
    nn.utils.clip_grad_norm_(theirs, 1e-6)
    assert gradients_of(theirs)[0] == pytest.approx([0.5e-6, 0.8e-6 * 5 / 6], rel=1e-6)


@pytest.mark.parametrize("max_norm", [5.0, 5.000001, 1e30, math.inf, np.float32(5.0), 5], ids=repr)
def test_at_or_below_the_threshold_not_a_bit_changes(max_norm):
    parameters = with_gradients([3.0, -0.0], [4.0, 1e-45])
    before = bits(parameters)
    assert clip_by_global_norm(parameters, max_norm).item() == 5.0
    assert bits(parameters) == before
    clip_by_parameter_norm(parameters, max_norm)
    clip_by_value(parameters, max_norm)
    assert bits(parameters) == before


@pytest.mark.parametrize("clip", [clip_by_global_norm, clip_by_parameter_norm], ids=lambda clip: clip.__name__)
def test_all_zero_gradients_stay_zero(clip):
    parameters = with_gradients([0.0, 0.0], [0.0])
    assert clip(parameters, 1.0).item() == 0.0
    assert gradients_of(parameters) == [[0.0, 0.0], [0.0]]


# ---------------------------------------------------------------- what is not finite


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30], ids=["nan", "inf", "-inf", "square-overflows"])
def test_with_a_norm_that_is_not_finite_the_gradients_are_as_they_were(value):
    parameters = with_gradients([3.0, value], [4.0])
    before = bits(parameters)
    norm = clip_by_global_norm(parameters, 1.0)
    assert not norm.isfinite()
    assert norm.isnan() == math.isnan(value)
    assert bits(parameters) == before


def test_per_parameter_only_the_broken_gradient_stays():
    parameters = with_gradients([math.inf, 1.0], [4.0])
    assert clip_by_parameter_norm(parameters, 1.0).item() == math.inf
    assert gradients_of(parameters) == [[math.inf, 1.0], [1.0]]


def test_per_value_the_returned_norm_still_tells():
    parameters = with_gradients([math.inf, -math.inf, math.nan, 0.5])
    assert clip_by_value(parameters, 1.0).isnan()
    assert gradients_of(parameters)[0][:2] == [1.0, -1.0]
    assert math.isnan(parameters[0].grad[2])


def test_half_precision_norms_do_not_overflow():
    parameters = with_gradients([40000.0] * 4, dtype=torch.float16)
    assert clip_by_global_norm(parameters, 1.0).item() == 80000.0
    assert gradients_of(parameters)[0] == [0.5] * 4


# ---------------------------------------------------------------- which gradients


@pytest.mark.parametrize("clip", ALL, ids=lambda clip: clip.__name__)
def test_without_gradients_the_norm_is_0(clip):
    assert clip([], 1.0).item() == 0.0
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(()), requires_grad=False)]
    assert clip(parameters, 1.0).item() == 0.0
    assert all(parameter.grad is None for parameter in parameters)


@pytest.mark.parametrize("clip", ALL, ids=lambda clip: clip.__name__)
def test_missing_empty_and_repeated_gradients_do_not_count(clip):
    (parameter,) = with_gradients([3.0, 4.0])
    (empty,) = with_gradients(torch.empty(0))
    norm = clip([nn.Parameter(torch.ones(3)), parameter, empty, parameter], 2.5)
    assert norm.item() == 5.0
    assert parameter.grad.tolist() == pytest.approx([2.5, 2.5] if clip is clip_by_value else [1.5, 2.0])


def test_a_parameter_alone_is_one_parameter():
    (parameter,) = with_gradients([[3.0], [4.0]])
    assert clip_by_global_norm(parameter, 1.0).item() == 5.0
    assert parameter.grad.flatten().tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("clip", ALL, ids=lambda clip: clip.__name__)
def test_sparse_gradients_equal_dense_ones(clip):
    """An index that occurs twice adds up before the norm is taken."""
    results = []
    for sparse in (True, False):
        embedding = nn.Embedding(5, 2, sparse=sparse)
        nn.init.constant_(embedding.weight, 1.0)
        head = nn.Parameter(torch.tensor([3.0, -1.0]))
        (embedding(torch.tensor([1, 1, 3])) @ head).sum().backward()
        norm = clip([embedding.weight, head], 0.5)
        gradient = embedding.weight.grad
        assert gradient.is_sparse == sparse
        results.append((norm.item(), gradient.to_dense().tolist(), head.grad.tolist()))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-6)


def test_mixed_dtypes_have_one_norm():
    parameters = [*with_gradients([3.0]), *with_gradients([4.0], dtype=torch.float64)]
    parameters += with_gradients([12.0], dtype=torch.bfloat16)
    assert clip_by_global_norm(parameters, 1.3).item() == pytest.approx(13.0)
    assert [parameter.grad.item() for parameter in parameters] == pytest.approx([0.3, 0.4, 1.2], rel=1e-2)
    assert [parameter.grad.dtype for parameter in parameters] == [torch.float32, torch.float64, torch.bfloat16]


def test_gradients_with_a_graph_are_clipped_outside_of_it():
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    (weight.grad,) = torch.autograd.grad((weight**3).sum(), weight, create_graph=True)
    norm = clip_by_global_norm([weight], 1.0)
    assert not norm.requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second device")
def test_parameters_on_two_devices_have_one_norm_and_nothing_waits():
    on_cpu, on_gpu = with_gradients([3.0]), [nn.Parameter(torch.zeros(1, device="cuda"))]
    on_gpu[0].grad = torch.tensor([4.0], device="cuda")
    assert clip_by_global_norm(on_cpu + on_gpu, 1.0).item() == 5.0
    assert [parameter.grad.item() for parameter in on_cpu + on_gpu] == pytest.approx([0.6, 0.8])
    torch.cuda.set_sync_debug_mode("error")
    try:
        clip_by_global_norm(on_gpu, 0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_nothing_asks_the_device_for_a_number():
    """On a tensor without data every question for a value raises."""
    parameter = nn.Parameter(torch.zeros(3, device="meta"))
    for clip in ALL:
        parameter.grad = torch.zeros(3, device="meta")
        assert clip([parameter], 1.0).device.type == "meta"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("limit", [0, 0.0, -1.0, math.nan, -math.inf], ids=repr)
@pytest.mark.parametrize("clip", ALL, ids=lambda clip: clip.__name__)
def test_a_limit_that_is_not_above_0_is_refused(clip, limit):
    parameters = with_gradients([3.0, 4.0])
    with pytest.raises(ValueError, match=rf"max_(norm|value) is {limit}; pass a number above 0"):
        clip(parameters, limit)
    assert gradients_of(parameters) == [[3.0, 4.0]]


@pytest.mark.parametrize("limit", [True, None, "1", [1.0], torch.tensor(1.0)], ids=repr)
@pytest.mark.parametrize("clip", ALL, ids=lambda clip: clip.__name__)
def test_a_limit_that_is_no_number_is_refused(clip, limit):
    with pytest.raises(TypeError, match=rf"of type {type(limit).__name__}; pass a number above 0"):
        clip(with_gradients([3.0, 4.0]), limit)


# ---------------------------------------------------------------- a threshold from a run


@given(
    norms=st.lists(st.floats(0, 1e6) | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=30),
    percent=st.floats(0, 100),
)
def test_the_threshold_is_numpys_percentile_of_the_finite_norms(norms: list[float], percent: float) -> None:
    finite = [norm for norm in norms if math.isfinite(norm)]
    if finite:
        assert clip_threshold(norms, percent) == pytest.approx(np.percentile(finite, percent), rel=1e-9, abs=1e-9)
    else:
        with pytest.raises(ValueError, match="none of the norms"):
            clip_threshold(norms, percent)


@pytest.mark.parametrize("percent", [-1, 101, math.nan])
def test_a_percentage_outside_its_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percent"):
        clip_threshold([1.0, 2.0], percent)


def test_norms_by_layer_do_not_overflow_in_half_precision():
    layer = nn.Linear(300, 300, bias=False, dtype=torch.float16)
    layer.weight.grad = torch.full_like(layer.weight, 300)
    assert gradient_norms(layer) == {"model": pytest.approx(90_000, rel=1e-3)}
