"""03d-activations: what each activation's output says, with batch norms that tell the modes apart, and what is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
Layer = dict[str, Any]
NAMES, MEAN, STD, DEAD, SATURATED = (f"statistics.{field}" for field in ("names", "mean", "std", "dead", "saturated"))
HOOKS, MODES, MOVED = "statistics.hooks", "statistics.modes", "statistics.moved"
UNITS, CHANNELS = "units [N, H], with a batch norm", "channels [N, C, L], with a batch norm"
EPS = 1e-5  # of PyTorch's batch norms
MOMENTUM = 0.1


class Passed(NamedTuple):
    """A forward pass: input and output of each layer, and the largest move of a running statistic in training."""

    inputs: list[Array]
    outputs: list[Array]
    moved: float


def forward(case: Case, training: bool) -> Passed:
    x, inputs, outputs, moved = case.inputs["x"], [], [], 0.0
    for layer in case.inputs["layers"]:
        inputs.append(x)
        if layer["kind"] == "linear":
            x = x @ layer["weight"].T + layer["bias"]
        elif layer["kind"] == "pointwise":
            x = np.einsum("oc,ncl->nol", layer["weight"], x) + layer["bias"][:, None]
        elif layer["kind"] == "norm":
            axes, places = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
            mean, variance = layer["running_mean"], layer["running_var"]
            if training:
                count = x.size // x.shape[1]
                change = [x.mean(axes) - mean, x.var(axes) * count / (count - 1) - variance]
                moved = max(moved, MOMENTUM * float(np.abs(change).max()))
                mean, variance = x.mean(axes), x.var(axes)
            x = (x - mean.reshape(places)) / np.sqrt(variance.reshape(places) + EPS) + layer["bias"].reshape(places)
        else:
            x = np.maximum(x, 0) if layer["kind"] == "relu" else np.tanh(x)
        outputs.append(x)
    return Passed(inputs, outputs, moved)


def others(output: Array) -> tuple[int, ...]:
    """All axes but that of the units."""
    return (0, *range(2, output.ndim))


def all_zero(output: Array) -> float:
    return float((output == 0).all(others(output)).mean())


def beyond(output: Array) -> float:
    return float((np.abs(output) > 0.97).mean())


Measure = Callable[[Array], float]


def statistics(
    case: Case,
    training: bool | None = None,
    dead: Measure = all_zero,
    saturated: Measure = beyond,
    of_inputs: bool = False,
    correction: int = 0,
) -> dict[str, Any]:
    """The four measures of each activation; `training` is the mode of the pass where it is not the model's."""
    passed = forward(case, case.inputs["training"] if training is None else training)
    places = [place for place, layer in enumerate(case.inputs["layers"]) if layer["kind"] in ("relu", "tanh")]
    kinds = [case.inputs["layers"][place]["kind"] for place in places]
    outputs = [(passed.inputs if of_inputs else passed.outputs)[place] for place in places]
    return {
        NAMES: sorted(case.inputs["layers"][place]["name"] for place in places),
        MEAN: np.array([output.mean() for output in outputs]),
        STD: np.array([output.std(ddof=correction) for output in outputs]),
        DEAD: np.array([dead(output) for kind, output in zip(kinds, outputs, strict=True) if kind == "relu"]),
        SATURATED: np.array(
            [saturated(out) if kind == "tanh" else 0.0 for kind, out in zip(kinds, outputs, strict=True)]
        ),
    }


def reference(case: Case) -> dict[str, Any]:
    return {**statistics(case), **left(case)}


def left(case: Case, hooks: str = "", mode: bool | None = None, moved: str = "") -> dict[str, Any]:
    """What the call leaves behind in the model."""
    layers = case.inputs["layers"]
    training = case.inputs["training"] if mode is None else mode
    more = {"activations": sum(layer["kind"] in ("relu", "tanh") for layer in layers), "layers": len(layers)}
    change = forward(case, True).moved if case.inputs["training"] else 0.0
    lost = {"removed": len(layers) + 1, "removed from activations": more["activations"]}.get(hooks, 0)
    own = (len(layers) + 1 - lost) * case.inputs["own_hook"]
    return {
        HOOKS: float(own + more.get(hooks, 0)),
        MODES: [float(training)] * (len(layers) + 1),
        MOVED: np.array([change if "statistics" in moved else 0.0, float(change > 0 and "counts" in moved)]),
    }


def only(simulate: Simulation, *fields: str) -> Simulation:
    return lambda case: {field: simulate(case)[field] for field in fields}


def with_measure(field: str, **measure: Any) -> Simulation:
    return only(lambda case: statistics(case, **measure), field)


def linear(rng: np.random.Generator, name: str, before: int, after: int, dead: int, kind: str = "linear") -> Layer:
    """Weights of a layer; the first units of a random order have so low a bias that a ReLU behind them never opens."""
    weight, bias = rng.normal(size=(after, before)), rng.uniform(-0.5, 0.5, after)
    order = rng.permutation(after)
    bias[order[:dead]] = -60.0
    if dead:  # a unit that is nearly 0 for every example, and lives
        weight[order[-1]], bias[order[-1]] = 0.0, 1e-5
    return {"name": name, "kind": kind, "weight": weight, "bias": bias}


def norm(rng: np.random.Generator, name: str, size: int, dead: int) -> Layer:
    """A batch norm whose running statistics are far from any batch: a pass in the wrong mode cannot be overlooked."""
    bias = rng.uniform(-0.3, 0.3, size)
    bias[rng.permutation(size)[:dead]] = -60.0
    mean, variance = rng.uniform(30, 40, size), rng.uniform(20, 40, size)
    return {"name": name, "kind": "norm", "bias": bias, "running_mean": mean, "running_var": variance}


def activation(name: str, kind: str) -> Layer:
    return {"name": name, "kind": kind}


def made(kind: str, x: Any, layers: list[Layer], training: bool, own_hook: bool) -> Case:
    return Case(kind, {"x": np.asarray(x, np.float64), "layers": layers, "training": training, "own_hook": own_hook})


def rows(rng: np.random.Generator, training: bool, own_hook: bool, names: tuple[str, ...]) -> Case:
    """[N, F]: a ReLU behind a layer with dead units, a batch norm and ReLU, and a tanh that is often saturated."""
    first, second = int(rng.integers(6, 10)), int(rng.integers(5, 9))
    layers = [
        linear(rng, names[0], 4, first, int(rng.integers(1, 4))),
        activation(names[1], "relu"),
        linear(rng, names[2], first, second, 0),
        norm(rng, names[3], second, int(rng.integers(1, 3))),
        activation(names[4], "relu"),
        linear(rng, names[5], second, 7, 0),
        activation(names[6], "tanh"),
    ]
    return made(UNITS, rng.uniform(-1.5, 1.5, (int(rng.integers(5, 9)), 4)), layers, training, own_hook)


def positions(rng: np.random.Generator, training: bool, own_hook: bool, names: tuple[str, ...]) -> Case:
    """[N, C, L]: channels are units, and a living channel is 0 for every example at some position."""

    def clear(case: Case) -> bool:
        output = forward(case, training).outputs[1]
        return bool((output == 0).all(0).mean() != all_zero(output))

    return draw_until(lambda: with_positions(rng, training, own_hook, names), clear)


def with_positions(rng: np.random.Generator, training: bool, own_hook: bool, names: tuple[str, ...]) -> Case:
    first, second = int(rng.integers(5, 8)), int(rng.integers(5, 8))
    layers = [
        linear(rng, names[0], 3, first, int(rng.integers(1, 3)), "pointwise"),
        activation(names[1], "relu"),
        linear(rng, names[2], first, second, 0, "pointwise"),
        norm(rng, names[3], second, 1),
        activation(names[4], "relu"),
        linear(rng, names[5], second, 4, 0, "pointwise"),
        activation(names[6], "tanh"),
    ]
    shape = (int(rng.integers(3, 6)), 3, int(rng.integers(2, 5)))
    return made(CHANNELS, rng.uniform(-1.5, 1.5, shape), layers, training, own_hook)


NUMBERS = ("0", "1", "2", "3", "4", "5", "6")
WORDS = (
    "embed",
    "gate",
    "mix",
    "scale",
    "relu",
    "head",
    "squash",
    "stem",
    "open",
    "join",
    "body",
    "block",
    "bend",
    "last",
)


def words(rng: np.random.Generator) -> tuple[str, ...]:
    return tuple(str(word) for word in rng.permutation(WORDS)[:7])


def draw(rng: np.random.Generator) -> list[Case]:
    """Both shapes in both modes, with and without a hook of the model's own."""
    return [
        rows(rng, True, False, words(rng)),
        rows(rng, False, True, words(rng)),
        positions(rng, True, True, words(rng)),
        positions(rng, False, False, words(rng)),
    ]


def domain(rng: np.random.Generator) -> Case:
    """One to seven layers in either shape, from any layer to any later one, with any names.

    Two examples, one position, and an activation of a single unit alone are not rare.
    """
    names = NUMBERS if rng.integers(2) else words(rng)
    drawn = (rows, positions)[rng.integers(2)](rng, bool(rng.integers(2)), bool(rng.integers(2)), names)
    begin = int(rng.choice([0, 1, 2, 4, 6], p=[0.6, 0.1, 0.1, 0.1, 0.1]))
    end = int(rng.integers(begin + 1, 8))
    x = forward(drawn, drawn.inputs["training"]).inputs[begin]
    if rng.integers(4) == 0:
        x = x[:2]
    if x.ndim == 3 and rng.integers(4) == 0:
        x = x[:, :, :1]
    layers = drawn.inputs["layers"][begin:end]
    if begin and rng.integers(2):
        layers = [activation(names[0], ("relu", "tanh")[rng.integers(2)])]
        x = x[:, :1]
    return Case("domain", {**drawn.inputs, "x": x.copy(), "layers": layers})


VISIBLE = np.random.default_rng(12)

QUESTION = Description(
    id="03d-activations",
    parts=(
        # Names are drawn: who measures nothing, and so leaves nothing behind, earns nothing for that.
        Graded("names", 1, (NAMES,)),
        Graded("mean and deviation", 2, (MEAN, STD)),
        Graded("dead units", 2, (DEAD,), on=(UNITS,)),
        Graded("dead channels", 2, (DEAD,), on=(CHANNELS,)),
        Graded("saturated entries", 1, (SATURATED,)),
        Graded("hooks", 2, (HOOKS,), after=1),
        Graded("mode and buffers", 2, (MODES, MOVED), after=1),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "hooks-left",
            "your hooks are still in the model after the call; each later call runs them again",
            "what `register_forward_hook` returns",
            partial(left, hooks="activations"),
            also=(partial(left, hooks="layers"),),
        ),
        Mistake(
            "all-hooks-removed",
            "a hook that the model had before the call is gone",
            "whose hooks you remove",
            partial(left, hooks="removed"),
            also=(partial(left, hooks="removed from activations"),),
        ),
        Mistake(
            "evaluation-mode",
            "the statistics are those of evaluation mode, while the model was in training mode",
            "which batch statistics a training step uses",
            lambda case: statistics(case, training=False),
        ),
        Mistake(
            "training-mode",
            "the statistics are those of training mode, while the model was in evaluation mode",
            "the mode that the model is in",
            lambda case: statistics(case, training=True),
        ),
        Mistake(
            "mode-changed",
            "the model is in another mode after the call",
            "`model.training` before and after",
            partial(left, mode=False),
            also=(partial(left, mode=True),),
        ),
        Mistake(
            "buffers-moved",
            "the running statistics of the batch norms moved: a measurement changed the model",
            "what a forward pass in training mode changes besides its output",
            partial(left, moved="statistics and counts"),
            also=(partial(left, moved="statistics"), partial(left, moved="counts")),
        ),
        Mistake(
            "entries-for-units",
            "the share of zeros among all *entries* was counted; a healthy ReLU has many zeros",
            "when a unit is dead: its output is 0 for every example",
            with_measure(DEAD, dead=lambda output: float((output == 0).mean())),
        ),
        Mistake(
            "once-is-enough",
            "a unit counted as dead when it was 0 for one example",
            "`any` and `all`",
            with_measure(DEAD, dead=lambda output: float((output == 0).any(others(output)).mean())),
        ),
        Mistake(
            "examples-for-units",
            "the share of *examples* was counted for which all units are 0",
            "the axis over which `all` is taken",
            with_measure(DEAD, dead=lambda output: float((output == 0).all(tuple(range(1, output.ndim))).mean())),
        ),
        Mistake(
            "positions-for-channels",
            "each position of a channel was counted as a unit of its own",
            "what shares its weights: all positions of a channel",
            with_measure(DEAD, dead=lambda output: float((output == 0).all(0).mean())),
        ),
        Mistake(
            "alive",
            "this is the share of units that are alive",
            "what the question counts",
            with_measure(DEAD, dead=lambda output: 1 - all_zero(output)),
        ),
        Mistake(
            "one-side",
            "only one end of tanh was counted as saturated",
            "the slope of tanh at an output of -0.99",
            with_measure(SATURATED, saturated=lambda output: float((output > 0.97).mean())),
        ),
        Mistake(
            "units-for-entries",
            "saturation was counted in units that are saturated for every example; the question counts entries",
            "the definition of `saturated`",
            with_measure(SATURATED, saturated=lambda output: float((np.abs(output) > 0.97).all(others(output)).mean())),
        ),
        Mistake(
            "before-the-activation",
            "these are the statistics of what goes *into* the activation",
            "the arguments of a forward hook: module, inputs, output",
            only(lambda case: statistics(case, of_inputs=True), MEAN, STD),
            also=(lambda case: statistics(case, of_inputs=True),),
        ),
        Mistake(
            "sample-deviation",
            "the deviation divides by n - 1",
            "the default of `std` in PyTorch",
            only(lambda case: statistics(case, correction=1), STD),
        ),
    ),
    visible=(
        made(
            "four examples, three units",
            [[1, 2], [2, -1], [0.5, 1], [3, 0.5]],
            [
                {"name": "0", "kind": "linear", "weight": np.array([[1.0, 0], [0, 1], [-1, 0]]), "bias": np.zeros(3)},
                activation("1", "relu"),
                {"name": "2", "kind": "linear", "weight": np.array([[1.0, 0, 0], [0, -3, 1]]), "bias": np.zeros(2)},
                activation("3", "tanh"),
            ],
            False,
            True,
        ),
        rows(VISIBLE, True, False, WORDS[:7]),
        positions(VISIBLE, False, True, NUMBERS),
    ),
    draw=draw,
    domain=domain,
)
