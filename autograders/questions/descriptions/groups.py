"""03c-groups: bodies and heads whose names mislead, with frozen and tied layers and norms over two axes.

The parameters are in the order of the model, each with what a group should say about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

TIMES, RATES, DECAYS = (f"groups.{field}" for field in ("times", "rates", "decays"))
MATRICES, NORMS = (
    ("Linear", "Conv1d", "Embedding"),
    ("LayerNorm", "LayerNorm over two axes", "BatchNorm1d", "GroupNorm"),
)
WITHOUT_BIAS = ("Embedding",)
ALWAYS_BIAS = ("BatchNorm1d", "GroupNorm")


class Parameter(NamedTuple):
    """A parameter by where it is, what it is called, and what it belongs to."""

    part: str
    name: str
    kind: str
    axes: int
    frozen: bool
    uses: int

    @property
    def bias(self) -> bool:
        return self.name.endswith(".bias")


def parameters(case: Case) -> Iterator[Parameter]:
    for part in ("head", "body") if case.inputs.get("head_first") else ("body", "head"):
        layers = case.inputs[part]
        for layer in layers:
            kind = layer["kind"]
            if not layer["tied"]:
                sharing = [other for other in layers if other["kind"] == kind and other["tied"]]
                # The layer that the others are tied to is the first of its kind, and shares its frozen weight.
                first = layer is next(other for other in layers if other["kind"] == kind)
                axes = 2 if kind in MATRICES or "two" in kind else 1
                frozen = any(owner["frozen"] in (True, "weight") for owner in [layer, *(sharing if first else [])])
                uses = 1 + len(sharing) if first else 1
                yield Parameter(part, f"{layer['name']}.weight", kind, axes, frozen, uses)
            if kind in ALWAYS_BIAS or (layer["bias"] and kind not in WITHOUT_BIAS):
                yield Parameter(
                    part, f"{layer['name']}.bias", kind, axes_of_bias(kind), layer["frozen"] in (True, "bias"), 1
                )


def axes_of_bias(kind: str) -> int:
    return 2 if "two" in kind else 1


def decays(parameter: Parameter) -> bool:
    return parameter.kind in MATRICES and not parameter.bias


Rule = Callable[[Parameter], Any]


def fields(
    case: Case,
    decays: Rule = decays,
    times: Rule = lambda each: not each.frozen,
    only: str = "",
    part_of: Rule = lambda each: each.part,
) -> Mapping[str, Any]:
    """The observation, with other rules for what decays, what is listed and which part a parameter belongs to."""
    inputs = case.inputs
    rate_of = {"body": inputs["body_rate"], "head": inputs["head_rate"]}
    all_of = list(parameters(case))
    trained = [each for each in all_of if not each.frozen]
    observed = {
        TIMES: np.array([int(times(each)) for each in all_of]),
        RATES: np.array([rate_of[part_of(each)] if times(each) else -1.0 for each in trained]),
        DECAYS: np.array(
            [(inputs["weight_decay"] if decays(each) else 0.0) if times(each) else -1.0 for each in trained]
        ),
    }
    return {only: observed[only]} if only else observed


def named(*words: str) -> Rule:
    return lambda each: not any(word in each.name for word in words)


def called(word: str, other: str) -> Rule:
    """The part that a word stands for, where it occurs in the name with which the whole model lists a parameter."""
    return lambda each: word if word in f"{each.part}.{each.name}" else other


def decaying(rule: Rule) -> Simulation:
    return partial(fields, decays=rule, only=DECAYS)


def rated(part_of: Rule) -> Simulation:
    return partial(fields, part_of=part_of, only=RATES)


def listed(rule: Rule) -> Simulation:
    return partial(fields, times=rule)


def layer(
    kind: str, name: str, size: int = 2, bias: bool = True, frozen: bool | str = False, tied: bool = False
) -> dict[str, Any]:
    return {"kind": kind, "name": name, "size": size, "bias": bias, "frozen": frozen, "tied": tied}


MISLEADING = {"Linear": "norm_projection", "Conv1d": "bnormal", "Embedding": "bias_table"}
PLAIN = {"LayerNorm": "ln", "LayerNorm over two axes": "scale", "BatchNorm1d": "1", "GroupNorm": "gn"}


def settings(rng: np.random.Generator) -> dict[str, float]:
    body = 10 ** rng.uniform(-4, -2)
    return {"body_rate": body, "head_rate": body * rng.uniform(3, 30), "weight_decay": 10 ** rng.uniform(-2, -0.5)}


def part(rng: np.random.Generator, kinds: tuple[str, ...], frozen: int = 0, tied: bool = False) -> list[dict[str, Any]]:
    """A layer of each kind; the first `frozen` ones are frozen, and the last one is tied if asked for."""
    layers = [
        layer(
            kind, {**MISLEADING, **PLAIN}[kind], int(rng.integers(1, 4)), bool(rng.integers(2) or kind in ALWAYS_BIAS)
        )
        for kind in kinds
    ]
    for each in layers[:frozen]:
        each["frozen"] = True
    if tied:
        layers.append(
            layer("Linear", "again", next(each["size"] for each in layers if each["kind"] == "Linear"), tied=True)
        )
    return layers


def half_frozen(which: str) -> list[dict[str, Any]]:
    """A matrix and a norm of which the weight or the bias alone is frozen."""
    return [layer("Linear", "first", frozen=which), layer("BatchNorm1d", "second", frozen=which)]


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each kind of layer in either part, frozen layers, tied ones, and a part without any matrix."""

    def shuffled(kinds: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(kind) for kind in rng.permutation(kinds))

    every = (*MATRICES, *NORMS)
    cases = [
        (part(rng, shuffled(every)), part(rng, ("Linear",))),
        (part(rng, ("Linear", "Conv1d")), part(rng, shuffled(every))),
        (part(rng, shuffled(every), frozen=3), part(rng, ("LayerNorm", "Linear"))),
        (part(rng, ("Embedding", "Linear", "BatchNorm1d"), tied=True), part(rng, ("Linear",), tied=True)),
        (part(rng, ("Conv1d", "GroupNorm"), frozen=2), part(rng, ("Linear", "LayerNorm"), frozen=1)),
        (part(rng, ("LayerNorm",)), part(rng, ("Linear",))),
        (half_frozen("weight"), half_frozen("bias")),
    ]
    drawn = []
    for body, head in cases:
        # A plain layer with a bias in each part, so that no slip about biases can hide; named like the other part.
        for place, name in ((body, "head"), (head, "body")):
            place.append(layer("Linear", name, int(rng.integers(1, 4))))
        drawn.append(Case("model", {"body": body, "head": head, **settings(rng)}))
    return drawn


def domain(rng: np.random.Generator) -> Case:
    """One to six layers in each part; frozen parts, layers and scales, and norms that share a scale, are not rare.

    In every second case the head has the smaller rate, and in every second it was registered first.
    """
    every = (*MATRICES, *NORMS)
    parts = []
    for name in ("head", "body"):
        kinds = tuple(str(kind) for kind in rng.choice(every, rng.integers(1, 6), replace=False))
        layers = part(rng, kinds, frozen=int(rng.integers(0, 2)), tied="Linear" in kinds[1:] and bool(rng.integers(2)))
        for each in layers:
            if not each["tied"] and rng.integers(8) == 0:
                each["frozen"] = str(rng.choice(["weight", "bias"]))
        first_norm = next((each for each in layers if each["kind"] in NORMS), None)
        if first_norm and rng.integers(4) == 0:
            layers.append({**first_norm, "name": "same_scale", "frozen": False, "tied": True})
        if first_norm and rng.integers(4) == 0:
            first_norm["frozen"] = "weight"
        if rng.integers(4):
            layers.append(layer("Linear", name))
        if rng.integers(8) == 0:
            layers = [{**each, "frozen": True} for each in layers]
        parts.append(layers)
    rates = settings(rng)
    if rng.integers(2):
        rates["body_rate"], rates["head_rate"] = rates["head_rate"], rates["body_rate"]
    shared = any(
        each.name.endswith(".weight") and each.uses > 1 and each.kind in NORMS and not each.frozen
        for each in parameters(Case("", {"body": parts[0], "head": parts[1]}))
    )
    kind = "norms share a scale that is trained" if shared else "domain"
    return Case(kind, {"body": parts[0], "head": parts[1], "head_first": bool(rng.integers(2)), **rates})


def visible(name: str, body: list[dict[str, Any]], head: list[dict[str, Any]]) -> Case:
    return Case(name, {"body": body, "head": head, "body_rate": 0.001, "head_rate": 0.01, "weight_decay": 0.05})


QUESTION = Description(
    id="03c-groups",
    parts=(Graded("once", 3, (TIMES,)), Graded("rates", 2, (RATES,)), Graded("decays", 3, (DECAYS,))),
    reference=fields,
    mistakes=(
        Mistake(
            "head-left-out",
            "no group has the parameters of the head, so they will never change",
            "whether every trainable parameter of the model is in a group",
            listed(lambda each: not each.frozen and each.part == "body"),
        ),
        Mistake(
            "vectors-left-out",
            "biases and norms are in no group; without decay does not mean without training",
            "the groups with weight_decay 0",
            listed(lambda each: not each.frozen and decays(each)),
        ),
        Mistake(
            "tied-twice",
            "a tied parameter is listed once for each layer that uses it; an optimizer would refuse it or warn",
            "whether a parameter is already in a group when you meet it again",
            partial(fields, times=lambda each: 0 if each.frozen else each.uses, only=TIMES),
        ),
        Mistake(
            "frozen-listed",
            "frozen parameters are in a group",
            "requires_grad of each parameter",
            partial(fields, times=lambda each: True, only=TIMES),
        ),
        Mistake(
            "rates-exchanged",
            "the body has the rate of the head, and the head that of the body",
            "which part is already trained",
            rated(lambda each: "head" if each.part == "body" else "body"),
        ),
        Mistake(
            "part-by-name",
            "a word in the name of a layer decided its rate: a layer of the body may be called head",
            "which of model.body and model.head owns the parameter",
            rated(called("head", "body")),
            also=(rated(called("body", "head")),),
        ),
        Mistake(
            "one-rate",
            "the body learns as fast as the head",
            "the lr of the groups that hold the body's parameters",
            rated(lambda each: "head"),
        ),
        Mistake(
            "slow-head",
            "the head learns as slowly as the body",
            "the lr of the groups that hold the head's parameters",
            rated(lambda each: "body"),
        ),
        Mistake(
            "everything-decays",
            "biases and norms decay too",
            "the weight_decay of each group",
            decaying(lambda each: True),
        ),
        Mistake(
            "nothing-decays",
            "no parameter decays",
            "the weight_decay of each group",
            decaying(lambda each: False),
        ),
        Mistake(
            "decay-exchanged",
            "biases and norms decay and the matrices do not",
            "which of the two lists has weight_decay 0",
            decaying(lambda each: not decays(each)),
        ),
        Mistake(
            "matched-by-name",
            "names decided: a norm that is not called norm decays, and a matrix that is does not",
            "the types of the modules; names are free",
            decaying(named("bias", "norm", "bn")),
            also=(decaying(named("bias", "norm")),),
        ),
        Mistake(
            "only-biases-spared",
            "the scales of normalisation layers decay",
            "what else besides a bias is an offset or a scale",
            decaying(lambda each: not each.bias),
        ),
        Mistake(
            "counted-axes",
            "the number of axes decided: the scale of a LayerNorm over two axes is not a matrix",
            "the type of the module that owns the parameter",
            decaying(lambda each: each.axes > 1),
            also=(decaying(lambda each: each.axes > 1 and not each.bias),),
        ),
        Mistake(
            "biases-of-matrices-decay",
            "the biases of linear and convolutional layers decay",
            "the two kinds of parameter of such a layer",
            decaying(lambda each: each.kind in MATRICES),
        ),
    ),
    visible=(
        visible(
            "linear layers with a LayerNorm between them",
            [layer("Linear", "0"), layer("LayerNorm", "1"), layer("Linear", "2")],
            [layer("Linear", "out")],
        ),
        visible(
            "names that mislead, and a LayerNorm over two axes",
            [layer("Conv1d", "norm_conv"), layer("LayerNorm over two axes", "scale"), layer("Linear", "bn")],
            [layer("Linear", "out"), layer("BatchNorm1d", "last")],
        ),
        visible(
            "a frozen embedding and a tied layer",
            [layer("Embedding", "words", frozen=True), layer("Linear", "head"), layer("Linear", "b", tied=True)],
            [layer("Linear", "body")],
        ),
    ),
    draw=draw,
    domain=domain,
)
