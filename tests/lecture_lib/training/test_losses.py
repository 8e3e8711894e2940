"""Focal loss and InfoNCE against PyTorch, torchvision, SciPy and finite differences in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax
from torch.nn import functional
from torchvision.ops import sigmoid_focal_loss

from lecture_lib.training import focal_loss, info_nce

GAMMAS = [0.0, 0.5, 1.0, 2.0, 5.0]


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels_of(seed: int, classes: int, *shape: int) -> torch.Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- focal loss


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_loss_is_its_definition(gamma: float) -> None:
    logits, labels = drawn(0, 20, 4), labels_of(1, 4, 20)
    log_p = log_softmax(logits.numpy(), axis=1)[np.arange(20), labels.numpy()]
    weight = np.array([0.2, 1.0, 3.0, 0.5])
    plain = -((1 - np.exp(log_p)) ** gamma) * log_p
    assert focal_loss(logits, labels, gamma).item() == pytest.approx(plain.mean(), rel=1e-12)
    weighted = (weight[labels.numpy()] * plain).mean()
    assert focal_loss(logits, labels, gamma, torch.tensor(weight)).item() == pytest.approx(weighted, rel=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_two_classes_give_the_focal_loss_of_torchvision(gamma: float) -> None:
    """One sigmoid of the difference of two logits; torchvision's alpha weighs class 1, and 1 - alpha class 0."""
    logits, labels = drawn(2, 30, 2), labels_of(3, 2, 30)
    margin = logits[:, 1] - logits[:, 0]
    theirs = sigmoid_focal_loss(margin, labels.double(), alpha=0.25, gamma=gamma, reduction="mean")
    weight = torch.tensor([0.75, 0.25], dtype=torch.float64)
    assert focal_loss(logits, labels, gamma, weight).item() == pytest.approx(theirs.item(), rel=1e-9)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_gradient_of_focal_loss_agrees_with_finite_differences(gamma: float) -> None:
    logits, labels = drawn(4, 6, 3).requires_grad_(), labels_of(5, 3, 6)
    assert torch.autograd.gradcheck(lambda z: focal_loss(z, labels, gamma), logits)


@pytest.mark.parametrize(("logit", "label", "slope"), [(1.0, 1, -1), (-1.0, 1, -1), (1.0, 0, 1), (-1.0, 0, 1)])
def test_focal_loss_falls_when_the_label_becomes_more_probable(logit: float, label: int, slope: int) -> None:
    """The gradient as it is often printed has the opposite sign."""
    logits = torch.tensor([[0.0, logit]], dtype=torch.float64, requires_grad=True)
    focal_loss(logits, torch.tensor([label])).backward()
    p = expit(logit if label else -logit)
    size = (1 - p) ** 2 * ((1 - p) - 2 * p * np.log(p))
    assert logits.grad is not None
    assert logits.grad[0, 1].item() == pytest.approx(slope * size, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_loss_is_finite_at_logits_of_a_thousand(gamma: float, dtype: torch.dtype) -> None:
    logits = torch.tensor([[1000.0, 0.0], [0.0, 1000.0]], dtype=dtype, requires_grad=True)
    loss = focal_loss(logits, torch.tensor([0, 0]), gamma)
    loss.backward()
    assert loss.item() == 500
    assert logits.grad is not None
    assert torch.equal(logits.grad, torch.tensor([[0.0, 0.0], [-0.5, 0.5]], dtype=dtype))


def test_an_easy_example_keeps_its_digits_in_float32() -> None:
    logits, labels = torch.tensor([[18.0, 0.0]]), torch.tensor([0])
    right = focal_loss(logits.double(), labels, 1.0).item()
    assert focal_loss(logits, labels, 1.0).item() == pytest.approx(right, rel=1e-5)


def test_gamma_0_is_the_cross_entropy_also_with_missing_labels_and_more_axes() -> None:
    logits, labels = drawn(6, 3, 4, 5), labels_of(7, 4, 3, 5)
    labels[0, :3] = -100
    expected = functional.cross_entropy(logits, labels)
    assert focal_loss(logits, labels, 0).item() == pytest.approx(expected.item(), rel=1e-12)


def test_the_weighted_mean_is_over_examples() -> None:
    """With equal weights of 2 the loss is twice as large, where `cross_entropy` does not change."""
    logits, labels = drawn(8, 6, 3), labels_of(9, 3, 6)
    doubled = focal_loss(logits, labels, 0, torch.full((3,), 2.0, dtype=torch.float64))
    assert doubled.item() == pytest.approx(2 * functional.cross_entropy(logits, labels).item(), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"gamma": -1.0}, ValueError, "gamma is -1.0"),
        ({"gamma": math.nan}, ValueError, "gamma is nan"),
        ({"gamma": "2"}, TypeError, "gamma is '2'"),
        ({"logits": torch.zeros(4)}, ValueError, r"logits have shape \[4\]"),
        ({"labels": torch.zeros(4, 1, dtype=torch.long)}, ValueError, r"labels \[4, 1\]"),
        ({"weight": torch.ones(2)}, ValueError, r"weight has shape \[2\]"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_focal_loss_names_what_does_not_fit(arguments: dict, error: type[Exception], message: str) -> None:
    usual = {"logits": torch.zeros(4, 3), "labels": torch.zeros(4, dtype=torch.long)}
    with pytest.raises(error, match=message):
        focal_loss(**{**usual, **arguments})


# ---------------------------------------------------------------- InfoNCE


def by_loops(queries: np.ndarray, keys: np.ndarray, temperature: float, items: list[int]) -> float:
    """Query by query, from the definition: exp of the own similarity over the sum over what may be compared."""
    losses = []
    for i, query in enumerate(queries):
        cosines = [query @ key / (np.linalg.norm(query) * np.linalg.norm(key)) / temperature for key in keys]
        compared = [cosine for j, cosine in enumerate(cosines) if j == i or items[j] != items[i]]
        losses.append(-math.log(math.exp(cosines[i]) / sum(map(math.exp, compared))))
    return float(np.mean(losses))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 7), st.integers(1, 5), st.sampled_from([0.1, 0.5, 1.0, 4.0]))
def test_info_nce_is_its_definition(seed: int, pairs: int, size: int, temperature: float) -> None:
    queries, keys = drawn(seed, pairs, size), drawn(seed + 1, pairs, size)
    items = labels_of(seed, 3, pairs)
    same = by_loops(queries.numpy(), keys.numpy(), temperature, items.tolist())
    assert info_nce(queries, keys, temperature, items).item() == pytest.approx(same, rel=1e-9, abs=1e-12)
    every = by_loops(queries.numpy(), keys.numpy(), temperature, list(range(pairs)))
    assert info_nce(queries, keys, temperature).item() == pytest.approx(every, rel=1e-9, abs=1e-12)


def test_info_nce_without_information_is_the_logarithm_of_the_batch() -> None:
    assert info_nce(torch.ones(8, 3), torch.ones(8, 3)).item() == pytest.approx(math.log(8), rel=1e-6)


def test_the_gradient_of_info_nce_agrees_with_finite_differences() -> None:
    queries, keys = drawn(1, 5, 3).requires_grad_(), drawn(2, 5, 3).requires_grad_()
    items = torch.tensor([0, 1, 0, 2, 2])
    assert torch.autograd.gradcheck(lambda q, k: info_nce(q, k, 0.5, items), (queries, keys))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"temperature": 0.0}, ValueError, "temperature is 0.0"),
        ({"temperature": None}, TypeError, "temperature is None"),
        ({"keys": torch.ones(3, 2)}, ValueError, r"keys \[3, 2\]"),
        ({"queries": torch.ones(4), "keys": torch.ones(4)}, ValueError, r"queries have shape \[4\]"),
        ({"items": torch.arange(3)}, ValueError, r"items have shape \[3\]"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else None,
)
def test_info_nce_names_what_does_not_fit(arguments: dict, error: type[Exception], message: str) -> None:
    usual = {"queries": torch.ones(4, 2), "keys": torch.ones(4, 2)}
    with pytest.raises(error, match=message):
        info_nce(**{**usual, **arguments})
