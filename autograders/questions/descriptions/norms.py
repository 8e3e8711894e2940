"""03d-norms: outputs and running statistics of four norms; a large eps and uneven sizes tell conventions apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
TRAIN, EVAL, LAYER, GROUP, RMS = "train", "evaluation", "layer", "group", "rms"
OUTPUTS = tuple(f"{name}.output" for name in (TRAIN, EVAL, LAYER, GROUP, RMS))
MEAN, VARIANCE = "train.mean", "train.variance"


def scaled(x: Array, mean: Array | float, variance: Array, eps: float, slip: str) -> Array:
    """(x - mean) over the standard deviation, with the places where eps is put wrongly."""
    if slip == "eps outside":
        return (x - mean) / (np.sqrt(variance) + eps)
    if slip == "no eps":
        return (x - mean) / np.sqrt(variance)
    if slip == "no root":
        return (x - mean) / (variance + eps)
    return (x - mean) / np.sqrt(variance + eps)


def over(x: Array, axes: tuple[int, ...], eps: float, slip: str) -> Array:
    """x with mean 0 and variance 1 over some axes."""
    correction = 1 if slip == "sample variance" else 0
    centre = x.mean(axes, keepdims=True)
    squares = ((x - centre) ** 2).sum(axes, keepdims=True)
    # Not `var`: it warns where a group has a single entry, for which n - 1 is 0.
    variance = squares / (x.size // squares.size - correction)
    return scaled(x, 0.0 if slip == "not centred" else centre, variance, eps, slip)


def affine(x: Array, inputs: Inputs, channel_axis: int, slip: str, bias: bool = True) -> Array:
    shape = [1] * x.ndim
    shape[channel_axis] = -1
    if slip == "no affine":
        return x
    scaled_by_weight = x * inputs["weight"].reshape(shape)
    return scaled_by_weight + inputs["bias"].reshape(shape) if bias else scaled_by_weight


def batch(inputs: Inputs, training: bool, slip: str = "") -> dict[str, Array]:
    x, momentum = inputs["batch"], inputs["momentum"]
    axes, shape = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
    own_mean, own_variance = x.mean(axes), x.var(axes)
    count = len(x) if slip == "count of rows" else x.size // x.shape[1]
    unbiased = own_variance if slip == "biased running" else own_variance * count / (count - 1)
    share = 1 - momentum if slip == "momentum reversed" else momentum
    mean = (1 - share) * inputs["running_mean"] + share * own_mean
    variance = (1 - share) * inputs["running_var"] + share * unbiased
    if (not training and slip != "moved in eval") or (training and slip == "not moved"):
        mean, variance = inputs["running_mean"], inputs["running_var"]
    by_mean, by_variance = (own_mean, own_variance) if training else (inputs["running_mean"], inputs["running_var"])
    if slip == "sample variance" and training:
        by_variance = own_variance * (x.size // x.shape[1]) / (x.size // x.shape[1] - 1)
    if (slip, training) == ("running in training", True):
        by_mean, by_variance = mean, variance
    if (slip, training) == ("old running in training", True):
        by_mean, by_variance = inputs["running_mean"], inputs["running_var"]
    if (slip, training) == ("batch in eval", False):
        by_mean, by_variance = own_mean, own_variance
    output = scaled(x, by_mean.reshape(shape), by_variance.reshape(shape), inputs["eps"], slip)
    return {"output": affine(output, inputs, 1, slip), "mean": mean, "variance": variance}


def layer(inputs: Inputs, slip: str = "") -> Array:
    x = inputs["rows"]
    axes = {"all but the first axis": tuple(range(1, x.ndim)), "over the batch": (0,)}.get(slip, (-1,))
    return affine(over(x, axes, inputs["eps"], slip), inputs, -1, slip)


def group(inputs: Inputs, slip: str = "") -> Array:
    x, groups = inputs["batch"], inputs["groups"]
    examples, channels = x.shape[:2]
    if slip == "size for number":
        groups = channels // groups
    if slip == "interleaved":
        split = x.reshape(examples, channels // groups, groups, -1)
        return affine(over(split, (1, 3), inputs["eps"], slip).reshape(x.shape), inputs, 1, slip)
    split = x.reshape(examples, groups, channels // groups, -1)
    axes = {"position by position": (2,), "over the batch": (0, 2, 3)}.get(slip, (2, 3))
    return affine(over(split, axes, inputs["eps"], slip).reshape(x.shape), inputs, 1, slip)


def rms(inputs: Inputs, slip: str = "") -> Array:
    x = inputs["rows"]
    if slip == "centred":
        x = x - x.mean(-1, keepdims=True)
    squares = (x**2).sum(-1, keepdims=True) if slip == "summed" else (x**2).mean(-1, keepdims=True)
    return affine(scaled(x, 0.0, squares, inputs["eps"], slip), inputs, -1, slip, bias=False)


NORMS: dict[str, Callable[..., Any]] = {
    TRAIN: partial(batch, training=True),
    EVAL: partial(batch, training=False),
    LAYER: layer,
    GROUP: group,
    RMS: rms,
}


def outcome(case: Case, slip: str = "", only: tuple[str, ...] = tuple(NORMS)) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in only:
        result = NORMS[name](case.inputs, slip=slip)
        fields |= {f"{name}.{field}": value for field, value in result.items()} if isinstance(result, dict) else {}
        fields |= {} if isinstance(result, dict) else {f"{name}.output": result}
    return fields


def slipped(slip: str, *only: str) -> Simulation:
    return partial(outcome, slip=slip, only=only)


def anywhere(slip: str, *only: str, also: tuple[Simulation, ...] = ()) -> dict[str, Any]:
    """A mistake in all of these functions, in batch normalisation, or in one of the others."""
    both = tuple(name for name in only if name in (TRAIN, EVAL))
    alone = [slipped(slip, name) for name in only if name not in both]
    together = [slipped(slip, *both)] if both and alone else []
    return {"simulate": slipped(slip, *only), "also": (*together, *(alone if len(only) > 1 else []), *also)}


def made(name: str, batch: Any, rows: Any, groups: int, momentum: float, eps: float, rng: np.random.Generator) -> Case:
    batch, rows = np.asarray(batch, np.float64), np.asarray(rows, np.float64)
    channels = batch.shape[1]
    assert rows.shape[-1] == channels
    assert channels % groups == 0
    return Case(
        name,
        {
            "batch": batch,
            "rows": rows,
            "groups": groups,
            "weight": rng.uniform(0.5, 2.0, channels) * rng.choice([-1.0, 1.0], channels),
            "bias": rng.uniform(0.5, 2.0, channels),
            "running_mean": rng.uniform(-2.0, 2.0, channels),
            "running_var": rng.uniform(0.5, 3.0, channels),
            "momentum": momentum,
            "eps": eps,
        },
    )


def values(rng: np.random.Generator, *shape: int) -> Array:
    """Entries of another mean and spread in every channel (axis 1) and every row."""
    places = [1, -1] + [1] * (len(shape) - 2)
    spread = rng.uniform(0.4, 2.5, shape[1]).reshape(places)
    centre = rng.uniform(-2.0, 2.0, shape[1]).reshape(places)
    rows = rng.uniform(0.5, 1.5, shape[0]).reshape([-1] + [1] * (len(shape) - 1))
    return np.asarray(rows * (centre + spread * rng.normal(size=shape)))


def draw(rng: np.random.Generator) -> list[Case]:
    """Two and three axes, few rows, groups of one channel and a single group, a momentum of 0 and of 1."""

    def case(name: str, batch: tuple[int, ...], rows: tuple[int, ...], groups: int, momentum: float) -> Case:
        eps = float(rng.uniform(0.05, 0.5))
        return made(name, values(rng, *batch), values(rng, *rows), groups, momentum, eps, rng)

    return [
        case("three axes", (3, 6, 4), (2, 3, 6), 2, float(rng.uniform(0.05, 0.3))),
        case("three axes", (2, 6, 5), (3, 2, 6), 3, float(rng.uniform(0.6, 0.9))),
        case("two axes", (5, 8), (4, 8), 2, float(rng.uniform(0.05, 0.3))),
        case("two rows", (2, 4), (2, 4), 1, float(rng.uniform(0.05, 0.3))),
        case("one position", (4, 6, 1), (3, 1, 6), 6, float(rng.uniform(0.05, 0.3))),
        case("momentum 0", (4, 3, 2), (2, 2, 3), 3, 0.0),
        case("momentum 1", (4, 4, 2), (2, 2, 4), 2, 1.0),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Two to six rows or twelve, one to nine channels or twelve, eps from 0.001 to 0.5; entries may have no variance.

    As many rows as channels, a weight of 0 and a large mean are not rare.
    """
    groups, each = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 12], p=[0.3, 0.3, 0.3, 0.1]))
    channels = groups * each
    length = [int(rng.integers(1, 5))] if rng.integers(2) else []
    count = int(rng.choice([max(channels, 2), 12, int(rng.integers(2, 7))], p=[0.15, 0.15, 0.7]))
    batch = values(rng, count, channels, *length)
    rows = rng.normal(size=(int(rng.integers(2, 6)), *[int(size) for size in length], channels))
    if rng.integers(4) == 0:
        batch = np.full_like(batch, rng.uniform(-2, 2))  # no variance: only eps keeps the output finite
    if rng.integers(6) == 0:
        rows[0] = rng.choice([0.0, 3.0])
    if rng.integers(6) == 0:
        batch, rows = batch + 100.0, rows + 100.0
    momentum = float(rng.choice([0.0, 1.0, rng.uniform()]))
    eps = float(rng.choice([0.001, 0.5, 10 ** rng.uniform(-3, np.log10(0.5))], p=[0.12, 0.12, 0.76]))
    drawn = made("domain", batch, rows, groups, momentum, eps, rng)
    if rng.integers(6) == 0:
        drawn.inputs["weight"][0], drawn.inputs["bias"][0] = 0.0, 0.0
    return drawn


QUESTION = Description(
    id="03d-norms",
    parts=(
        Graded("batch norm in training", 3, (OUTPUTS[0],)),
        Graded("running statistics", 3, (MEAN, VARIANCE)),
        Graded("batch norm in evaluation", 2, (OUTPUTS[1], "evaluation.mean", "evaluation.variance")),
        Graded("layer norm", 3, (OUTPUTS[2],)),
        Graded("group norm", 3, (OUTPUTS[3],)),
        Graded("RMS norm", 2, (OUTPUTS[4],)),
    ),
    reference=outcome,
    mistakes=(
        Mistake(
            "eps-outside-root",
            "eps was added to the standard deviation; it belongs to the variance, under the root",
            "the order of the root and of adding eps",
            **anywhere("eps outside", *NORMS),
        ),
        Mistake(
            "no-eps",
            "eps was left out",
            "what keeps the output finite when all entries are equal",
            **anywhere("no eps", *NORMS),
        ),
        Mistake(
            "no-root",
            "the entries were divided by the variance and not by its square root",
            "the unit of the denominator: it must be that of x",
            **anywhere("no root", *NORMS),
        ),
        Mistake(
            "sample-variance",
            "the entries were divided by the sample standard deviation (n - 1); the norms divide by n",
            "the default of `var` and `std` in PyTorch: `correction=1`",
            **anywhere("sample variance", TRAIN, LAYER, GROUP),
        ),
        Mistake(
            "affine-forgotten",
            "weight and bias change nothing",
            "what is done after the normalisation",
            **anywhere("no affine", *NORMS),
        ),
        Mistake(
            "biased-running-variance",
            "the running variance was moved towards the variance with n; PyTorch takes the one with n - 1 here",
            "which of the two variances goes into the running average",
            slipped("biased running", TRAIN),
        ),
        Mistake(
            "rows-for-entries",
            "the factor n / (n - 1) of the running variance was computed from the number of rows",
            "how many entries a channel has when there are three axes",
            slipped("count of rows", TRAIN),
        ),
        Mistake(
            "momentum-reversed",
            "momentum weighs the old running value; in PyTorch it weighs the new one",
            "the running mean after a step with momentum 0.1",
            slipped("momentum reversed", TRAIN),
        ),
        Mistake(
            "not-moved",
            "the running statistics are as they were before the training step",
            "what training leaves for evaluation",
            slipped("not moved", TRAIN),
        ),
        Mistake(
            "running-in-training",
            "in training the batch was normalised by the running statistics",
            "which mean the output of a training step must have",
            slipped("running in training", TRAIN),
            also=(slipped("old running in training", TRAIN),),
        ),
        Mistake(
            "batch-in-evaluation",
            "in evaluation the batch was normalised by its own statistics, so a prediction depends on its neighbours",
            "what `training=False` changes",
            slipped("batch in eval", EVAL),
        ),
        Mistake(
            "moved-in-evaluation",
            "the running statistics moved in evaluation",
            "what evaluation may change: nothing",
            slipped("moved in eval", EVAL),
        ),
        Mistake(
            "layer-over-positions",
            "the layer norm was taken over all axes but the first; each position has statistics of its own",
            "the shape of the means: one for every vector of the last axis",
            slipped("all but the first axis", LAYER),
        ),
        Mistake(
            "over-the-batch",
            "the statistics are over the batch, as in batch normalisation",
            "whether another row may change this row's output",
            slipped("over the batch", LAYER, GROUP),
            also=(slipped("over the batch", LAYER), slipped("over the batch", GROUP)),
        ),
        Mistake(
            "groups-interleaved",
            "the channels of a group are not neighbours: channel c went to group c modulo the number of groups",
            "the order of the two axes into which the channels are reshaped",
            slipped("interleaved", GROUP),
        ),
        Mistake(
            "group-size",
            "`groups` was taken for the number of channels in a group",
            "how many groups there are with groups=2 and 6 channels",
            slipped("size for number", GROUP),
        ),
        Mistake(
            "group-by-position",
            "the group norm was taken for each position alone",
            "the axes of a group's statistics: its channels and all positions",
            slipped("position by position", GROUP),
        ),
        Mistake(
            "rms-centred",
            "the mean was subtracted; RMS norm only divides",
            "the RMS norm of a constant vector",
            slipped("centred", RMS),
        ),
        Mistake(
            "rms-of-a-sum",
            "the vector was divided by its length, the root of the *sum* of squares",
            "what RMS stands for: the root of the *mean* of squares",
            slipped("summed", RMS),
        ),
        Mistake(
            "not-centred",
            "the mean was not subtracted",
            "the mean of an output with weight 1 and bias 0",
            slipped("not centred", LAYER, GROUP),
            also=(slipped("not centred", LAYER), slipped("not centred", GROUP)),
        ),
    ),
    visible=(
        made(
            "two axes: 4 rows, 2 channels",
            [[1, 0], [3, 4], [5, 0], [7, 0]],
            [[3, 4], [1, 0]],
            1,
            0.1,
            0.5,
            np.random.default_rng(1),
        ),
        made(
            "three axes: 2 rows, 6 channels, 2 positions",
            values(np.random.default_rng(2), 2, 6, 2).round(1),
            values(np.random.default_rng(3), 2, 2, 6).round(1),
            2,
            0.25,
            0.2,
            np.random.default_rng(4),
        ),
    ),
    draw=draw,
    domain=domain,
)
