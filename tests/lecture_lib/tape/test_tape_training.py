"""Layers, optimizers and gradcheck: against PyTorch, on digits, and on rules that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from lecture_lib import tape
from lecture_lib.data import load_digits, stratified_split
from lecture_lib.tape import Adam, GradientError, Linear, ReLU, Sequential, Tensor, gradcheck, record


def network(widths: list[int], seed: int = 0, dtype: Any = np.float64) -> Sequential:
    generator = np.random.default_rng(seed)
    layers: list[Any] = []
    for inputs, outputs in pairwise(widths):
        layers += [Linear(inputs, outputs, generator=generator, dtype=dtype), ReLU()]
    return Sequential(*layers[:-1])


def twin(model: Sequential) -> torch.nn.Sequential:
    """The same network, with the same weights, in PyTorch."""
    layers: list[torch.nn.Module] = []
    for layer in model.layers:
        if isinstance(layer, Linear):
            copy = torch.nn.Linear(*layer.weight.shape, dtype=torch.float64)
            copy.weight.data = torch.tensor(layer.weight.data.T.copy())
            copy.bias.data = torch.tensor(layer.bias.data.copy())
            layers.append(copy)
        else:
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


OPTIMIZERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "SGD": (lambda p: tape.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (lambda p: tape.SGD(p, 0.05, momentum=0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "Adam": (lambda p: Adam(p, 0.01), lambda p: torch.optim.Adam(p, 0.01)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_takes_the_same_steps_as_pytorch(name: str) -> None:
    model = network([6, 5, 3])
    expected = twin(model)
    ours, theirs = OPTIMIZERS[name][0](model.parameters()), OPTIMIZERS[name][1](expected.parameters())
    random = np.random.default_rng(1)
    for _ in range(20):
        x, labels = random.normal(size=(8, 6)), random.integers(0, 3, 8)
        loss = tape.cross_entropy(model(Tensor(x)), labels)
        torch_loss = torch.nn.functional.cross_entropy(expected(torch.tensor(x)), torch.tensor(labels))
        assert loss.item() == pytest.approx(torch_loss.item(), abs=1e-10)
        ours.zero_grad()
        theirs.zero_grad()
        loss.backward()
        torch_loss.backward()
        ours.step()
        theirs.step()
    for parameter, other in zip(model.parameters(), expected.parameters(), strict=True):
        values = other.detach().numpy()
        np.testing.assert_allclose(parameter.data, values.T if values.ndim == 2 else values, rtol=0, atol=1e-10)


def test_digits_are_learned_with_the_tape_alone() -> None:
    digits = load_digits()
    train, held_out = (part.numpy() for part in stratified_split(digits.labels, (0.8, 0.2), seed=0))
    images, labels = digits.images.reshape(-1, 64).numpy().astype(np.float64), digits.labels.numpy()
    model = network([64, 128, 10])
    optimizer = tape.SGD(model.parameters(), learning_rate=0.1, momentum=0.9)
    order = np.random.default_rng(0)
    for _ in range(10):
        for batch in np.array_split(order.permutation(train), len(train) // 64):
            optimizer.zero_grad()
            tape.cross_entropy(model(Tensor(images[batch])), labels[batch]).backward()
            optimizer.step()
    with tape.no_grad():
        predicted = model(Tensor(images[held_out])).data.argmax(axis=1)
    assert np.mean(predicted == labels[held_out]) >= 0.95


def test_linear_starts_as_in_pytorch() -> None:
    layer = Linear(100, 2000, generator=np.random.default_rng(0))
    assert np.abs(layer.weight.data).max() <= 0.1
    assert np.abs(layer.bias.data).max() <= 0.1
    assert layer.weight.data.std() == pytest.approx(1 / np.sqrt(3 * 100), rel=0.01)
    assert np.sqrt(2 / 100) / layer.weight.data.std() == pytest.approx(np.sqrt(6), rel=0.01)


def test_float32_networks_stay_float32_also_with_a_numpy_rate() -> None:
    model = network([4, 3, 2], dtype=np.float32)
    for optimizer in (tape.SGD(model.parameters(), np.float64(0.1), momentum=0.9), Adam(model.parameters())):
        tape.cross_entropy(model(Tensor(np.ones((5, 4), np.float32))), np.zeros(5, int)).backward()
        optimizer.step()
        assert {parameter.dtype for parameter in model.parameters()} == {np.dtype(np.float32)}


def test_a_parameter_without_gradient_keeps_its_value_and_zero_grad_reaches_all() -> None:
    used, unused = Tensor(1.0, requires_grad=True), Tensor(1.0, requires_grad=True)
    optimizer = tape.SGD([used, unused], 0.5, momentum=0.9)
    (used * 2).backward()
    optimizer.step()
    assert (used.item(), unused.item()) == (0, 1)
    model = Sequential(Linear(2, 2, generator=np.random.default_rng(0)))
    model(Tensor([[1.0, 2.0]])).sum().backward()
    model.zero_grad()
    assert [parameter.grad for parameter in model.parameters()] == [None, None]


def test_the_velocity_is_the_optimizers_own() -> None:
    x = Tensor([1.0], requires_grad=True)
    optimizer = tape.SGD([x], 1.0, momentum=0.5)
    (x * 1.0).sum().backward()
    optimizer.step()
    assert x.grad is not None
    x.grad[:] = 0  # in place, as one may
    optimizer.step()
    assert x.data == -0.5


LEAF = Tensor(1.0, requires_grad=True)
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no parameters": (lambda: tape.SGD([], 0.1), ValueError, "0 parameters"),
    "twice": (lambda: tape.SGD([LEAF, LEAF], 0.1), ValueError, "2 parameters, none or one of them twice"),
    "a constant": (lambda: tape.SGD([Tensor(1.0)], 0.1), TypeError, "requires_grad=False.*leaves"),
    "a result": (lambda: Adam([LEAF * 2]), TypeError, "operation='multiply'"),
    "an array": (lambda: Adam([np.ones(2)]), TypeError, "leaves that require gradients"),  # type: ignore[list-item]
    "rate": (lambda: tape.SGD([LEAF], -0.1), ValueError, "learning_rate=-0.1: it must be positive"),
    "rate nan": (lambda: tape.SGD([LEAF], float("nan")), ValueError, "learning_rate=nan"),
    "momentum": (lambda: tape.SGD([LEAF], 0.1, momentum=1), ValueError, "momentum=1: .*below 1"),
    "beta": (lambda: Adam([LEAF], betas=(0.9, 1.0)), ValueError, "beta=1.0"),
    "step first": (lambda: Adam([Tensor(1.0, requires_grad=True)]).step(), RuntimeError, r"loss\.backward\(\) first"),
    "width": (lambda: Linear(0, 3, generator=np.random.default_rng(0)), ValueError, "a width of 0"),
    "width of a float": (lambda: Linear(2, 3.0, generator=np.random.default_rng(0)), ValueError, "3.0"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    attempt, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        attempt()


# gradcheck.


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


RIGHT: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "network": (lambda x, w, b: tape.linear(x, w, b).tanh().sum(axis=0), [leaf(3, 4), leaf(4, 2), leaf(2)]),
    "reuse": (lambda x: (x * x).log_softmax() * x, [leaf(3, 4)]),
    "batched": (lambda x, y: x @ y, [leaf(2, 1, 3, 2), leaf(4, 2, 3)]),
    "vectors": (lambda x, y: x @ y, [leaf(3), leaf(3, seed=1)]),
    "classes": (lambda x: tape.cross_entropy(x, [1, 0]), [leaf(2, 3)]),
    "kink of relu": (tape.relu, [Tensor([0.0, 1.0, -1.0], requires_grad=True)]),
    "tied maxima": (lambda x: x.max(), [Tensor([1.0, 1.0, 0.0], requires_grad=True)]),
    "large values": (lambda x: (x * 1e6) ** 2, [Tensor([3.0, 1e5], requires_grad=True)]),
    "no influence": (lambda x, y: x * 2.0, [leaf(2), leaf(3)]),
    "a single number": (lambda x: x.exp(), [Tensor(0.3, requires_grad=True)]),
    "a shift past the tape that cancels": (lambda x: (x - x.data.max()).log_softmax(), [leaf(4)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_gradcheck_passes_what_is_right(name: str) -> None:
    function, inputs = RIGHT[name]
    before = [x.data.copy() for x in inputs]
    assert 0 <= gradcheck(function, *inputs) < 1e-6
    for x, values in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x.data, values)
        assert x.grad is None


def wrong(name: str, forward: Callable[[Any], Any], rule: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    return lambda x: record(name, forward(x.data), (x, lambda gradient: gradient * rule(x.data)))


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (wrong("cube", lambda a: a**3, lambda a: 2 * a**2), r"operation 'cube' \(number 3 of 5\).*entry \(0, 0\)"),
        (wrong("leaky", lambda a: np.maximum(a, 0.1 * a), lambda a: a > 100), r"operation 'leaky' .*gives 0, "),
        (
            # Right for all entries but one.
            wrong("double", lambda a: 2 * a, lambda a: 2 + (np.arange(a.size) == 4).reshape(a.shape)),
            r"operation 'double' .*input 0 of shape \(3, 2\), entry \(2, 0\), the backward rule gives",
        ),
        (wrong("nan", np.tanh, lambda a: a * np.nan), r"operation 'nan' .*gives nan"),
    ],
    ids=["factor", "slope", "one-entry", "nan"],
)
def test_gradcheck_names_operation_and_entry(operation: Callable[[Tensor], Tensor], message: str) -> None:
    x, w = leaf(3, 4), leaf(4, 2)
    with pytest.raises(GradientError, match=message):
        gradcheck(lambda x, w: operation((x @ w).exp()).tanh().sum(), x, w)
    assert x.grad is None


def test_gradcheck_tells_a_steep_curve_from_a_kink() -> None:
    """Between the one-sided differences, which lie 0.002 apart here, and wrong all the same."""
    curve = wrong("curve", lambda a: 1000 * a**2, lambda a: 2000 * a + 5e-4)
    with pytest.raises(GradientError, match="operation 'curve'"):
        gradcheck(curve, Tensor([0.0], requires_grad=True))


def test_gradcheck_names_the_input_whose_rule_is_off() -> None:
    def product(x: Tensor, y: Tensor) -> Tensor:
        return record("product", x.data * y.data, (x, lambda g: g * y.data), (y, lambda g: g * y.data))

    with pytest.raises(GradientError, match=r"operation 'product' \(number 1 of 1\): for its input 1"):
        gradcheck(product, leaf(2), leaf(2, seed=1))


def test_gradcheck_sees_a_value_that_went_past_the_tape() -> None:
    with pytest.raises(GradientError, match=r"each operation on its own is right.*\.data"):
        gradcheck(lambda x: x * x.data, leaf(2))


def test_gradcheck_refuses_what_it_cannot_judge() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="two calls of the function recorded different"):
        gradcheck(lambda x: x * random.normal(), leaf(2))
    for bad in (Tensor([1.0], dtype=np.float32, requires_grad=True), Tensor([1.0]), leaf(2) * 2, np.ones(2)):
        with pytest.raises(TypeError, match=r"gradcheck: input 0 is .*float64 leaves"):
            gradcheck(tape.relu, bad)  # type: ignore[arg-type]
