"""03a-backward: the rules of relu and of a linear layer on many shapes, at the kink, and together on the tape.

The reference sums the definition entry by entry (einsum with named axes); no tape, no autograd, no transposes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation, given

Array = np.ndarray
RELU, X, WEIGHT, BIAS = "relu.x", "linear.x", "linear.weight", "linear.bias"
NETWORK = tuple(f"network.{name}" for name in ("weight", "bias", "weight2", "bias2"))


def relu_gradient(z: Array, relu_gradient: Array, at_zero: float = 0.0, **_: Array) -> Array:
    return np.where(z > 0, 1.0, np.where(z == 0, at_zero, 0.0)) * relu_gradient


def linear_gradients(x: Array, weight: Array, gradient: Array) -> dict[str, Array]:
    """Of x @ weight + bias: [examples, inputs], [inputs, outputs] and [outputs]."""
    return {
        "x": np.einsum("no,io->ni", gradient, weight),
        "weight": np.einsum("ni,no->io", x, gradient),
        "bias": np.einsum("no->o", gradient),
    }


def network_gradients(case: Case) -> dict[str, Array]:
    """Of the sum of the squared results of two layers with a relu between."""
    x, weight, bias, weight2, bias2 = (case.inputs[name] for name in ("x", "weight", "bias", "weight2", "bias2"))
    z = x @ weight + bias
    h = np.where(z > 0, z, 0.0)
    second = linear_gradients(h, weight2, 2 * (h @ weight2 + bias2))
    first = linear_gradients(x, weight, np.where(z > 0, second["x"], 0.0))
    return dict(zip(NETWORK, (first["weight"], first["bias"], second["weight"], second["bias"]), strict=True))


def reference(case: Case) -> dict[str, Array]:
    linear = linear_gradients(*(case.inputs[name] for name in ("x", "weight", "linear_gradient")))
    return {
        RELU: relu_gradient(**case.inputs),
        **{f"linear.{name}": gradient for name, gradient in linear.items()},
        **network_gradients(case),
    }


def relu_as(rule: Callable[[Array, Array], Array]) -> Simulation:
    return given({RELU: lambda z, relu_gradient, **_: rule(z, relu_gradient)})


def linear_as(**rules: Callable[[Array, Array, Array], Array]) -> Simulation:
    """Gradients of the linear layer's tensors, each from x, weight and the incoming gradient."""

    def simulate(case: Case) -> dict[str, Array]:
        arrays = [case.inputs[name] for name in ("x", "weight", "linear_gradient")]
        return {f"linear.{name}": rule(*arrays) for name, rule in rules.items()}

    return simulate


def case(rng: np.random.Generator, kind: str, relu_shape: tuple[int, ...], sizes: tuple[int, ...]) -> Case:
    """Examples, inputs, hidden values and outputs in `sizes`; the hidden values are the first layer's outputs."""
    examples, inputs, hidden, outputs = sizes

    def away(*shape: int) -> Array:
        # Not near 0, where a rule that forgets a factor could be right by accident.
        return rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)

    z, relu_gradient = away(*relu_shape), away(*relu_shape)
    # The kink with both signs, open and closed gates with gradients of both signs, and an input just above 0, which
    # float32 cannot hold.
    places = rng.choice(z.size, 7, replace=False)
    z.flat[places] = [0.0, -0.0, 1.3, 0.7, -0.4, -1.1, 1e-300]
    relu_gradient.flat[places] = np.abs(relu_gradient.flat[places]) * [1, -1, 1, -1, 1, -1, 1]
    x, bias = away(examples, inputs), away(hidden)
    if examples > 1:
        x[-1], bias[0] = 0.0, 0.0  # a hidden value of exactly 0
    return Case(
        kind,
        {
            "z": z,
            "relu_gradient": relu_gradient,
            "x": x,
            "weight": away(inputs, hidden),
            "bias": bias,
            "linear_gradient": away(examples, hidden),
            "weight2": away(hidden, outputs),
            "bias2": away(outputs),
        },
    )


def every_gate(drawn: Case) -> bool:
    """Whether gradients of both signs meet open, closed and undecided gates between the two layers."""
    x, weight, bias, weight2, bias2 = (drawn.inputs[name] for name in ("x", "weight", "bias", "weight2", "bias2"))
    hidden = x @ weight + bias
    gradient = 2 * (np.maximum(hidden, 0) @ weight2 + bias2) @ weight2.T
    signs = set(zip(np.sign(hidden).ravel(), np.sign(gradient).ravel(), strict=True))
    return signs >= {(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)} and {0.0} <= {gate for gate, _ in signs}


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each size alone at 1, all sizes equal, and from one to four axes before relu."""
    return [
        case(rng, "one example", (1, 7), (1, 4, 3, 2)),
        draw_until(lambda: case(rng, "several examples", (5, 4), (5, 3, 4, 2)), every_gate),
        case(rng, "one input", (7,), (6, 1, 3, 2)),
        case(rng, "one output", (2, 3, 4), (4, 5, 1, 3)),
        case(rng, "as many examples as inputs and outputs", (2, 2, 1, 3), (3, 3, 3, 3)),
        case(rng, "one of each", (8, 1), (1, 1, 1, 1)),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Arrays of one to four axes, or six, of any size but 0, in quarters: the hidden values are often exactly 0.

    Some have many entries. Some numbers are thousands or parts of a thousand, before relu up to the ends of float64.
    """

    def quarters(*shape: int) -> Array:
        return rng.integers(-8, 9, shape) / 4

    examples, inputs, hidden, outputs = (int(size) for size in rng.integers(1, 5, 4))
    relu_shape = tuple(int(size) for size in rng.integers(1, 5, rng.integers(1, 5)))
    if rng.integers(4) == 0:
        examples, relu_shape = 1200, (2, 1200)
    elif rng.integers(5) == 0:
        relu_shape = (2, 1, 3, 1, 2, 1)
    size_of_z = [1.0, 1.0, 1.0, 1.0, 1e300, 1e-300][rng.integers(6)]
    size_of_x, size_of_weight = rng.choice([1.0, 1.0, 1.0, 1.0, 4096.0, 1 / 4096], 2)
    return Case(
        "domain",
        {
            "z": quarters(*relu_shape) * size_of_z,
            "relu_gradient": quarters(*relu_shape),
            "x": quarters(examples, inputs) * size_of_x,
            "weight": quarters(inputs, hidden) * size_of_weight,
            "bias": quarters(hidden),
            "linear_gradient": quarters(examples, hidden),
            "weight2": quarters(hidden, outputs),
            "bias2": quarters(outputs),
        },
    )


def visible(name: str, **arrays: Any) -> Case:
    return Case(name, {key: np.array(rows, dtype=np.float64) for key, rows in arrays.items()})


QUESTION = Description(
    id="03a-backward",
    parts=(
        Graded("relu", 1, (RELU,)),
        Graded("matmul", 2, (X, WEIGHT)),
        Graded("bias", 2, (BIAS,)),
        Graded("two layers", 1, NETWORK),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "passes-at-the-kink",
            "the gradient passes where the input is exactly 0; the tape and PyTorch pass nothing there",
            "the comparison that decides which entries are open, at 0",
            given({RELU: lambda **arrays: relu_gradient(**arrays, at_zero=1.0)}),
        ),
        Mistake(
            "half-at-the-kink",
            "half of the gradient passes where the input is exactly 0; the question asks for none of it",
            "the slope that your rule has at 0",
            given({RELU: lambda **arrays: relu_gradient(**arrays, at_zero=0.5)}),
        ),
        Mistake(
            "gate-of-the-gradient",
            "the relu was applied to the gradient; which gates are open was decided in the forward pass",
            "which of the two arguments the comparison looks at",
            relu_as(lambda z, gradient: np.maximum(gradient, 0.0)),
        ),
        Mistake(
            "both-gates",
            "negative gradients were stopped as well; only the sign of the input decides",
            "an entry with a positive input and a negative gradient",
            relu_as(lambda z, gradient: np.where(z > 0, np.maximum(gradient, 0.0), 0.0)),
        ),
        Mistake(
            "gate-missing",
            "the gradient passes everywhere, also where relu gave 0",
            "the slope of relu to the left of 0",
            relu_as(lambda z, gradient: gradient),
        ),
        Mistake(
            "value-as-slope",
            "the gradient was multiplied by relu's value instead of by its slope",
            "how much relu(3) grows when 3 grows by a little",
            relu_as(lambda z, gradient: np.maximum(z, 0.0) * gradient),
        ),
        Mistake(
            "sign-as-slope",
            "the slope to the left of 0 is -1: that is the slope of the absolute value",
            "the graph of relu to the left of 0",
            relu_as(lambda z, gradient: np.sign(z) * gradient),
        ),
        Mistake(
            "upstream-missing",
            "the incoming gradient is not used: this is right only when it is 1 everywhere",
            "what the local slope is multiplied by",
            relu_as(lambda z, gradient: np.where(z > 0, 1.0, 0.0)),
        ),
        Mistake(
            "no-gradient",
            "no gradient passes through relu",
            "an entry whose input is positive: what its result does to the loss, it does too",
            relu_as(lambda z, gradient: np.zeros_like(z)),
        ),
        Mistake(
            "linear-upstream-missing",
            "the incoming gradient is not used in the linear layer: this is right only when it is 1 everywhere",
            "what the local slope is multiplied by",
            linear_as(
                x=lambda x, weight, gradient: np.ones_like(gradient) @ weight.T,
                weight=lambda x, weight, gradient: x.T @ np.ones_like(gradient),
            ),
            also=(linear_as(bias=lambda x, weight, gradient: np.ones_like(gradient).sum(axis=0)),),
        ),
        Mistake(
            "averaged",
            "the gradients were divided by the number of examples; that division belongs to the loss, if it has one",
            "whether anything in x @ weight + bias divides by the batch size",
            linear_as(
                weight=lambda x, weight, gradient: x.T @ gradient / len(x),
                bias=lambda x, weight, gradient: gradient.mean(axis=0),
            ),
        ),
        Mistake(
            "weight-averaged",
            "the weight's gradient was divided by the number of examples; that belongs to the loss, if it has one",
            "whether anything in x @ weight + bias divides by the batch size",
            linear_as(weight=lambda x, weight, gradient: x.T @ gradient / len(x)),
        ),
        Mistake(
            "bias-averaged",
            "the bias's gradient was divided by the number of examples; that belongs to the loss, if it has one",
            "whether anything in x @ weight + bias divides by the batch size",
            linear_as(bias=lambda x, weight, gradient: gradient.mean(axis=0)),
        ),
        Mistake(
            "weight-transposed",
            "the weight's gradient is transposed: a gradient has the shape of what it is the gradient of",
            "the shapes [inputs, examples] and [examples, outputs], and the shape of their product",
            linear_as(weight=lambda x, weight, gradient: gradient.T @ x),
        ),
        Mistake(
            "reshaped",
            "a product was brought to its shape by `reshape`, which keeps the order of the entries: transpose it",
            "where the entry [0, 1] of the product ends up",
            linear_as(weight=lambda x, weight, gradient: (gradient.T @ x).reshape(weight.shape)),
            also=(
                linear_as(x=lambda x, weight, gradient: (weight @ gradient.T).reshape(x.shape)),
                linear_as(
                    x=lambda x, weight, gradient: (weight @ gradient.T).reshape(x.shape),
                    weight=lambda x, weight, gradient: (gradient.T @ x).reshape(weight.shape),
                ),
            ),
        ),
        Mistake(
            "not-transposed",
            "the weight was not transposed where it already fits, with as many inputs as outputs",
            "which axis of the weight meets the outputs of the gradient",
            linear_as(
                x=lambda x, weight, gradient: gradient @ (weight if len(weight) == gradient.shape[1] else weight.T)
            ),
        ),
        Mistake(
            "squeezed",
            "axes of length 1 were dropped: a gradient has the shape of what it is the gradient of",
            "the shape of each gradient with one example, one input or one output",
            linear_as(bias=lambda x, weight, gradient: gradient.sum(axis=0).squeeze()),
            also=(
                linear_as(
                    x=lambda x, weight, gradient: (gradient @ weight.T).squeeze(),
                    weight=lambda x, weight, gradient: (x.T @ gradient).squeeze(),
                    bias=lambda x, weight, gradient: gradient.sum(axis=0).squeeze(),
                ),
            ),
        ),
        Mistake(
            "bias-not-summed",
            "the bias got a gradient for each example; each entry has one gradient, the sum over its uses",
            "the shape of the bias, and how often each of its entries was used",
            linear_as(bias=lambda x, weight, gradient: gradient),
        ),
        Mistake(
            "bias-over-outputs",
            "the bias's gradient was summed over the outputs instead of over the examples",
            "which axis the bias was stretched along",
            linear_as(bias=lambda x, weight, gradient: gradient.sum(axis=1)),
        ),
        Mistake(
            "bias-over-everything",
            "the bias's gradient is one number: it was summed over the outputs as well",
            "the shape of the bias",
            linear_as(bias=lambda x, weight, gradient: gradient.sum()),
        ),
        Mistake(
            "bias-with-two-axes",
            "the bias's gradient has the shape [1, outputs]; the bias has the shape [outputs]",
            "what `keepdims` does",
            linear_as(bias=lambda x, weight, gradient: gradient.sum(axis=0, keepdims=True)),
        ),
        Mistake(
            "bias-of-one-example",
            "the bias got the gradient of one example only",
            "what the other examples of the batch add",
            linear_as(bias=lambda x, weight, gradient: gradient[0]),
        ),
    ),
    visible=(
        # Three examples, two inputs, one output: no two lengths are the same.
        visible(
            "three examples, two inputs, one output",
            z=[[2, -1, 0], [-3, 0, 4]],
            relu_gradient=[[5, 6, 7], [8, -9, -2]],
            x=[[1, 2], [3, 4], [5, 6]],
            weight=[[2], [-1]],
            bias=[0.5],
            linear_gradient=[[1], [-2], [3]],
            weight2=[[1, -1]],
            bias2=[0, 1],
        ),
        visible(
            "one example, two inputs, three outputs",
            z=[0, -1, 2, 3],
            relu_gradient=[1, 1, -1, 0.5],
            x=[[2, -1]],
            weight=[[1, 0, 2], [1, 2, 1]],
            bias=[-1, 0, 1],
            linear_gradient=[[1, -2, 3]],
            weight2=[[1], [1], [2]],
            bias2=[1],
        ),
        visible(
            "two examples, two inputs, two outputs; relu on three axes, one input just above 0",
            z=[[[1e-9, -2]], [[0, 3]]],
            relu_gradient=[[[-4, 5]], [[6, 7]]],
            x=[[1, -1], [0, 2]],
            weight=[[1, 3], [-2, 1]],
            bias=[-3, 4],
            linear_gradient=[[1, 2], [-3, 5]],
            weight2=[[1, 2], [0, -1]],
            bias2=[1, -2],
        ),
    ),
    draw=draw,
    domain=domain,
)
