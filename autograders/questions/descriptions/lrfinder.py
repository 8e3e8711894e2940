"""03a-lrfinder: the sweep's rates and losses, where it ends, and what it puts back.

The reference is least squares on centred inputs by hand in NumPy: no autograd, no optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.lrfinder import trained

from ..cases import Case, Observation, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .lrfinder_cases import (
    DIVERGING,
    EXACT,
    FULL,
    MODES,
    MODULES,
    NOT_FINITE,
    ZERO,
    by_hand,
    problem,
    sweep,
)

BUFFERS = tuple(f"track.0.0.{name}" for name in ("running_mean", "batches", "latest"))
RATES, LOSSES = "sweep.log10_rates", "sweep.losses"


def swept(**how: Any) -> Simulation:
    def simulate(case: Case) -> Mapping[str, Any]:
        result = sweep(case.inputs, **how)
        return {RATES: result["log10_rates"], LOSSES: result["losses"]}

    return simulate


def left(*, weights: bool = False, buffers: Sequence[str] = (), modes: str = "") -> Simulation:
    """What of the model's state differs after a sweep that put everything back except what the arguments say."""

    def simulate(case: Case) -> Mapping[str, Any]:
        before = case.inputs["modes"]
        root, child, *_, linear = before
        flags = {"train": [True] * 5, "eval": [False] * 5, "root": [root] * 5, "deep": [root, *[child] * 3, linear]}
        after = flags.get(modes, before)
        moves = ["linear.weight", "linear.bias"][: 1 + bool(case.inputs["bias"].any())]  # none by hand: labels are ±t
        return {
            "restored.parameters": moves if weights else [],
            "restored.buffers": buffers,
            "restored.modes": [name for name, old, new in zip(MODULES, before, after, strict=True) if old != new],
        }

    return simulate


def reference(case: Case) -> Mapping[str, Any]:
    kept = {"restored.weights": [case.inputs["weight"], case.inputs["bias"]], "restored.trained": "yes"}
    return {**swept()(case), **left()(case), **kept}


def facts(case: Case, observation: Observation) -> Observation:
    """Whether the model learned is found here once more, from the losses that were computed."""
    restored, computed = value(observation, "restored"), value(observation, "computed")
    if restored is None or computed is None:
        return observation
    learned = trained(computed["losses"], case.inputs)
    return {**observation, "restored": {"value": {**restored, "trained": learned}}}


SWEEPS: dict[str, tuple[tuple[Any, ...], ...]] = {
    FULL: (("train", 4, 21), ("eval", 1), ("mixed", 30), ("mixed", 3, 2)),
    DIVERGING: (("eval",), ("mixed", 30)),
    NOT_FINITE: (("train",),),
    EXACT: (("mixed",),),
    ZERO: (("eval",),),
}


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has each mode, one batch and more batches than steps, and each early end."""
    cases = [Case(name, problem(rng, name, *how)) for name, hows in SWEEPS.items() for how in hows]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Any sweep."""
    sweeps = list(SWEEPS)[rng.integers(len(SWEEPS))]
    batches = int(rng.integers(2, 31)) if sweeps == FULL else [None, 30][rng.integers(2)]
    return Case("domain", problem(rng, sweeps, list(MODES)[rng.integers(3)], batches))


def visible(
    name: str,
    targets: Sequence[float],
    modes: str,
    ends: tuple[float, float],
    steps: int,
    flat: Sequence[int] = (),
    penalty: float = 0.0,
) -> Case:
    how = {"modes": MODES[modes], "start": ends[0], "stop": ends[1], "steps": steps, "penalty": penalty}
    return Case(name, by_hand(targets, flat, **how))


RESTORED = ("restored.weights", "restored.parameters", "restored.buffers", "restored.modes", "restored.trained")

QUESTION = Description(
    id="03a-lrfinder",
    parts=(
        Graded("rates", 1, (RATES,), on=(FULL,)),
        Graded("losses", 3, (LOSSES,), on=(FULL,)),
        Graded("early end", 2, (RATES, LOSSES), on=(DIVERGING, NOT_FINITE, EXACT, ZERO)),
        Graded("restored", 2, RESTORED),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "empty-curve",
            "the curve is empty: no step was recorded",
            "the loop over the steps, and what it adds to the two lists",
            lambda case: {RATES: np.zeros(0), LOSSES: np.zeros(0)},
        ),
        Mistake(
            "linear-rates",
            "the rates grow by a constant difference, so nearly all of them lie in the last decade",
            "the ratio of one rate to the one before it",
            swept(spacing="linear"),
        ),
        Mistake(
            "one-step-short",
            "the last rate is one factor short of the upper end",
            "how many factors lie between the first and the last of the rates: there is one fewer than there are rates",
            swept(spacing="one step short"),
        ),
        Mistake(
            "fixed-factor",
            "the factor is 1.05 whatever the ends are: in 100 steps that covers a factor of 131",
            "which factor leads from the first rate to the last in this number of steps",
            swept(spacing="1.05"),
        ),
        Mistake(
            "loss-after-step",
            "each loss was taken after its step instead of before",
            "which weights a batch meets when its loss is recorded",
            swept(record="after"),
        ),
        Mistake(
            "never-zeroed",
            "the gradients of earlier steps are still in .grad",
            "what `backward()` adds its result to",
            swept(zero="never"),
            also=(swept(zero="never", frozen="stays"),),
        ),
        Mistake(
            "old-gradients",
            "the first step used gradients that were left from before the sweep",
            "what is in .grad before the first `backward()`",
            swept(zero="after"),
            also=(swept(zero="after", frozen="stays"),),
        ),
        Mistake(
            "frozen-moved",
            "a frozen parameter moved by a gradient that it had from before the sweep",
            "which parameters your steps move, and whose gradients you clear",
            swept(frozen="always"),
        ),
        Mistake(
            "swept-in-eval",
            "the sweep ran in eval mode, on running statistics that training does not use",
            "the mode that the model was handed over in",
            swept(mode="eval"),
            also=(swept(mode="as it came"),),
        ),
        Mistake(
            "batches-run-out",
            "the sweep ended where the batches end",
            "which batch comes after the last one",
            swept(runs="once"),
            also=(swept(runs="rounded"),),
        ),
        Mistake(
            "never-trained",
            "the rate rises and the weights stand still",
            "what should happen to the weights between two losses",
            swept(learn=False),
        ),
        Mistake(
            "kept-the-end",
            "the loss that ended the sweep was recorded as well",
            "the order of the test and of the recording",
            swept(keep_end=True),
        ),
        Mistake(
            "equal-ends",
            "the sweep ended at a loss that is exactly 4 times the lowest, and does not exceed it",
            "the comparison that ends the sweep, when both of its sides are equal",
            swept(stop="equal"),
        ),
        Mistake(
            "nan-ignored",
            "the sweep went on with a loss that is not a number",
            "what `nan > 4 * lowest` gives in Python",
            swept(stop="divergence"),
        ),
        Mistake(
            "not-the-lowest",
            "the loss was compared with the first or the last one instead of the lowest",
            "which of the losses before it counts for the end of the sweep",
            swept(than="first"),
            also=(swept(than="last"),),
        ),
        Mistake(
            "never-stops",
            "the sweep went on after the loss had diverged",
            "the loss at the step after the rate of 10, in the second case",
            swept(stop="never"),
            also=(swept(stop="not finite"), swept(stop="not finite", keep_end=True)),
        ),
        Mistake(
            "not-restored",
            "the weights afterwards are those of the last step: nothing was put back, or what was kept was no copy and "
            "followed every step",
            "whether the tensors that you kept are new ones",
            left(weights=True),
            also=tuple(left(weights=True, buffers=BUFFERS, modes=modes) for modes in ("", "train", "root")),
        ),
        Mistake(
            "buffers-lost",
            "the parameters were put back and the buffers were not: the running mean has seen the sweep",
            "what `state_dict()` holds that `parameters()` does not",
            left(buffers=BUFFERS),
            also=tuple(left(buffers=BUFFERS, modes=modes) for modes in ("train", "root")),
        ),
        Mistake(
            "buffer-outside-lost",
            "a buffer that is not in `state_dict()` was not put back",
            "what `register_buffer(…, persistent=False)` does, and what `buffers()` holds",
            left(buffers=BUFFERS[2:]),
        ),
        Mistake(
            "modes-lost",
            "a module is afterwards in another mode than before",
            "the mode of every module: `train()` and `eval()` set all below the one they are called on",
            left(modes="train"),
            also=tuple(left(modes=modes) for modes in ("root", "eval", "deep")),
        ),
    ),
    visible=(
        visible("five steps from 0.001 to 0.1, a model in eval mode", [1.0, 1.5], "eval", (1e-3, 1e-1), 5),
        visible("the rate of 100 diverges, one module in eval mode", [1.0], "mixed", (1e-3, 1e3), 7),
        visible("the third batch holds a NaN", [1.0, 1.0, np.nan], "train", (1e-3, 1e-1), 5),
        visible(
            "five labels, of which the fourth gives more than four times the lowest loss; a penalty on outputs",
            [1.0, 0.5, 0.9, 1.1, 2.1],
            "eval",
            (1e-3, 1e-2),
            6,
            penalty=0.5,
        ),
        visible(
            "the third and fourth batch hold the input 3 twice: their losses are 1 and 4",
            [1.5, 1.5, 1.0, 2.0, 1.5],
            "mixed",
            (1e-3, 1e-2),
            5,
            (2, 3),
        ),
        visible("two steps", [1.0, 1.5, 2.0], "train", (1e-2, 1e-1), 2),
    ),
    draw=draw,
    domain=domain,
    added=4,  # a case is a sweep
    facts=facts,
)
