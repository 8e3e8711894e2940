"""03a-register: what is registered as what, what a state_dict restores, and what moves along.

The reference is the module's arithmetic in NumPy. What a module lists is compared by values, not by names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation


def floats(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def ordered(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return sorted((floats(array).ravel() for array in arrays), key=lambda flat: (flat.size, flat.tolist()))


def parameters(inputs: Inputs, temperature: float | None = None) -> list[np.ndarray]:
    start = inputs["temperature"] if temperature is None else temperature
    return ordered([np.array([start]), *inputs["weights"], *inputs["biases"]])


def mean_after_a_pass(inputs: Inputs, start: Any = None) -> np.ndarray:
    """The running mean after one pass in training mode, from the given mean or another one."""
    old = inputs["mean"] if start is None else start
    return np.asarray(0.9 * old + 0.1 * inputs["x"].astype(np.float64).mean(axis=0))


def buffers(inputs: Inputs, start: Any = None) -> list[np.ndarray]:
    return ordered([mean_after_a_pass(inputs, start), *inputs["shifts"]])


def output(inputs: Inputs, mean: np.ndarray) -> np.ndarray:
    """What the module computes in eval mode, in float64."""
    values = inputs["x"].astype(np.float64) - mean + sum(inputs["shifts"])
    for number, (weight, bias) in enumerate(zip(inputs["weights"], inputs["biases"], strict=True)):
        values = (np.maximum(values, 0.0) if number else values) @ weight.T.astype(np.float64) + bias
    return np.asarray(values / inputs["temperature"])


def others(inputs: Inputs) -> Inputs:
    """The inputs of the other module that the public half makes from a case."""
    lists = {name: [array + 1 for array in inputs[name]] for name in ("weights", "biases", "shifts")}
    return {**inputs, **lists, "mean": inputs["mean"] + 1, "temperature": 2 * inputs["temperature"]}


def reference(case: Case) -> Mapping[str, Any]:
    inputs = case.inputs
    count = len(parameters(inputs))
    owned = count + len(buffers(inputs))
    return {
        "registered.parameter_tensors": count,
        "registered.trainable_tensors": count,
        "registered.parameters": parameters(inputs),
        "registered.buffer_tensors": owned - count,
        "registered.buffers": buffers(inputs),
        "state.unsaved_tensors": 0,
        "state.restored": floats(output(inputs, mean_after_a_pass(inputs))),
        "moves.dtypes": ["float64"] * owned,
        "moves.devices": ["meta"] * owned,
        "moves.output": output(others(inputs), inputs["mean"] + 1),
    }


def listed(counts: Callable[[int, int], tuple[int, int]]) -> Simulation:
    """How many parameters and buffers are listed, from how many there should be."""

    def simulate(case: Case) -> Mapping[str, Any]:
        right = reference(case)
        names = ("registered.parameter_tensors", "registered.buffer_tensors")
        return dict(zip(names, counts(*(right[name] for name in names)), strict=True))

    return simulate


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return floats(rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape))


def module(
    rng: np.random.Generator, kind: str, layers: int, features: int, examples: int, temperature: float, shifts: int = 0
) -> Case:
    widths = [features, *rng.integers(1, 6, layers)]
    inputs = {
        "weights": [numbers(rng, after, before) for before, after in pairwise(widths)],
        "biases": [numbers(rng, width) for width in widths[1:]],
        "shifts": [numbers(rng, features) for _ in range(shifts)],
        "mean": numbers(rng, features),
        "temperature": float(np.float32(temperature)),
        "x": floats(rng.normal(size=(examples, features))),
    }
    return Case(kind, inputs)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has one to three layers, one feature, one example, and temperatures below zero, below and above 1."""
    return [
        module(rng, "one layer", 1, 1, int(rng.integers(2, 6)), rng.uniform(1.5, 4.0)),
        module(rng, "two layers", 2, int(rng.integers(2, 6)), 1, rng.uniform(0.3, 0.7)),
        module(rng, "three layers", 3, int(rng.integers(2, 6)), int(rng.integers(2, 6)), -rng.uniform(1.5, 4.0)),
        module(rng, "a layer with a buffer", 2, int(rng.integers(2, 6)), 3, rng.uniform(1.5, 4.0), shifts=1),
    ]


def domain(rng: np.random.Generator) -> Case:
    """One to three linear layers, up to two more with a buffer or eleven, any number of features and examples.

    Some means are zeros, and some temperatures thousands, parts of a thousand or 1.
    """
    layers, features, examples = (int(size) for size in rng.integers(1, [4, 6, 6]))
    temperature = rng.choice([-1.0, 1.0]) * 10 ** (rng.uniform(-0.7, 0.7) + int(rng.choice([-3, 0, 0, 0, 0, 3])))
    temperature = 1.0 if rng.integers(8) == 0 else temperature
    # More than ten layers: their numbers have two digits.
    shifts = 11 if rng.integers(7) == 0 else int(rng.integers(3))
    drawn = module(rng, "domain", layers, features, examples, temperature, shifts)
    mean = np.zeros_like(drawn.inputs["mean"]) if rng.integers(7) == 0 else drawn.inputs["mean"]
    return Case(drawn.kind, {**drawn.inputs, "mean": mean})


def visible(name: str, weights: Any, biases: Any, mean: Any, temperature: float, x: Any, *shifts: Any) -> Case:
    """The numbers are small and exact in binary, so that every value can be checked by hand."""
    lists = {"weights": weights, "biases": biases, "shifts": shifts}
    arrays = {key: [floats(array) for array in value] for key, value in lists.items()}
    return Case(name, {**arrays, "mean": floats(mean), "temperature": temperature, "x": floats(x)})


QUESTION = Description(
    id="03a-register",
    parts=(
        Graded(
            "parameters",
            2,
            ("registered.parameter_tensors", "registered.trainable_tensors", "registered.parameters"),
        ),
        Graded(
            "buffers",
            2,
            ("registered.buffer_tensors", "registered.buffers"),
            on=("one layer", "two layers", "three layers"),  # buffers of layers are seen where they are saved and moved
        ),
        Graded("state_dict", 1, ("state.unsaved_tensors", "state.restored")),
        Graded("moves", 2, ("moves.dtypes", "moves.devices", "moves.output")),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "nothing-registered",
            "the module owns no parameter and no buffer: an optimizer has nothing to train, a checkpoint is empty",
            "which kinds of attribute an nn.Module notices",
            listed(lambda parameters, buffers: (0, 0)),
        ),
        Mistake(
            "layers-hidden",
            "the layers are used, but not registered: a plain Python container hides them from the module",
            "which containers of torch.nn hold modules",
            listed(lambda parameters, buffers: (1, 1)),
        ),
        Mistake(
            "temperature-as-buffer",
            "the temperature is a buffer: saved and moved, but never trained",
            "which of the two, parameter or buffer, parameters() lists",
            listed(lambda parameters, buffers: (parameters - 1, buffers + 1)),
        ),
        Mistake(
            "temperature-plain",
            "the temperature is a plain attribute: no optimizer will see it, no checkpoint will hold it",
            "how a tensor becomes something that an optimizer is given",
            listed(lambda parameters, buffers: (parameters - 1, buffers)),
        ),
        Mistake(
            "temperature-frozen",
            "a parameter gets no gradient: it is listed, and never changes",
            "requires_grad of everything that should be learned",
            lambda case: {"registered.trainable_tensors": len(parameters(case.inputs)) - 1},
        ),
        Mistake(
            "mean-as-parameter",
            "the running mean is listed among the parameters: an optimizer would be given a statistic",
            "who changes the running mean: the optimizer or forward",
            listed(lambda parameters, buffers: (parameters + 1, buffers - 1)),
        ),
        Mistake(
            "mean-plain",
            "the running mean is a plain attribute: it stays behind when the module moves, and is not saved",
            "how a tensor that is not trained is registered",
            listed(lambda parameters, buffers: (parameters, buffers - 1)),
        ),
        Mistake(
            "extra-buffer",
            "the module owns a buffer that nobody asked for",
            "the list of what the module owns, in the question",
            listed(lambda parameters, buffers: (parameters, buffers + 1)),
        ),
        Mistake(
            "mean-not-saved",
            "the running mean is a buffer that state_dict() leaves out: a restored model starts without it",
            "the arguments of register_buffer",
            lambda case: {"state.unsaved_tensors": 1},
        ),
        Mistake(
            "values-ignored",
            "the module does not start from a value that it was given: the mean is 0 or the temperature is 1",
            "where each starting value comes from: all are arguments",
            lambda case: {"registered.buffers": buffers(case.inputs, 0.0)},
            also=(lambda case: {"registered.parameters": parameters(case.inputs, 1.0)},),
        ),
    ),
    visible=(
        visible(
            "one layer, temperature -2", [[[1, 2], [0, -1], [3, 1]]], [[1, 0, -2]], [1, -1], -2.0, [[3, 1], [-1, 0]]
        ),
        visible(
            "two layers with a relu between, temperature 0.5",
            [[[1, 0], [-1, 1], [2, 1]], [[1, 0, -1]]],
            [[0, 1, -1], [0.5]],
            [0.5, 0],
            0.5,
            [[1.5, 2]],
        ),
        visible(
            "three linear layers after one that owns a buffer",
            [[[1, 2], [0, -1]], [[1, -1]], [[2]]],
            [[1, 0], [0.5], [-1]],
            [1, -1],
            2.0,
            [[3, 1], [-1, 0]],
            [0.5, 2],
        ),
    ),
    draw=draw,
    domain=domain,
)
