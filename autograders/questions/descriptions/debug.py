"""03b-debug: what each function of the repaired script does, against NumPy; which three were faulty, and the rungs.

The right script is the same in every course. A variant says which of its functions have a fault: each of the three
is a part of its own, and the functions without one are a part together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.compare import agree
from lecture_lib.notebook.questions.debug import NAMED, ROWS, SAME, SCRIPT, TWICE, USUAL, as_logged

from ..cases import Case, Observation, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from ..variants import Variant
from .debug_scripts import FAULTS, PROGRAM, SCRIPTS, faulty, with_diagnosis
from .fix import cross_entropy, softmax

Data = Mapping[str, Any]
PLACES = ("first", "second", "third")
RIGHT_RUNG, OTHER_RUNG, NOT_NAMED, TOO_MANY = "named", "with another rung", "not named", "more than three are named"
STUB = "...  # write your answer here"


def divide_rows(data: Data) -> dict[str, Any]:
    few = len(data["y"]) // 4
    facts = dict.fromkeys(("rows with their labels", "every row once", "the same for the same seed"), True)
    sizes = {"sizes": [len(data["y"]) - few, few], "in both parts": 0}
    return {**sizes, **facts, "another one for another seed": few > 0}


def in_both(data: Data, everything: bool = False) -> dict[str, Any]:
    """The two parts by two orders of the same generator, or all rows for training."""
    n, few = len(data["y"]), len(data["y"]) // 4
    shared, missing = [], []
    for seed in data["seeds"]:
        stream = torch.Generator().manual_seed(seed)
        first, second = (torch.randperm(n, generator=stream).tolist() for _ in range(2))
        train, val = (first, first[:few]) if everything else (first[few:], second[:few])
        shared.append(len({*train} & {*val}))
        missing.append(n - len({*train, *val}))
    sizes = {"sizes": [n, few]} if everything else {}
    return {**sizes, "in both parts": max(shared), "every row once": not any(missing)}


def standardise(data: Data, by: str = "x_train") -> dict[str, Any]:
    parts = {"training": data["x_train"], "validation": data["x_val"]}
    reference_rows = np.concatenate([*parts.values()]) if by == "both" else data[by]
    return {name: (x - reference_rows.mean()) / reference_rows.std(ddof=1) for name, x in parts.items()}


def network(data: Data, hidden: Any = lambda x: np.maximum(x, 0.0), last: Any = lambda x: x) -> dict[str, Any]:
    first, bias, second, shift = data["weights"]
    outputs = last(hidden(data["x"] @ first.T + bias) @ second.T + shift)
    shapes = [list(weight.shape) for weight in data["weights"]]
    return {"parameters": shapes, "outputs": outputs, "a fifth dropped": True}


def adam(data: Data, moved: slice = slice(None), gamma: float = 0.9) -> dict[str, Any]:
    """Weights after Adam's first step, which is the rate in the direction of each gradient's sign."""
    weights = [weight.copy() for weight in data["weights"]]
    for weight, gradient in list(zip(weights, data["gradients"], strict=True))[moved]:
        weight -= data["rate"] * gradient / (np.abs(gradient) + 1e-8)
    return {"weights": weights, "next rate": gamma * data["rate"]}


def loss(data: Data, summed: bool = False) -> dict[str, Any]:
    outputs, y = data["outputs"], data["y"]
    count = 1 if summed else len(y)
    scale = len(y) / count
    slope = (softmax(outputs) - np.eye(outputs.shape[1])[y]) / count
    return {"loss": scale * cross_entropy(outputs, y), "gradient": slope}


def loss_of_softmax(data: Data) -> dict[str, Any]:
    """The loss that takes probabilities for logits, and its gradient through the softmax."""
    shares = softmax(data["outputs"])
    inner = loss({**data, "outputs": shares})
    slope = shares * (inner["gradient"] - (shares * inner["gradient"]).sum(axis=1, keepdims=True))
    return {"loss": inner["loss"], "gradient": slope}


def update(data: Data, kept: float = 0.0, taken: float = 1.0, cut: bool = False) -> dict[str, Any]:
    """Weights of two linear layers after a step on each batch.

    `kept` is the share of the earlier gradients that is left, `taken` that of the new one that is used.
    """
    first, second = (weight.copy() for weight in data["weights"])
    totals, losses = [np.zeros_like(first), np.zeros_like(second)], []
    for x, y in zip(data["x"], data["y"], strict=True):
        outputs = x @ first.T @ second.T
        slope = (softmax(outputs) - np.eye(len(second))[y]) / len(y)
        new = [(slope @ second).T @ x * (not cut), slope.T @ (x @ first.T)]
        totals = [kept * old + gradient for old, gradient in zip(totals, new, strict=True)]
        first, second = (w - data["rate"] * taken * t for w, t in zip((first, second), totals, strict=True))
        losses.append(cross_entropy(outputs, y))
    return {"weights": [first, second], "losses": losses}


def train_once(data: Data, mode: str = "training", steps: str = "after") -> dict[str, Any]:
    """What happens in an epoch; the schedule is stepped after it, before it, after each batch or never."""
    events = [f"batch {index}, {index + 1} in {mode} mode" for index in range(len(data["losses"]))]
    if steps == "each":
        events = [event for batch in events for event in (batch, "schedule")]
    events = [*["schedule"] * (steps == "before"), *events, *["schedule"] * (steps == "after")]
    return {"loss": float(np.mean(data["losses"])), "events": events}


def as_it_comes(data: Data) -> dict[str, Any]:
    return train_once(data, "training" if data["training"] else "evaluation")


def measure(data: Data, dropped: bool = False, by_batch: bool = False) -> dict[str, Any]:
    """Loss and accuracy over all examples, or as means of the batches' means; with all inputs dropped or none."""
    losses, rights, counts = [], [], []
    for x, y in zip(data["x"], data["y"], strict=True):
        outputs = (0.0 if dropped else 1.0) * x @ data["weight"].T
        losses.append(cross_entropy(outputs, y))
        rights.append(float((outputs.argmax(axis=1) == y).mean()))
        counts.append(1 if by_batch else len(y))
    return {
        "loss": float(np.average(losses, weights=counts)),
        "accuracy": float(np.average(rights, weights=counts)),
        "graph": False,
    }


Run = Callable[[Any], dict[str, Any]]
RIGHT: dict[str, Run] = dict(
    zip(SCRIPT, (divide_rows, standardise, network, adam, loss, update, train_once, measure), strict=True)
)
LOG = {
    "rows": {"rows read": ROWS, "different rows used": ROWS},
    **{name: {entry: as_logged(name, entry, low) for entry, (low, _) in USUAL[name].items()} for name in USUAL},
}
LOG["validation"][TWICE] = SAME


def reference(case: Case) -> Mapping[str, Any]:
    if "seed" in case.inputs:
        logged = {f"{line}.{entry}": right for line, entries in LOG.items() for entry, right in entries.items()}
        return {**logged, "diagnosis.form": NAMED}
    fields = {
        f"{name}.{field}": right for name, run in RIGHT.items() for field, right in run(case.inputs[name]).items()
    }
    return {**fields, **{f"diagnosis.{place}": RIGHT_RUNG for place in PLACES}}


def facts(faults: tuple[str, ...], case: Case, observation: Observation) -> Observation:
    """An observation with what is named judged, fault by fault."""
    diagnosis = value(observation, "diagnosis")
    named = diagnosis.get("named") if diagnosis is not None else None
    if not isinstance(named, Mapping):
        return observation
    judged = {}
    for place, fault in zip(PLACES, (FAULTS[name] for name in faults), strict=True):
        rung = named.get(fault.function)
        right = any(agree(rung, accepted, 0.0) for accepted in fault.rungs)
        judged[place] = RIGHT_RUNG if right else NOT_NAMED if rung is None else OTHER_RUNG
    if len(named) > len(PLACES):
        judged = dict.fromkeys(PLACES, TOO_MANY)
    return {**observation, "diagnosis": {"value": judged}}


def of(name: str, mistaken: Run) -> Simulation:
    """What a mistake in one function gives, where a case asks for it."""
    return lambda case: (
        {f"{name}.{field}": wrong for field, wrong in mistaken(case.inputs[name]).items()}
        if name in case.inputs
        else {}
    )


def naming(places: tuple[str, ...], verdict: str) -> Simulation:
    return lambda case: {} if "seed" in case.inputs else {f"diagnosis.{place}": verdict for place in places}


def slip(name: str, identity: str, explanation: str, look_at: str, mistaken: Run, *also: Run) -> Mistake:
    """A mistake in one function. Its words would say what students are to find, so they do not ship."""
    forms = tuple(of(name, form) for form in also)
    return Mistake(identity, explanation, look_at, of(name, mistaken), hidden_only=True, unpublished=True, also=forms)


MISTAKES = (
    slip("divide_rows", "rows-in-both", "some rows are in training and in validation", "how often an order is drawn",
         in_both, partial(in_both, everything=True)),
    slip("divide_rows", "order-not-drawn", "the parts no longer depend on the generator: sorted data would be split "
         "by class", "what the generator is for", lambda data: {"another one for another seed": False}),
    slip("divide_rows", "generator-ignored", "the same generator gives another split the second time",
         "which random stream the order is drawn from",
         lambda data: {"the same for the same seed": len(data["y"]) < 4}),
    slip("standardise", "validation-unscaled", "the validation inputs are not standardised, the training inputs are",
         "mean and spread of what the network sees in each part", lambda data: {"validation": data["x_val"]}),
    slip("standardise", "own-statistics", "the validation part is standardised by its own mean and spread",
         "which part the two numbers come from", lambda data: {"validation": standardise(data, "x_val")["validation"]}),
    slip("standardise", "both-parts-statistics", "mean and spread were taken over both parts, so training knows "
         "something of validation", "which part the two numbers come from", partial(standardise, by="both")),
    slip("make_network", "linear-network", "there is no ReLU between the two linear layers, so together they are one",
         "what the hidden units do with a negative number", partial(network, hidden=lambda x: x)),
    slip("make_network", "softmax-layer", "the network ends with a softmax, and the loss applies a second one",
         "the range of the network's outputs", partial(network, last=softmax)),
    slip("make_network", "dropout-changed", "the network no longer drops a fifth of its hidden units in training",
         "the layers that the script had", lambda data: {"a fifth dropped": False}),
    slip("make_optimizer", "last-layer-only", "the optimizer moves the last layer only",
         "which parameters it was given", partial(adam, moved=slice(-1, None))),
    slip("loss_of_batch", "softmax-in-loss", "the loss applies a softmax to outputs that cross_entropy takes as logits",
         "what cross_entropy does to its first argument", loss_of_softmax),
    slip("loss_of_batch", "loss-summed", "the losses of the examples are added: their mean is asked for",
         "the loss of a batch that holds the same example twice", partial(loss, summed=True)),
    slip("update", "never-cleared", "the second step still contains the first one's gradient",
         "what backward does to a .grad that is not empty", partial(update, kept=1.0)),
    slip("update", "cleared-too-early", "the weights do not move: the gradient was gone before it was used",
         "the order of backward, step and zero_grad",
         lambda data: {"weights": data["weights"], "losses": update(data, taken=0.0)["losses"]}),
    slip("update", "graph-cut", "no gradient reaches the layers before the last one",
         "where the graph of the loss ends", partial(update, cut=True)),
    slip("train_once", "schedule-per-batch", "the schedule is stepped after every batch",
         "in which of the two, batch or epoch, the schedule is counted", partial(train_once, steps="each")),
    slip("train_once", "schedule-first", "the schedule is stepped before the first batch",
         "whether it moves on before the batches or behind them", partial(train_once, steps="before")),
    slip("train_once", "schedule-removed", "the schedule is never stepped", "where the rate changes",
         partial(train_once, steps="never")),
    slip("train_once", "mode-not-set", "training goes on in the mode that the last measurement left",
         "the mode of the model in the second epoch", as_it_comes),
    slip("measure", "measured-with-dropout", "loss and accuracy are measured while units are dropped",
         "the mode of the model", partial(measure, dropped=True)),
    slip("measure", "mean-of-means", "the means of the batches were averaged, so an example of the small last batch "
         "counts more than the others", "what the sum is divided by", partial(measure, by_batch=True)),
    slip("measure", "graph-kept", "a graph is built for every batch that is only measured",
         "what no_grad is for", lambda data: {"graph": True}),
    Mistake("misnamed", "a function that had a fault is not among those named, or has another rung",
            "the table of rungs at the top: which is the lowest whose question this fault fails",
            naming(PLACES[:1], OTHER_RUNG), hidden_only=True,
            also=tuple(naming(places, verdict) for verdict in (OTHER_RUNG, NOT_NAMED)
                       for places in (PLACES[:1], PLACES[1:2], PLACES[2:], PLACES[:2], PLACES[1:], PLACES[::2], PLACES)
                       if (verdict, places) != (OTHER_RUNG, PLACES[:1]))),
    Mistake("too-many-named", "more than three functions are named", "the functions that your repair changed",
            naming(PLACES, TOO_MANY), hidden_only=True),
)  # fmt: skip


def batches(rng: np.random.Generator, sizes: tuple[int, ...], features: int, classes: int) -> dict[str, Any]:
    """Batches whose labels do not follow the inputs, so that no mistake hides in a loss near 0."""
    return {
        "x": [rng.normal(size=(size, features)) for size in sizes],
        "y": [rng.integers(0, classes, size) for size in sizes],
    }


def away_from_zero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.uniform(0.2, 2.0, shape) * rng.choice([-1.0, 1.0], shape))


def data(rng: np.random.Generator, rows: int, sizes: tuple[int, ...], training: bool) -> dict[str, Any]:
    """Inputs of all eight functions: so many rows to divide, batches of these sizes, the mode before an epoch."""
    features, classes = (int(number) for number in rng.integers(2, 6, 2))
    hidden = (32, features), (32,), (classes, 32), (classes,)
    outputs = rng.normal(size=(max(sizes) + 1, classes)) * rng.choice([1.0, 5.0])
    y = rng.integers(0, classes, len(outputs))
    outputs[0, (y[0] + 1) % classes] = outputs[0, y[0]] + 30  # sure and wrong: a probability that must not be cut off
    pair = {"weights": [away_from_zero(rng, 3, features), away_from_zero(rng, classes, 3)]}
    weight = rng.normal(size=(classes, features))
    weight[0] -= 1.0  # class 0, which a network without inputs answers, is not the right one too often
    return {
        "divide_rows": {
            "x": rng.normal(size=(rows, 2)),
            "y": rng.integers(0, 3, rows),
            "seeds": [int(seed) for seed in rng.choice(10_000, 3, replace=False)],
        },
        "standardise": {
            "x_train": rng.normal(rng.uniform(1, 3), rng.uniform(2, 4), (sum(sizes) + 3, features)),
            "x_val": rng.normal(rng.uniform(-3, -1), rng.uniform(5, 9), (max(sizes) + 1, features)),
        },
        "make_network": {
            "features": features,
            "classes": classes,
            "weights": [rng.normal(size=shape) for shape in hidden],
            "x": rng.normal(size=(4, features)),
        },
        "make_optimizer": {**pair, "gradients": [away_from_zero(rng, *w.shape) for w in pair["weights"]],
                           "rate": float(rng.uniform(0.001, 0.1))},
        "loss_of_batch": {"outputs": outputs, "y": y},
        "update": {**batches(rng, sizes, features, classes), **pair, "rate": 0.5},
        "train_once": {"losses": [float(each) for each in rng.uniform(0.5, 2.0, len(sizes))], "training": training},
        "measure": {**batches(rng, sizes, features, classes), "weight": weight},
    }  # fmt: skip


def draw(rng: np.random.Generator) -> list[Case]:
    """Uneven batches, a batch of one, a quarter that is rounded down, also to nothing, both modes before an epoch."""
    plans = (
        (30 + int(rng.integers(40)), (6, 4, 1), False),
        (23, (3, 5), True),
        (int(rng.integers(1, 4)), (4, 2), False),
    )
    return [Case("hidden data", data(rng, *plan)) for plan in plans]


def domain(rng: np.random.Generator) -> Case:
    """Any number of rows, and two to four batches of any sizes."""
    sizes = tuple(int(size) for size in rng.integers(1, 8, rng.integers(2, 5)))
    rows = int(rng.choice([rng.integers(1, 4), rng.integers(20, 80)]))
    return Case("domain", data(rng, rows, sizes, bool(rng.integers(2))))


def described(faults: tuple[str, ...]) -> Description:
    """The question for a script with these faults."""
    functions = [FAULTS[name].function for name in faults]

    def fields(names: list[str]) -> tuple[str, ...]:
        case = draw(np.random.default_rng(0))[0]
        return tuple(path for path in reference(case) if path.split(".")[0] in names)

    return Description(
        id="03b-debug",
        parts=(
            *(Graded(f"{place} fault", 2, fields([name])) for place, name in zip(PLACES, functions, strict=True)),
            Graded("the rest", 3, fields([name for name in SCRIPT if name not in functions]), after=2),
            *(Graded(f"{place} fault, named", 1, (f"diagnosis.{place}",)) for place in PLACES),
        ),
        reference=reference,
        mistakes=MISTAKES,
        visible=(Case("the script on 500 digits", {"seed": 0}),),
        draw=draw,
        domain=domain,
        added=8,
        facts=partial(facts, faults),
        practice=None,  # the check sees the log alone
    )


def variant(name: str, faults: tuple[str, ...]) -> Variant:
    """What a course with these faults releases and grades."""
    named = {FAULTS[fault].function: FAULTS[fault].rungs[0] for fault in faults}
    literal = repr(named).replace("'", '"')
    words = {"named": literal, "diagnosis": f"return {literal}"}
    words["repaired"] = with_diagnosis(PROGRAM, words["diagnosis"])
    for place, fault in zip(PLACES, faults, strict=True):
        words |= {place: fault, f"damage of the {place}": FAULTS[fault].diff}
    for function in SCRIPT:
        # A fault that is left costs its part, and one in a function that had none costs the rest.
        words[f"points without {function}"] = f"{10 if function in named else 9}"
    stub = with_diagnosis(faulty(faults), STUB)
    about = "; ".join(f"{fault} in {FAULTS[fault].function}" for fault in faults)
    return Variant(name, described(faults), stub, words["repaired"], words, about)


VARIANTS = tuple(variant(name, faults) for name, faults in SCRIPTS.items())
QUESTION = VARIANTS[0].description
