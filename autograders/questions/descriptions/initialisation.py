"""03d-init: fans, standard deviations and bounds, an orthogonal matrix, and the mean square through layers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
Shape = list[int]
FANS, XAVIER, HE, BOUND = "fans.value", "xavier.value", "he.value", "bound.value"
GRAM, OUTSIDE, MOMENTS = "orthogonal.gram", "orthogonal.outside", "moments.value"


def fans(shape: Shape, slip: str = "") -> tuple[float, float]:
    """(fan_in, fan_out) of a weight [out, in, *kernel]."""
    field = 1 if slip == "no kernel" else int(np.prod(shape[2:]))
    field = shape[2] if slip == "one side of the kernel" and len(shape) > 2 else field
    fan_in, fan_out = shape[1] * field, shape[0] * field
    if slip == "kernel in fan_in only":
        fan_out = shape[0]
    return (fan_out, fan_in) if slip == "exchanged" else (fan_in, fan_out)


def deviation(case: Case, scheme: str, slip: str = "") -> float:
    shape, gain = case.inputs["shape"], case.inputs["gain"]
    fan_in, fan_out = fans(shape, slip)
    if scheme == "xavier":
        variance = {"sum not halved": 1 / (fan_in + fan_out), "fan_in alone": 1 / fan_in}.get(
            slip, 2 / (fan_in + fan_out)
        )
    else:
        variance = {"fan_out": 1 / fan_out, "two as well": 2 / fan_in}.get(slip, 1 / fan_in)
    relu = 2**0.5
    gain = {"no gain": 1.0, "gain of a ReLU": relu, "gain squared": gain**2, "root of gain": gain**0.5}.get(slip, gain)
    if slip == "variance":
        return float(gain**2 * variance)
    return float(gain * np.sqrt(variance))


def bound(case: Case, slip: str = "") -> float:
    factor = {"one": 1.0, "twelve": np.sqrt(12), "three": 3.0, "half": np.sqrt(3) / 2}.get(slip, np.sqrt(3))
    return float(factor * case.inputs["deviation"])


def orthogonal(case: Case, slip: str = "") -> dict[str, Any]:
    """The products of the result's shorter side, and what of it lies outside the matrix's own span."""
    matrix, gain = case.inputs["matrix"], case.inputs["gain"]
    size = min(matrix.shape)
    gain = {"no gain": 1.0, "gain squared": gain**2}.get(slip, gain)
    gram = gain**2 * np.eye(size)
    rows = matrix if len(matrix) == size else matrix.T
    if slip in ("only unit rows", "unit columns where square"):
        by_columns = slip != "only unit rows" and len(matrix) == matrix.shape[1]
        unit = rows / np.linalg.norm(rows, axis=0 if by_columns else 1, keepdims=True)
        gram = gain**2 * unit @ unit.T
    if slip == "only scaled":
        gram = gain**2 * rows @ rows.T
    return {GRAM: gram, OUTSIDE: 0.0}


def in_another_space(where: Callable[[int, int], bool]) -> Simulation:
    """Right lengths and angles, with directions that have nothing to do with the matrix where its sides are so."""
    return lambda case: {OUTSIDE: float(where(*case.inputs["matrix"].shape))}


def moments(case: Case, slip: str = "") -> list[float]:
    value, values = case.inputs["start"], []
    for number, (shape, std) in enumerate(zip(case.inputs["shapes"], case.inputs["deviations"], strict=True)):
        rectified = case.inputs["rectified"] and (number > 0 or slip == "input rectified")
        half = 0.5 if rectified and slip != "not halved" else 1.0
        half = half**0.5 if slip == "root of a half" else half
        fan = fans(shape, slip)[1 if slip == "fan_out" else 0]
        scale = std if slip == "not squared" else std**2
        value = fan * scale * half * value if slip != "no fan" else scale * half * value
        values.append(float(value))
    return [value**0.5 for value in values] if slip == "root" else values


def reference(case: Case) -> dict[str, Any]:
    return {
        FANS: [float(fan) for fan in fans(case.inputs["shape"])],
        XAVIER: deviation(case, "xavier"),
        HE: deviation(case, "he"),
        BOUND: bound(case),
        **orthogonal(case),
        MOMENTS: moments(case),
    }


def as_fans(slip: str) -> Simulation:
    return lambda case: {FANS: [float(fan) for fan in fans(case.inputs["shape"], slip)]}


def as_deviation(slip: str, *schemes: str) -> Simulation:
    fields = {"xavier": XAVIER, "he": HE}
    return lambda case: {fields[scheme]: deviation(case, scheme, slip) for scheme in schemes}


def with_fans(slip: str) -> dict[str, Any]:
    """Wrong fans, and in `weight_std` as well where it calls the function, or there alone."""
    alone, both = as_fans(slip), as_deviation(slip, "xavier", "he")
    return {
        "simulate": lambda case: {**alone(case), **both(case)},
        # Xavier is symmetric: in the deviations alone, exchanged fans are He's with fan_out.
        "also": (alone,) if slip == "exchanged" else (alone, both),
    }


def as_field(field: str, function: Callable[[Case, str], Any], slip: str) -> Simulation:
    return lambda case: {field: function(case, slip)}


def made(
    name: str,
    shape: Shape,
    gain: float,
    matrix: Any,
    shapes: list[Shape],
    deviations: list[float],
    rectified: bool,
    start: float,
) -> Case:
    return Case(
        name,
        {
            "shape": shape,
            "gain": gain,
            "deviation": deviations[0],
            "matrix": np.asarray(matrix, np.float64),
            "start": start,
            "shapes": shapes,
            "deviations": deviations,
            "rectified": rectified,
        },
    )


def case(rng: np.random.Generator, name: str, shape: Shape, matrix: tuple[int, int], rectified: bool) -> Case:
    """A gain that is neither 1 nor 2, and layers of different widths whose mean squares stay near 1."""
    widths = [int(width) for width in rng.choice(np.arange(2, 40), 4, replace=False)]
    shapes = [[after, before] for before, after in pairwise(widths)]
    if len(shape) > 2:
        shapes.append([int(rng.integers(2, 9)), widths[-1], 3, 2])
    deviations = [float(rng.uniform(0.8, 1.6) / np.sqrt(fans(each)[0])) for each in shapes]
    gain = float(rng.choice([rng.uniform(0.4, 0.8), rng.uniform(1.3, 1.8)]))
    values = rng.normal(size=matrix)
    return made(name, shape, gain, values, shapes, deviations, rectified, float(rng.uniform(0.5, 3)))


def distinct(rng: np.random.Generator, count: int, low: int, high: int) -> Shape:
    return [int(size) for size in rng.choice(np.arange(low, high), count, replace=False)]


def draw(rng: np.random.Generator) -> list[Case]:
    """Linear layers, kernels with one to three uneven sides, and matrices of all three proportions."""
    return [
        case(rng, "a linear layer", distinct(rng, 2, 2, 60), (3, 6), True),
        case(rng, "a linear layer", distinct(rng, 2, 2, 12), (6, 2), False),
        case(rng, "a kernel with one side", [*distinct(rng, 2, 2, 20), int(rng.integers(2, 8))], (4, 4), True),
        case(rng, "a kernel with two sides", [*distinct(rng, 2, 2, 20), *distinct(rng, 2, 2, 8)], (2, 5), True),
        case(rng, "a kernel with three sides", [*distinct(rng, 2, 2, 9), *distinct(rng, 3, 2, 6)], (1, 4), False),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Shapes with two to five axes of 1 to 60, numbers from 0.01 to 10, matrices up to 6 by 6, one to twelve layers."""

    def number() -> float:
        return float(rng.choice([0.01, 1.0, 10.0, 10 ** rng.uniform(-2, 1)], p=[0.1, 0.1, 0.1, 0.7]))

    kernel = [int(side) for side in rng.integers(1, rng.choice([2, 6, 61]), rng.integers(0, 4))]
    shape = [int(side) for side in rng.choice([1, 60, *rng.integers(1, 61, 4).tolist()], 2)] + kernel
    drawn = case(rng, "domain", shape, (int(rng.integers(1, 7)), int(rng.integers(1, 7))), bool(rng.integers(2)))
    depth = int(rng.choice([12, int(rng.integers(1, 5))], p=[0.25, 0.75]))
    shapes, deviations = (drawn.inputs[name][:depth] for name in ("shapes", "deviations"))
    kind = "domain"
    if rng.integers(3) == 0 or depth == 12:
        wide = depth == 12 and bool(rng.integers(2))
        widths = rng.integers(50 if wide else 1, 61, depth + 1).tolist()
        shapes = [[after, before] for before, after in pairwise(widths)]
        deviations = [10.0 if wide else number() for _ in shapes]
        kind = "mean squares beyond float32" if wide else kind
    numbers = {name: number() for name in ("start", "deviation", "gain")}
    scaled = drawn.inputs["matrix"] * 10 ** rng.choice([0.0, -5.5, 5.5, rng.uniform(-4, 4)])
    return Case(kind, {**drawn.inputs, "shapes": shapes, "deviations": deviations, **numbers, "matrix": scaled})


QUESTION = Description(
    id="03d-init",
    parts=(
        Graded("fans", 2, (FANS,)),
        Graded("Xavier", 2, (XAVIER,)),
        Graded("He", 2, (HE,)),
        Graded("bound", 2, (BOUND,)),
        Graded("orthogonal", 2, (GRAM, OUTSIDE)),
        Graded("mean squares", 2, (MOMENTS,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "fans-exchanged",
            "fan_in and fan_out are exchanged: PyTorch's weights are [out, in, ...]",
            "the shape of `nn.Linear(3, 5).weight`",
            **with_fans("exchanged"),
        ),
        Mistake(
            "kernel-ignored",
            "the kernel was not counted: an output of a convolution adds up `in` times the kernel's entries",
            "how many numbers one output of a 3 by 3 convolution is computed from",
            **with_fans("no kernel"),
        ),
        Mistake(
            "one-side-of-the-kernel",
            "only the first side of the kernel was counted",
            "a kernel of 2 by 3",
            **with_fans("one side of the kernel"),
        ),
        Mistake(
            "kernel-in-fan-in-only",
            "fan_out lacks the kernel: in every channel an input contributes to as many outputs as it has places",
            "the backward pass: how many outputs pass a gradient to one input",
            **with_fans("kernel in fan_in only"),
        ),
        Mistake(
            "variance-for-deviation",
            "this is the variance; the question asks for the standard deviation",
            "the unit: that of a weight, or of a weight squared",
            as_deviation("variance", "xavier", "he"),
            also=(as_deviation("variance", "he"), as_deviation("variance", "xavier")),
        ),
        Mistake(
            "gain-forgotten",
            "the gain changes nothing",
            "where `gain` is used",
            as_deviation("no gain", "xavier", "he"),
            also=(
                *(as_deviation("no gain", scheme) for scheme in ("xavier", "he")),
                as_deviation("gain of a ReLU", "he"),
                as_deviation("gain of a ReLU", "xavier", "he"),
            ),
        ),
        Mistake(
            "gain-squared",
            "the gain multiplies the variance; it is a factor of the standard deviation",
            "the result for a gain of 2, compared with that for 1",
            as_deviation("root of gain", "xavier", "he"),
            also=(
                as_deviation("root of gain", "xavier"),
                as_deviation("root of gain", "he"),
                as_deviation("gain squared", "xavier", "he"),
            ),
        ),
        Mistake(
            "fans-not-averaged",
            "Xavier divides by the mean of the two fans, and this divides by their sum",
            "the variance for fan_in = fan_out = n: it must be 1/n",
            as_deviation("sum not halved", "xavier"),
        ),
        Mistake(
            "xavier-with-fan-in",
            "Xavier uses one fan only; it is a compromise between both",
            "what fan_out does to the result",
            as_deviation("fan_in alone", "xavier"),
        ),
        Mistake(
            "he-with-fan-out",
            "He was computed from fan_out; the forward pass needs fan_in",
            "over how many products one output sums",
            as_deviation("fan_out", "he"),
        ),
        Mistake(
            "two-and-gain",
            "the 2 of He's formula was multiplied by the gain: the gain √2 of a ReLU is already that 2",
            "the result for the gain √2: its square must be 2/fan_in",
            as_deviation("two as well", "he"),
        ),
        Mistake(
            "bound-is-deviation",
            "the bound is the standard deviation itself; that of a uniform variable is smaller than its bound",
            "the standard deviation of a uniform variable between -1 and 1",
            as_field(BOUND, bound, "one"),
        ),
        Mistake(
            "twelve",
            "√12 is the factor of the whole width; the bound is half of it",
            "the distance from -bound to bound",
            as_field(BOUND, bound, "twelve"),
        ),
        Mistake(
            "root-of-three-forgotten",
            "the factor is 3 and should be its root",
            "the variance of a uniform variable between -b and b: b²/3",
            as_field(BOUND, bound, "three"),
        ),
        Mistake(
            "only-unit-rows",
            "every row (or column) has the right length, but they are not at right angles",
            "the product of the matrix with its transpose: what is off the diagonal",
            lambda case: orthogonal(case, "only unit rows"),
            also=(
                lambda case: orthogonal(case, "unit columns where square"),
                lambda case: orthogonal(case, "only scaled"),
            ),
        ),
        Mistake(
            "orthogonal-without-gain",
            "the orthogonal matrix was not multiplied by the gain",
            "the length of a row",
            lambda case: orthogonal(case, "no gain"),
            also=(lambda case: orthogonal(case, "gain squared"),),
        ),
        Mistake(
            "another-space",
            "the rows (or columns) are at right angles, but they span another space than those of the matrix",
            "how a wide matrix becomes tall: by a transpose, and not by a reshape",
            in_another_space(lambda rows, columns: 1 < rows < columns),
            also=(in_another_space(lambda rows, columns: rows != columns),),
        ),
        Mistake(
            "not-halved",
            "the ReLU before a layer halves the mean square, and this was not counted",
            "the mean square of relu(z) for z that is symmetric about 0",
            as_field(MOMENTS, moments, "not halved"),
        ),
        Mistake(
            "input-halved",
            "the input of the first layer was halved, but no ReLU comes before it",
            "what the first layer gets",
            as_field(MOMENTS, moments, "input rectified"),
        ),
        Mistake(
            "deviation-not-squared",
            "the mean square was multiplied by the standard deviation and not by its square",
            "the mean square of 2x, compared with that of x",
            as_field(MOMENTS, moments, "not squared"),
        ),
        Mistake(
            "moments-with-fan-out",
            "the mean square grows with the number of inputs of a layer, and this took its outputs",
            "over how many products one output sums",
            as_field(MOMENTS, moments, "fan_out"),
        ),
        Mistake(
            "channels-for-fan-in",
            "the mean square grows with fan_in, and this took the channels alone",
            "a convolution with a kernel of 3 by 2",
            as_field(MOMENTS, moments, "no kernel"),
        ),
        Mistake(
            "fan-forgotten",
            "the number of inputs of a layer is missing",
            "the variance of a sum of n independent terms",
            as_field(MOMENTS, moments, "no fan"),
        ),
        Mistake(
            "roots-returned",
            "these are the roots of the mean squares",
            "what the question asks for: mean squares",
            as_field(MOMENTS, moments, "root"),
        ),
    ),
    visible=(
        made(
            "a layer from 8 to 2, gain 1.5",
            [2, 8],
            1.5,
            [[3, 4], [0, 2]],
            [[4, 8], [16, 4], [2, 16]],
            [0.5, 0.5, 0.25],
            True,
            1.0,
        ),
        made(
            "a convolution from 4 to 6 channels with a kernel of 2 by 3",
            [6, 4, 2, 3],
            0.8,
            [[2], [1], [2]],
            [[3, 2], [2, 3, 2, 2]],
            [0.4, 0.3],
            False,
            2.0,
        ),
        made("a layer from 3 to 5, a wide matrix", [5, 3], 2.0, [[2, 1, 2], [0, 1, 1]], [[5, 3]], [0.6], True, 1.0),
    ),
    draw=draw,
    domain=domain,
)
