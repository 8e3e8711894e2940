"""03d-averages: moving and plain averages of weights, and batch norms that fit the averaged weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.activations import BATCHES

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .activations import EPS, MOMENTUM, Layer, activation, linear, norm

Array = np.ndarray
FIRST = -2.0  # stands for the momentum of the first batch norm
EMA, SWA = "ema.values", "swa.value"
MEANS, VARIANCES, MODES, MOMENTA = (f"statistics.{name}" for name in ("means", "variances", "modes", "momenta"))


def ema(case: Case, slip: str = "") -> dict[str, Any]:
    weights, decay = case.inputs["weights"], case.inputs["decay"]
    decay = 1 - decay if slip == "reversed" else decay
    average = np.zeros_like(weights[0]) if slip == "from zero" else weights[0]
    averages = [average if slip != "from zero" else (1 - decay) * weights[0]]
    average = averages[0]
    for step, weight in enumerate(weights[1:], 2):
        share = min(decay, step / (step + 9)) if slip == "warm" else decay
        average = share * average + (1 - share) * weight
        averages.append(average)
    if slip == "one tensor":
        averages = [averages[-1]] * len(averages)
    if slip == "late":
        averages = [averages[0], *averages[:-1]]
    return {EMA: averages}


def swa(case: Case, slip: str = "") -> dict[str, Any]:
    weights = case.inputs["weights"]
    value = np.mean(weights, axis=0)
    if slip == "sum":
        value = np.sum(weights, axis=0)
    elif slip == "last":
        value = weights[-1]
    elif slip == "ends":
        value = (weights[0] + weights[-1]) / 2
    elif slip == "halves":
        value = weights[0]
        for weight in weights[1:]:
            value = (value + weight) / 2
    elif slip == "without the first":
        value = np.mean(weights[1:] or weights, axis=0)
    return {SWA: value}


def statistics(case: Case, slip: str = "") -> dict[str, Any]:
    """Running statistics of every batch norm after all batches; each batch has the same number of rows."""
    norms = [layer for layer in case.inputs["layers"] if layer["kind"] == "norm"]
    together = np.concatenate(case.inputs["batches"])
    collected: list[list[tuple[Array, Array]]] = [[] for _ in norms]
    for x in [together] if slip == "one batch" else case.inputs["batches"]:
        for layer in case.inputs["layers"]:
            if layer["kind"] == "linear":
                x = x @ layer["weight"].T + layer["bias"]
            elif layer["kind"] == "relu":
                x = np.maximum(x, 0)
            elif layer["kind"] == "twice in training":
                x = x if slip == "norms alone" else 2 * x
            else:
                count = 1 if slip == "biased" else len(x) / (len(x) - 1)
                collected[norms.index(layer)].append((x.mean(0), x.var(0) * count))
                x = (x - x.mean(0)) / np.sqrt(x.var(0) + EPS) + layer["bias"]
    means, variances = [], []
    for layer, measured in zip(norms, collected, strict=True):
        mean, variance = layer["running_mean"], layer["running_var"]
        if slip == "reset, momentum":
            mean, variance = np.zeros_like(mean), np.ones_like(variance)
        for step, (own_mean, own_variance) in enumerate(measured, 1):
            share = layer.get("momentum", MOMENTUM) if slip in ("momentum", "reset, momentum") else 1 / step
            share = 1 / (step + BATCHES) if slip == "not reset" else share
            share = {"not updated": 0.0, "last batch": 1.0}.get(slip, share)
            if slip.startswith("children") and case.inputs["nested"] and layer is norms[0]:
                share = layer.get("momentum", MOMENTUM) if slip == "children, in training mode" else 0.0
            mean = (1 - share) * mean + share * own_mean
            variance = (1 - share) * variance + share * own_variance
        means.append(mean)
        variances.append(variance)
    return {MEANS: means, VARIANCES: variances}


def left(case: Case, training: bool | None = None, momentum: float | None = None) -> dict[str, Any]:
    mode = case.inputs["training"] if training is None else training
    own = [layer.get("momentum", MOMENTUM) for layer in case.inputs["layers"] if layer["kind"] == "norm"]
    momenta = [each if momentum is None else own[0] if momentum == FIRST else momentum for each in own]
    return {MODES: [float(mode)] * (len(case.inputs["layers"]) + 1 + case.inputs["nested"]), MOMENTA: momenta}


def reference(case: Case) -> dict[str, Any]:
    return {**ema(case), **swa(case), **statistics(case), **left(case)}


def slipped(function: Any, *slips: str) -> dict[str, Any]:
    forms = [partial(function, slip=slip) for slip in slips]
    return {"simulate": forms[0], "also": tuple(forms[1:])}


def only(simulate: Simulation, *fields: str) -> Simulation:
    return lambda case: {field: simulate(case)[field] for field in fields}


def made(
    kind: str, weights: Any, decay: float, layers: list[Layer], batches: Any, training: bool, nested: bool = False
) -> Case:
    """`nested`: the first three layers are a module of their own inside of the model."""
    return Case(
        kind,
        {
            "weights": [np.asarray(weight, np.float64) for weight in weights],
            "decay": decay,
            "layers": layers,
            "batches": [np.asarray(batch, np.float64) for batch in batches],
            "training": training,
            "nested": nested,
        },
    )


def case(
    rng: np.random.Generator,
    kind: str,
    training: bool,
    steps: int,
    norms: int,
    nested: bool = False,
    twice: bool = False,
) -> Case:
    """Weights that move from step to step; batches of different mean; one or two batch norms behind each other.

    `twice`: a layer between the two norms does something else in training mode.
    """
    shape = [(2, 3), (4,), (1, 2)][rng.integers(3)]
    weights = np.cumsum(rng.normal(size=(steps, *shape)), axis=0)
    size = int(rng.integers(3, 6))
    layers = [linear(rng, "0", 3, size, 0), norm(rng, "1", size, 0), activation("2", "relu")]
    if norms > 1:
        layers += [{"name": "twice", "kind": "twice in training"}] * twice
        layers += [linear(rng, "3", size, 4, 0), norm(rng, "4", 4, 0)]
    momenta = rng.permutation([0.05, 0.2, 0.3])
    for layer, momentum in zip((layer for layer in layers if layer["kind"] == "norm"), momenta, strict=False):
        layer["momentum"] = float(momentum)
    batches = [rng.uniform(-1, 1, 3) + rng.normal(size=(4, 3)) for _ in range(int(rng.integers(3, 6)))]
    decay = float(rng.choice([rng.uniform(0.1, 0.4), rng.uniform(0.6, 0.95)]))
    return made(kind, weights, decay, layers, batches, training, nested)


def draw(rng: np.random.Generator) -> list[Case]:
    """Both modes, one batch norm and two, another layer with two modes."""
    return [
        case(rng, "evaluation mode", False, int(rng.integers(4, 7)), 1),
        case(rng, "training mode", True, int(rng.integers(3, 6)), 2),
        case(rng, "evaluation mode", False, 3, 2, nested=True),
        case(rng, "a layer that doubles in training mode", False, 3, 2, twice=True),
    ]


def domain(rng: np.random.Generator) -> Case:
    """One to six steps, a decay from 0 to 1, one to five batches, of two to five rows or twelve.

    Weights may be single numbers, or the same in every step, and a momentum may be 0 or 1.
    """
    training, nested = map(bool, rng.integers(2, size=2))
    steps = int(rng.integers(1, 7))
    drawn = case(rng, "domain", training, steps, int(rng.integers(1, 3)), nested, bool(rng.integers(2)))
    decay = float(rng.choice([0.0, 1.0, rng.uniform()]))
    weights = drawn.inputs["weights"]
    if rng.integers(4) == 0:
        weights = list(rng.normal(size=(steps, *[(), (1,), (12,)][rng.integers(3)])))
    if rng.integers(8) == 0:
        weights = [weights[0].copy() for _ in weights]
    size = int(rng.choice([2, 12, int(rng.integers(3, 6))], p=[0.2, 0.15, 0.65]))
    batches = [rng.uniform(-1, 1, 3) + rng.normal(size=(size, 3)) for _ in range(int(rng.integers(1, 6)))]
    for layer in drawn.inputs["layers"]:
        if layer["kind"] == "norm" and rng.integers(4) == 0:
            layer["momentum"] = float(rng.integers(2))
    return made("domain", weights, decay, drawn.inputs["layers"], batches, training, nested)


VISIBLE = np.random.default_rng(3)

QUESTION = Description(
    id="03d-averages",
    parts=(
        Graded("moving average", 2, (EMA,)),
        Graded("plain average", 1, (SWA,)),
        Graded("running statistics", 2, (MEANS, VARIANCES)),
        Graded("mode and momentum", 1, (MODES, MOMENTA), needs="running statistics"),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "decay-reversed",
            "`decay` weighs the new weights; it belongs to the average",
            "what a decay of 0.999 should do: follow slowly",
            **slipped(ema, "reversed"),
        ),
        Mistake(
            "starts-at-zero",
            "the average starts at 0 and not at the first weights",
            "the first entry of the result",
            **slipped(ema, "from zero"),
        ),
        Mistake(
            "one-tensor",
            "all entries of the returned list are one tensor, which holds the last average",
            "what an in-place operation does to a tensor that is already in the list",
            **slipped(ema, "one tensor"),
        ),
        Mistake(
            "one-step-late",
            "each average misses the weights of its own step",
            "the second entry of the result",
            **slipped(ema, "late"),
        ),
        Mistake(
            "sum-for-mean",
            "the weights were added up and not divided",
            "the mean of a single set of weights",
            **slipped(swa, "sum"),
        ),
        Mistake(
            "not-all-averaged",
            "not all weights count the same: this is the last, or the mean of two ends, or of halves of halves",
            "the weight of the first entry among four",
            **slipped(swa, "last", "halves", "ends", "without the first"),
        ),
        Mistake(
            "not-updated",
            "the batch norms have their old running statistics, which belong to other weights",
            "the mode in which running statistics move",
            **slipped(statistics, "not updated"),
        ),
        Mistake(
            "nested-left-out",
            "a batch norm inside of another module than the model itself keeps old running statistics",
            "`model.modules()` beside `model.children()`",
            **slipped(statistics, "children, in training mode", "children"),
        ),
        Mistake(
            "old-statistics-kept",
            "old running statistics are still a part of the result",
            "what a batch norm's momentum of 0.1 leaves of the old values after three batches",
            **slipped(statistics, "momentum", "not reset", "reset, momentum"),
        ),
        Mistake(
            "norms-alone",
            "only the batch norms were in training mode while the batches ran, and no other layer",
            "what a dropout between two batch norms does in each mode",
            **slipped(statistics, "norms alone"),
        ),
        Mistake(
            "last-batch",
            "the running statistics are those of the last batch alone",
            "the share of each batch",
            **slipped(statistics, "last batch"),
        ),
        Mistake(
            "one-large-batch",
            "all batches went through the model as a single one, whose variance has their differences in it too",
            "the mean of the variances of two batches, beside the variance of both together",
            **slipped(statistics, "one batch"),
        ),
        Mistake(
            "biased-variance",
            "the variances divide by n; running variances divide by n - 1",
            "the running variance of PyTorch's batch norm after one batch",
            only(partial(statistics, slip="biased"), VARIANCES),
        ),
        Mistake(
            "mode-changed",
            "the model is in another mode after the call",
            "`model.training` before and after",
            partial(left, training=True),
            also=(partial(left, training=False),),
        ),
        Mistake(
            "momentum-changed",
            "the momentum of the batch norms is another one after the call",
            "what you set for the call alone",
            partial(left, momentum=-1.0),
            also=(*(partial(left, momentum=momentum) for momentum in (1.0, MOMENTUM, FIRST)),),
        ),
    ),
    visible=(
        made(
            "three steps, decay 0.75",
            [[1, 2], [3, 0], [4, 4]],
            0.75,
            [
                {"name": "0", "kind": "linear", "weight": np.eye(2), "bias": np.zeros(2)},
                {
                    "name": "1",
                    "kind": "norm",
                    "bias": np.zeros(2),
                    "running_mean": np.array([5.0, 5.0]),
                    "running_var": np.array([2.0, 2.0]),
                },
            ],
            [[[1, 0], [3, 4]], [[0, 2], [4, 2]], [[2, 2], [5, 8]]],
            False,
        ),
        case(VISIBLE, "two batch norms, between them a layer that doubles in training mode", True, 4, 2, True, True),
    ),
    draw=draw,
    domain=domain,
)
