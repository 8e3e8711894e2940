"""03a-evaluate: weighted means, eval mode, nothing on the tape, and everything as it was afterwards.

The model's outputs are sums of three linear maps, done here in NumPy: which of them are in the sum says in which mode
each layer ran. That the random stream was left alone shows in the numbers that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

LAYERS = ("model", "plain", "dropped", "dropout", "frozen", "frozen.0", "frozen.0.0", "frozen.1")
EVAL, TRAIN, FROZEN = (False,) * 8, (True,) * 8, (True,) * 4 + (False,) * 4
DEEP = (True, False, True, True, False, False, True, True)


def outputs(case: Case, x: np.ndarray, training: Sequence[bool]) -> np.ndarray:
    """The sum of the branches that no dropout drops. [N, 1]"""
    kept = (True, not (training[0] or training[3]), not training[6])
    return np.asarray(sum(x @ row for row, keep in zip(case.inputs["weights"], kept, strict=True) if keep))[:, None]


def all_outputs(case: Case, training: Sequence[bool]) -> np.ndarray:
    return outputs(case, np.concatenate(case.inputs["x"]), training)


def losses(case: Case, exchanged: bool = False) -> list[np.ndarray]:
    """The losses of the examples, batch by batch, of the model that is its first branch only."""
    errors = [outputs(case, x, TRAIN) - y for x, y in zip(case.inputs["x"], case.inputs["y"], strict=True)]
    return [np.where((e < 0) if exchanged else (e > 0), case.inputs["above"], 1.0) * e**2 for e in errors]


LOSS, OUTPUTS, IN_EVAL, TAPE = "uneven.loss", "uneven.outputs", "eval mode.outputs", "no tape.outputs"
MODES, GRADIENTS, PARAMETERS, STREAM = (
    "modes.layers",
    "modes.gradients",
    "modes.parameters",
    "random stream.next numbers",
)


def loss_by(combine: Callable[[list[np.ndarray]], float], **how: bool) -> Simulation:
    return lambda case: {LOSS: float(combine(losses(case, **how)))}


def mean(parts: list[np.ndarray]) -> float:
    return float(np.concatenate(parts).mean())


def modes(flags: Sequence[bool]) -> list[str]:
    return [f"{name}: {'train' if flag else 'eval'}" for name, flag in zip(LAYERS, flags, strict=True)]


def modes_by(afterwards: Callable[[Sequence[bool]], Sequence[bool]]) -> Simulation:
    """Modes after the evaluation, from the modes before."""
    return lambda case: {MODES: modes(afterwards(case.inputs["training"]))}


def next_numbers(case: Case, drawn: int) -> dict[str, Any]:
    """Two numbers of torch's stream after its seed and so many numbers."""
    generator = torch.Generator().manual_seed(case.inputs["seed"])
    torch.rand(drawn, generator=generator)
    return {STREAM: torch.rand(2, generator=generator).numpy()}


def right(case: Case) -> dict[str, Any]:
    return {
        **loss_by(mean)(case),
        OUTPUTS: all_outputs(case, TRAIN),
        IN_EVAL: all_outputs(case, EVAL),
        TAPE: all_outputs(case, TRAIN),
        **modes_by(lambda before: before)(case),
        GRADIENTS: "recorded" if case.inputs["gradients"] else "switched off",
        PARAMETERS: "as before",
        **next_numbers(case, case.inputs["drawn before"]),
    }


Many = Sequence[int] | np.ndarray


def evaluated(rng: np.random.Generator, kind: str, sizes: Many, training: Many, **how: Any) -> Case:
    features = how.pop("features", 3)
    inputs = {
        "x": [rng.normal(size=(size, features)) for size in sizes],
        "y": [rng.normal(size=(size, 1)) for size in sizes],
        "weights": rng.uniform(0.5, 2.0, size=(3, features)) * rng.choice([-1.0, 1.0], size=(3, features)),
        "above": 3.0,
        "offset": float(rng.uniform(1.0, 3.0)),
        "seed": int(rng.integers(2**31)),
        "drawn before": 0,
        "training": [bool(flag) for flag in training],
        "gradients": True,
        **how,
    }
    return Case(kind, inputs)


def tells_apart(case: Case) -> bool:
    """Whether chance did not make two ways to average, or two sums of branches, nearly equal."""
    of_loss = [value for simulate in (right, *LOSS_MISTAKES) for path, value in simulate(case).items() if path == LOSS]
    sums = [all_outputs(case, flags) for flags in (EVAL, TRAIN, FROZEN)]
    gaps = [abs(a - b) for i, a in enumerate(of_loss) for b in of_loss[:i]]
    gaps += [float(np.abs(a - b).max()) for i, a in enumerate(sums) for b in sums[:i]]
    return min(gaps) > 1e-2


MEAN_OF_MEANS = loss_by(lambda parts: float(np.mean([part.mean() for part in parts])))
SUM = loss_by(lambda parts: float(np.concatenate(parts).sum()))
SUM_OF_MEANS = loss_by(lambda parts: float(sum(part.mean() for part in parts)))
EXCHANGED = loss_by(mean, exchanged=True)
LOSS_MISTAKES = (MEAN_OF_MEANS, SUM, SUM_OF_MEANS, EXCHANGED)


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has a short last batch, a long one, one batch of one example, and modes that are not the usual ones."""
    dropout_only, all_but_it = (False,) * 3 + (True,) + (False,) * 4, (True,) * 3 + (False,) + (True,) * 4
    plans: list[Callable[[], Case]] = [
        lambda: evaluated(rng, "in train mode", [4, 4, 4, int(rng.integers(1, 3))], FROZEN, **{"drawn before": 3}),
        lambda: evaluated(rng, "in eval mode, gradients off", rng.permutation([1, 3, 6]), EVAL, gradients=False),
        lambda: evaluated(rng, "one layer in train mode", [1, 2, 7], dropout_only, **{"drawn before": 1}),
        lambda: evaluated(rng, "one layer in eval mode, gradients off", [5, 2], all_but_it, gradients=False),
    ]
    mixed = evaluated(rng, "one example", [1], DEEP)
    cases = [*(draw_until(plan, tells_apart) for plan in plans), mixed, evaluated(rng, "even batches", [3, 3], TRAIN)]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """One to five batches or twelve of one to five examples or many, each layer in either mode.

    From the random stream more numbers may have been drawn than it makes at a time, and its seed may be 0.
    """
    sizes = rng.integers(1, 6, 12 if rng.integers(7) == 0 else rng.integers(1, 6))
    if rng.integers(7) == 0:
        sizes[rng.integers(len(sizes))] = 1200
    how = {
        "above": [1.0, 3.0][rng.integers(2)],
        "drawn before": 1001 if rng.integers(7) == 0 else int(rng.integers(4)),
        "gradients": bool(rng.integers(2)),
        "features": int(rng.integers(1, 5)),
        "seed": 0 if rng.integers(7) == 0 else int(rng.integers(2**31)),
    }
    return evaluated(rng, "domain", sizes, rng.integers(0, 2, 8), **how)


def visible(name: str, training: Sequence[bool], **how: Any) -> Case:
    """Inputs 1, 1, 1 and 2; the branches multiply by 1, 10 and 100."""
    x, y = (
        [np.array(rows).reshape(-1, 1) for rows in batches] for batches in (([1.0, 1, 1], [2.0]), ([0.0] * 3, [0.0]))
    )
    weights = np.array([[1.0], [10.0], [100.0]])
    shared = {"x": x, "y": y, "weights": weights, "above": 1.0, "offset": 7.0, "seed": 3, "drawn before": 2}
    return Case(name, {**shared, "training": list(training), "gradients": True, **how})


QUESTION = Description(
    id="03a-evaluate",
    parts=(
        Graded("uneven", 2, (LOSS, OUTPUTS)),
        Graded("eval mode", 2, (IN_EVAL,)),
        Graded("no tape", 1, (TAPE,)),
        # Doing nothing leaves everything as it was, and earns nothing.
        Graded("modes", 2, (MODES, GRADIENTS, PARAMETERS), after=1),
        Graded("random stream", 1, (STREAM,), after=1),
    ),
    reference=right,
    mistakes=(
        Mistake(
            "mean-of-batches",
            "the batches' means were averaged, so an example of a short batch counts more than one of a full batch",
            "how many examples each batch's mean stands for",
            MEAN_OF_MEANS,
        ),
        Mistake(
            "not-divided",
            "the loss is a sum over the examples, which grows with the data set",
            "what the sum is divided by at the end",
            SUM,
            also=(SUM_OF_MEANS,),
        ),
        Mistake(
            "arguments-exchanged",
            "the loss was given its two arguments in the wrong order; only a symmetric loss forgives that",
            "the order of arguments in loss_fn(outputs, y)",
            EXCHANGED,
        ),
        Mistake(
            "last-batch-only",
            "only the last batch is in the result",
            "what is carried from one pass of the loop to the next",
            lambda case: {
                LOSS: float(losses(case)[-1].mean()),
                OUTPUTS: outputs(case, case.inputs["x"][-1], TRAIN),
            },
        ),
        Mistake(
            "constant-result",
            "the loss is 0 whatever the model and the data are",
            "whether the batches reach the model, and its outputs the loss",
            lambda case: {LOSS: 0.0},
        ),
        Mistake(
            "train-mode",
            "the model was evaluated as it came, in train mode: its dropout was still dropping",
            "what the layers do that behave differently in training",
            lambda case: {IN_EVAL: all_outputs(case, case.inputs["training"])},
        ),
        Mistake(
            "all-in-train-mode",
            "every layer was put into train mode before the evaluation, the frozen ones too",
            "which of the two modes is meant for evaluation",
            lambda case: {IN_EVAL: all_outputs(case, TRAIN)},
        ),
        Mistake(
            "recorded",
            "autograd wrote the forward pass down, and the graph is kept for as long as the outputs are",
            "whether an output requires a gradient inside your loop",
            lambda case: {TAPE: all_outputs(case, TRAIN) + case.inputs["offset"]},
        ),
        Mistake(
            "left-in-eval",
            "the model stays in eval mode: training would go on without dropout, and nothing would say so",
            "the model's modes after your function",
            modes_by(lambda before: EVAL),
        ),
        Mistake(
            "frozen-thawed",
            "a layer whose mode differs from the model's came back in the model's mode: train() switches all of them",
            "whether one flag for the whole model can tell what each of its layers was in",
            modes_by(lambda before: [before[0]] * 8),
        ),
        Mistake(
            "deep-layers-lost",
            "the modes of the model and of its direct children were put back, and those of deeper layers were not",
            "what the difference between `children()` and `modules()` is",
            modes_by(lambda before: [*before[:5], False, False, False]),
            also=(modes_by(lambda before: [*before[:5], *[before[4]] * 3]),),
        ),
        Mistake(
            "always-train",
            "a model that came in eval mode went away in train mode",
            "what the modes were before, not what they usually are",
            modes_by(lambda before: TRAIN),
        ),
        Mistake(
            "gradients-left-off",
            "gradients stay switched off after your function: nothing could be trained any more",
            "torch.is_grad_enabled() before and after your function",
            lambda case: {GRADIENTS: "switched off"},
        ),
        Mistake(
            "gradients-always-on",
            "gradients are switched on after your function, also where the caller had switched them off",
            "torch.is_grad_enabled() before and after your function",
            lambda case: {GRADIENTS: "recorded"},
        ),
        Mistake(
            "parameters-changed",
            "a parameter's value, its .grad or its requires_grad is not what it was",
            "what your function does to the model's parameters; some of them may be frozen",
            lambda case: {PARAMETERS: "changed"},
        ),
        Mistake(
            "stream-moved",
            "training's next random numbers are others than without the evaluation: the loader drew from the stream",
            "the state of torch's random stream before and after your loop",
            lambda case: next_numbers(case, case.inputs["drawn before"] + len(case.inputs["x"])),
        ),
        Mistake(
            "seeded-again",
            "the random stream was set back to its seed: training would get the same numbers again",
            "where the stream was when your function was called, not where it began",
            lambda case: next_numbers(case, 0),
        ),
    ),
    visible=(
        visible("three examples, then one; the frozen branch in eval mode", FROZEN),
        visible("the frozen branch in eval mode, the dropout in it in train mode", DEEP),
        visible(
            "the frozen branch in train mode, the dropout in it in eval mode", (False,) * 4 + (True, True, False, True)
        ),
        visible("a model in eval mode, gradients switched off", EVAL, gradients=False, above=3.0),
    ),
    draw=draw,
    domain=domain,
    added=10,
)
