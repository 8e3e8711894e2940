"""One training step of the same network, as each contender's users would write it.

Every function takes the problem and returns `step` and `weights`: `step()` does forward, cross-entropy, backward and
the SGD update, and returns the loss before the update in the contender's own type; `weights()` gives the present
weights as arrays. Peers are imported inside their functions: ImportError says that one is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lecture_lib.tape import Tensor, cross_entropy, linear, no_grad, relu

Step = Callable[[], Any]
Weights = Callable[[], list[np.ndarray]]
Contender = tuple[Step, Weights]


@dataclass(frozen=True)
class Problem:
    """A batch and a network with one hidden layer.

    Attributes:
        x: [examples, inputs].
        labels: [examples], class indices.
        weights: [inputs, hidden], [hidden], [hidden, classes], [classes], of x's dtype.
        learning_rate: of plain SGD, above 0.

    """

    x: np.ndarray
    labels: np.ndarray
    weights: list[np.ndarray]
    learning_rate: float = 0.1

    def first(self, examples: int) -> Problem:
        """The same network on part of the batch."""
        return replace(self, x=self.x[:examples], labels=self.labels[:examples])


def problem(dtype: type, *, examples: int = 64, widths: tuple[int, int, int] = (64, 32, 10), seed: int = 0) -> Problem:
    """Random inputs and labels, weights as He et al. (2015) start them."""
    draw = np.random.default_rng(seed)
    inputs, hidden, classes = widths
    shapes = [(inputs, hidden), (hidden,), (hidden, classes), (classes,)]
    weights = [
        draw.normal(0, math.sqrt(2 / shape[0]), shape) if len(shape) > 1 else np.zeros(shape) for shape in shapes
    ]
    x, labels = draw.random((examples, inputs)), draw.integers(0, classes, examples)
    return Problem(x.astype(dtype), labels, [array.astype(dtype) for array in weights])


def by_hand(given: Problem) -> Contender:
    """NumPy with the gradients written out, as one would hand it to a colleague: no detours, no buffers kept."""
    x, labels, rate = given.x, given.labels, given.learning_rate
    w1, b1, w2, b2 = weights = [array.copy() for array in given.weights]
    examples = np.arange(len(x))

    def step() -> np.floating:
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        shifted = logits - logits.max(axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        sums = exponentials.sum(axis=1, keepdims=True)
        loss = (np.log(sums[:, 0]) - shifted[examples, labels]).mean()

        d_logits = exponentials / sums
        d_logits[examples, labels] -= 1
        d_logits /= len(x)
        d_hidden = (d_logits @ w2.T) * (hidden > 0)
        gradients = x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= rate * gradient
        return loss

    return step, lambda: [array.copy() for array in weights]


def tape(given: Problem) -> Contender:
    """The course's own."""
    x, labels, rate = Tensor(given.x), given.labels, given.learning_rate
    weights = [Tensor(array, requires_grad=True) for array in given.weights]
    w1, b1, w2, b2 = weights

    def step() -> Tensor:
        for weight in weights:
            weight.zero_grad()
        loss = cross_entropy(linear(relu(linear(x, w1, b1)), w2, b2), labels)
        loss.backward()
        with no_grad():
            for weight in weights:
                weight -= rate * weight.grad
        return loss

    return step, lambda: [np.array(weight.data) for weight in weights]


def pytorch(given: Problem) -> Contender:
    """PyTorch in eager mode, everything at its defaults (SGD with foreach or fused is a little faster)."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    x, labels = torch.from_numpy(given.x), torch.from_numpy(given.labels)
    w1, _, w2, _ = given.weights
    model = nn.Sequential(nn.Linear(*w1.shape), nn.ReLU(), nn.Linear(*w2.shape)).to(x.dtype)
    with torch.no_grad():
        for parameter, array in zip(model.parameters(), given.weights, strict=True):
            parameter.copy_(torch.from_numpy(array.T))  # nn.Linear keeps [outputs, inputs]
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=given.learning_rate)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [parameter.detach().numpy().T.copy() for parameter in model.parameters()]


def hips_autograd(given: Problem) -> Contender:
    """HIPS autograd: a pure function of the weights, differentiated."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    x, labels, rate = given.x, given.labels, given.learning_rate
    examples = np.arange(len(x))
    weights = [array.copy() for array in given.weights]

    def loss_of(weights: list[Any]) -> Any:
        w1, b1, w2, b2 = weights
        logits = anp.dot(anp.maximum(anp.dot(x, w1) + b1, 0), w2) + b2
        shifted = logits - anp.max(logits, axis=1, keepdims=True)
        log_sums = anp.log(anp.sum(anp.exp(shifted), axis=1))
        return anp.mean(log_sums - shifted[examples, labels])

    loss_and_gradients = value_and_grad(loss_of)

    def step() -> np.floating:
        loss, gradients = loss_and_gradients(weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= rate * gradient
        return loss

    return step, lambda: [array.copy() for array in weights]


def mygrad(given: Problem) -> Contender:
    """MyGrad with its defaults: it makes the arrays of a graph read-only, as the tape does; without it is faster."""
    import mygrad as mg
    from mygrad.nnet.activations import relu
    from mygrad.nnet.losses import softmax_crossentropy

    x, labels, rate = given.x, given.labels, given.learning_rate
    weights = [mg.tensor(array.copy()) for array in given.weights]
    w1, b1, w2, b2 = weights

    def step() -> Any:
        loss = softmax_crossentropy(relu(x @ w1 + b1) @ w2 + b2, labels)
        loss.backward()
        for weight in weights:
            weight.data -= rate * weight.grad
        return loss

    return step, lambda: [weight.data.copy() for weight in weights]


def micrograd(given: Problem) -> Contender:
    """micrograd's own network of scalars; exp and log are added as its author's lecture adds them."""
    from micrograd.engine import Value
    from micrograd.nn import MLP

    x, labels, rate = given.x.tolist(), given.labels.tolist(), given.learning_rate
    shapes = [array.shape for array in given.weights]
    model = MLP(shapes[0][0], [shapes[1][0], shapes[3][0]])
    for layer, weight, bias in zip(model.layers, given.weights[::2], given.weights[1::2], strict=True):
        for neuron, column, shift in zip(layer.neurons, weight.T.tolist(), bias.tolist(), strict=True):
            neuron.b.data = shift
            for value, number in zip(neuron.w, column, strict=True):
                value.data = number

    def function(value: Value, result: float, slope: float) -> Value:
        out = Value(result, (value,))

        def backward() -> None:
            value.grad += slope * out.grad

        out._backward = backward
        return out

    def cross_entropy(logits: list[Value], label: int) -> Value:
        largest = max(logit.data for logit in logits)
        shifted = [logit - largest for logit in logits]
        total = sum(function(z, math.exp(z.data), math.exp(z.data)) for z in shifted)
        return function(total, math.log(total.data), 1 / total.data) - shifted[label]

    def step() -> Value:
        losses = [cross_entropy(model(row), label) for row, label in zip(x, labels, strict=True)]
        loss = sum(losses) * (1 / len(losses))
        model.zero_grad()
        loss.backward()
        for value in model.parameters():
            value.data -= rate * value.grad
        return loss

    def weights() -> list[np.ndarray]:
        layers = [layer.neurons for layer in model.layers]
        pairs = [([[v.data for v in n.w] for n in neurons], [n.b.data for n in neurons]) for neurons in layers]
        return [array for weight, bias in pairs for array in (np.array(weight).T, np.array(bias))]

    return step, weights
