"""The tape's operations against PyTorch in float64: each on its own, and 500 random graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lecture_lib import tape
from lecture_lib.tape import Tensor

AGREEMENT = 1e-10
Case = tuple[str, Callable[..., Any], Callable[..., Any], list[tuple[int, ...]], bool]


def both(name: str, function: Callable[..., Any], *shapes: tuple[int, ...], positive: bool = False) -> Case:
    """A case whose formula reads the same for the tape and for PyTorch."""
    return name, function, function, list(shapes), positive


def each(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    return name, ours, theirs, list(shapes), False


LABELS = np.array([1, 0, 3, 3, 2])
MASK = np.array([[True, False, True], [False, False, True]])
BROADCASTS = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 3)),
    ((4, 1, 3), (2, 1)),
    ((), ()),
    ((1,), ()),
]
PRODUCTS = [
    ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((1, 1), (1, 1)),
]  # fmt: skip
REDUCTIONS: list[tuple[tuple[int, ...], Any]] = [
    ((), None), ((4,), 0), ((2, 3), None), ((2, 3), 1), ((2, 3), -2), ((2, 3, 4), (0, -1)), ((1, 3), 0),
    ((2, 1, 3), (1, 2)),
]  # fmt: skip
KEYS: dict[str, Any] = {
    "row": 1,
    "negative": -1,
    "slice": slice(0, 2),
    "column": (slice(None), 1),
    "new-axis": (None, 1),
    "ellipsis": (..., 0),
    "entry": (1, 2),
    "repeated": [0, 0, 1, 0],
    "pairs": ([0, 1, 1, 0, 0], [2, 0, 0, 2, 1]),
    "mask": MASK,
    "mixed": (slice(None), [2, 2, 0]),
}


def cases() -> list[Case]:
    operations: list[Case] = []
    for a, b in BROADCASTS:
        operations += [
            both(f"add {a} {b}", lambda x, y: x + y, a, b),
            both(f"subtract {a} {b}", lambda x, y: x - y, a, b),
            both(f"multiply {a} {b}", lambda x, y: x * y, a, b),
            both(f"divide {a} {b}", lambda x, y: x / y, a, b, positive=True),
            both(f"power {a} {b}", lambda x, y: x**y, a, b, positive=True),
        ]
    for exponent in (0, 1, 2, 3.5, -1, -0.5):
        both_power = both(f"power {exponent}", lambda x, n=exponent: x**n, (2, 3), positive=True)
        operations.append(both_power)
    operations += [
        both("scalar right", lambda x: (x + 2) * 3 - 1.5, (2, 3)),
        both("scalar left", lambda x: 2 - (3 + (0.5 * x)), (2, 3)),
        both("scalar divided", lambda x: 2 / x / 4, (2, 3), positive=True),
        both("scalar to a power", lambda x: 2.5**x, (2, 3)),
        both("negate", lambda x: -x, (2, 3)),
    ]
    operations += [both(f"matmul {a} {b}", lambda x, y: x @ y, a, b) for a, b in PRODUCTS]
    operations.append(each("linear", tape.linear, lambda x, w, b: x @ w + b, (4, 3), (3, 2), (2,)))
    for shape in [(), (1,), (2, 3)]:
        for name in ("exp", "tanh", "sigmoid", "relu"):
            operations.append(each(f"{name} {shape}", getattr(tape, name), getattr(torch, name), shape))
        operations += [
            both(f"{n} {shape}", lambda x, n=n: getattr(x, n)(), shape, positive=True) for n in ("log", "sqrt")
        ]
    for shape, axis in REDUCTIONS:
        dim = tuple(range(len(shape))) if axis is None else axis
        for kept in (False, True):
            where = f"{shape} axis={axis} keepdims={kept}"
            sums = lambda x, d=dim, k=kept: x.sum(d, keepdim=k)  # noqa: E731
            means = lambda x, d=dim, k=kept: x.mean(d, keepdim=k)  # noqa: E731
            largest = lambda x, d=dim, k=kept: x.amax(d, keepdim=k)  # noqa: E731
            operations += [
                each(f"sum {where}", lambda x, a=axis, k=kept: x.sum(a, k), sums, shape),
                each(f"mean {where}", lambda x, a=axis, k=kept: x.mean(a, k), means, shape),
                each(f"max {where}", lambda x, a=axis, k=kept: x.max(a, k), largest, shape),
            ]
    operations += [
        both("reshape", lambda x: x.reshape(3, 2), (2, 3)),
        both("reshape tuple", lambda x: x.reshape((-1,)), (2, 3)),
        both("reshape to 0-d", lambda x: x.reshape(()), (1, 1)),
        both("T", lambda x: x.T, (2, 3)),
        each("transpose", lambda x: x.transpose(2, 0, -2), lambda x: x.permute(2, 0, 1), (2, 3, 4)),
        each("transpose reversed", lambda x: x.transpose(), lambda x: x.permute(2, 1, 0), (2, 3, 4)),
    ]
    for name, key in KEYS.items():
        operations.append(both(f"index {name}", lambda x, k=key: x[k], (2, 3)))
    for axis in (0, 1, -1):
        shapes = [(2, 3), (2, 3), (2, 3)]
        join = lambda *x, a=axis: tape.concatenate(x, a)  # noqa: E731
        operations.append(each(f"concatenate axis={axis}", join, lambda *x, a=axis: torch.cat(x, a), *shapes))
    uneven = lambda *x: tape.concatenate(x, 1)  # noqa: E731
    operations.append(each("concatenate uneven", uneven, lambda *x: torch.cat(x, 1), (2, 1), (2, 3)))
    for axis in (0, -1):
        ours = lambda x, a=axis: tape.log_softmax(x, a)  # noqa: E731
        operations.append(each(f"log_softmax axis={axis}", ours, lambda x, a=axis: x.log_softmax(a), (3, 4)))
    operations.append(
        each(
            "cross_entropy",
            lambda x: tape.cross_entropy(x, LABELS),
            lambda x: torch.nn.functional.cross_entropy(x, torch.tensor(LABELS)),
            (5, 4),
        )
    )
    return operations


CASES = cases()


@pytest.mark.parametrize(("name", "ours", "theirs", "shapes", "positive"), CASES, ids=[case[0] for case in CASES])
def test_operation_agrees_with_pytorch(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any], shapes: list[tuple[int, ...]], positive: bool
) -> None:
    generator = np.random.default_rng(sum(name.encode()))
    arrays = [generator.normal(size=shape) for shape in shapes]
    arrays = [np.abs(array) + 0.5 for array in arrays] if positive else arrays
    x = [Tensor(array, requires_grad=True) for array in arrays]
    y = [torch.tensor(array, requires_grad=True) for array in arrays]
    result, expected = ours(*x), theirs(*y)
    gradient = generator.normal(size=result.shape)
    result.backward(gradient)
    expected.backward(torch.tensor(gradient))
    agree(result.data, expected)
    for ours_leaf, theirs_leaf in zip(x, y, strict=True):
        agree(ours_leaf.grad, theirs_leaf.grad)


def agree(ours: np.ndarray | None, theirs: torch.Tensor | None) -> None:
    """Same shape, same dtype, and no entry further apart than 1e-10 of its size (of 1, for small ones)."""
    assert ours is not None
    assert theirs is not None
    expected = theirs.detach().numpy()
    assert ours.shape == expected.shape
    assert ours.dtype == expected.dtype
    assert np.all(np.abs(ours - expected) <= AGREEMENT * np.maximum(1, np.abs(expected)))


EDGES: dict[str, tuple[list[float], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu at 0": ([-1.0, 0.0, 2.0], tape.relu, torch.relu),
    "sigmoid far out": ([-800.0, -40.0, 0.0, 40.0, 800.0], tape.sigmoid, torch.sigmoid),
    "tanh far out": ([-800.0, 0.0, 800.0], tape.tanh, torch.tanh),
    "log of a small sigmoid": ([-700.0, -40.0], lambda x: tape.sigmoid(x).log(), lambda x: x.sigmoid().log()),
    "max with ties": ([3.0, 1.0, 3.0, 3.0], lambda x: x.max(), lambda x: x.amax()),
    "log_softmax far out": ([1e4, -1e4, 0.0], tape.log_softmax, lambda x: x.log_softmax(-1)),
    "x**0 at 0": ([0.0, 2.0], lambda x: x**0, lambda x: x**0),
    "x**1 at 0": ([0.0, -2.0], lambda x: x**1, lambda x: x**1),
    "negative base": ([-2.0, -1.5], lambda x: x**3, lambda x: x**3),
    "0**x": ([0.0, 2.0], lambda x: 0.0**x, lambda x: 0.0**x),
}


@pytest.mark.parametrize("name", EDGES)
def test_where_formulas_are_delicate_pytorch_agrees_too(name: str) -> None:
    values, ours, theirs = EDGES[name]
    x, y = Tensor(values, requires_grad=True), torch.tensor(values, dtype=torch.float64, requires_grad=True)
    result, expected = ours(x), theirs(y)
    result.sum().backward()
    expected.sum().backward()
    agree(result.data, expected)
    agree(x.grad, y.grad)


def test_cross_entropy_of_huge_logits_is_exact() -> None:
    x = Tensor([[1e4, 0.0], [0.0, 1e4]], requires_grad=True)
    loss = tape.cross_entropy(x, [0, 0])
    loss.backward()
    assert loss.item() == 5000
    np.testing.assert_array_equal(x.grad, [[0, 0], [-0.5, 0.5]])


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "relu", "log", "sqrt"])
def test_float32_stays_float32(name: str) -> None:
    x = Tensor(np.array([0.5, 2.0], np.float32), requires_grad=True)
    y = (2.0 * getattr(x, name)() ** 2 + np.float64(1)).mean() / 3
    y.backward()
    assert y.dtype == np.float32
    assert x.grad is not None
    assert x.grad.dtype == np.float32


# Random graphs. Each step draws an operation and earlier values, so that nodes are reused; the functions keep values in
# a range where 1e-10 is a fair demand.
UNARY: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x.tanh(), lambda x: x.tanh()),
    (lambda x: x.sigmoid(), lambda x: x.sigmoid()),
    (lambda x: x.relu(), lambda x: x.relu()),
    (lambda x: (-(x * x)).exp(), lambda x: (-(x * x)).exp()),
    (lambda x: (x * x + 1).log(), lambda x: (x * x + 1).log()),
    (lambda x: (x**2 + 0.5).sqrt(), lambda x: (x**2 + 0.5).sqrt()),
    (lambda x: x.T, lambda x: x.permute(list(range(x.ndim))[::-1])),
    (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    (lambda x: x.sum(axis=-1, keepdims=True) if x.ndim else x, lambda x: x.sum(-1, keepdim=True) if x.ndim else x),
    (lambda x: x.mean(axis=0) if x.ndim else x, lambda x: x.mean(0) if x.ndim else x),
    (lambda x: x.max(axis=0) if x.ndim else x, lambda x: x.amax(0) if x.ndim else x),
    (lambda x: x[[0, -1, 0]] if x.ndim else x, lambda x: x[[0, -1, 0]] if x.ndim else x),
    (lambda x: x.log_softmax(-1) if x.ndim else x, lambda x: x.log_softmax(-1) if x.ndim else x),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: (x * y) * 0.5,
    lambda x, y: x / (y * y + 1),
]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (4, 2, 3), (3, 3)]


def joined(library: Any, x: Any, y: Any) -> Any:
    """The operations of two values whose spelling or shapes differ: matmul where it fits, else concatenation."""
    if x.ndim and y.ndim and x.shape[-1] == y.shape[max(y.ndim - 2, 0)] and (x.ndim < 3 or y.ndim < 3):
        return (x @ y) * 0.25
    return (tape.concatenate if library is tape else torch.cat)([x.reshape(-1), y.reshape(-1)])


@settings(max_examples=500, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_graphs_agree_with_pytorch(data: st.DataObject) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), "leaves")
    arrays = [generator.normal(size=shape) for shape in shapes]
    x = [Tensor(array, requires_grad=True) for array in arrays]
    y = [torch.tensor(array, requires_grad=True) for array in arrays]
    ours: list[Tensor] = list(x)
    theirs: list[torch.Tensor] = list(y)
    for _ in range(data.draw(st.integers(1, 12), "operations")):
        first = data.draw(st.integers(0, len(ours) - 1), "first")
        second = data.draw(st.integers(0, len(ours) - 1), "second")
        chosen = data.draw(st.integers(0, len(UNARY) + len(BINARY)), "operation")
        if chosen < len(UNARY):
            result, expected = UNARY[chosen][0](ours[first]), UNARY[chosen][1](theirs[first])
        elif chosen == len(UNARY) + len(BINARY) or not broadcasts(ours[first].shape, ours[second].shape):
            result, expected = joined(tape, ours[first], ours[second]), joined(torch, theirs[first], theirs[second])
        else:
            function = BINARY[chosen - len(UNARY)]
            result, expected = function(ours[first], ours[second]), function(theirs[first], theirs[second])
        agree(result.data, expected)
        if expected.numel() <= 100:
            ours.append(result)
            theirs.append(expected)
    # Several outputs of one graph, differentiated one after the other: the gradients add up.
    for output in data.draw(st.lists(st.integers(0, len(ours) - 1), min_size=1, max_size=3), "outputs"):
        ours[output].sum().backward(retain_graph=True)
        theirs[output].sum().backward(retain_graph=True)
    for ours_leaf, theirs_leaf in zip(x, y, strict=True):
        if theirs_leaf.grad is None:
            assert ours_leaf.grad is None
        else:
            agree(ours_leaf.grad, theirs_leaf.grad)


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))
