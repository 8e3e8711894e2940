"""03a-train: the weights after training, the validation losses, and the best epoch's weights and buffers, copied.

The reference is least squares with momentum by hand in NumPy. The network is a sum of linear branches, of which
training sees the first only: the second is behind a dropout that drops everything, and back in eval mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation
from .train_cases import Epoch, best, column, domain, draw, run, visible, worst

LAST, LOSSES, BEST, BUFFERS = "run.last", "run.losses", "run.best", "run.best buffers"
DTYPES, BUFFER_DTYPES = "run.dtypes", "run.buffer dtypes"


def kept(epoch: Epoch) -> dict[str, np.ndarray]:
    return {BEST: epoch.weights.ravel(), BUFFERS: epoch.buffers}


def done(**how: Any) -> Simulation:
    """All that is observed of a run done so."""

    def simulate(case: Case) -> dict[str, Any]:
        epochs = run(case, **how)
        return {LOSSES: [epoch.loss for epoch in epochs], LAST: epochs[-1].weights.ravel(), **kept(best(epochs))}

    return simulate


def keeping(choose: Callable[[list[Epoch]], Epoch], **how: Any) -> Simulation:
    return lambda case: dict(kept(choose(run(case, **how))))


def alias(case: Case) -> dict[str, Any]:
    features = np.asarray(case.inputs["weights"]).shape[1]
    mean, count = np.full(features, case.inputs["afterwards"]), np.array([int(case.inputs["afterwards"])])
    return {BEST: np.concatenate([mean, mean]), BUFFERS: np.concatenate([mean, count])}


def dtypes_of(floats: str, counts: str) -> Simulation:
    """What the dtypes are when weights and mean come in one, and the count in another."""
    weights, buffers = [f"torch.{floats}"] * 2, [f"torch.{floats}", f"torch.{counts}"]
    return lambda case: {DTYPES: weights, BUFFER_DTYPES: buffers}


def lower_by(margin: float) -> Callable[[list[Epoch]], Epoch]:
    """Keeps an epoch only when its loss is lower by more than a margin than that of the epoch kept before."""

    def choose(epochs: list[Epoch]) -> Epoch:
        kept = epochs[0]
        for epoch in epochs:
            kept = epoch if epoch.loss < kept.loss - margin else kept
        return kept

    return choose


def after_zero(epochs: list[Epoch]) -> Epoch:
    """The best epoch, where a lowest loss of 0 counts as none."""
    kept = epochs[0]
    for epoch in epochs:
        kept = epoch if kept.loss == 0 or epoch.loss < kept.loss else kept
    return kept


def below_previous(epochs: list[Epoch]) -> Epoch:
    """The last epoch whose loss is below that of the epoch before."""
    falls = np.diff([epoch.loss for epoch in epochs]) < 0
    return epochs[int(np.flatnonzero(falls).max(initial=-1)) + 1]


QUESTION = Description(
    id="03a-train",
    parts=(
        Graded("weights", 4, (LAST,)),
        Graded("validation losses", 2, (LOSSES,)),
        Graded("best weights", 2, (BEST, DTYPES)),
        Graded("best buffers", 1, (BUFFERS, BUFFER_DTYPES), needs="best weights"),
    ),
    reference=lambda case: {**done()(case), **dtypes_of("float64", "int64")(case)},
    mistakes=(
        Mistake(
            "never-zeroed",
            "a step used the gradients of batches before it as well",
            "what backward() does to a .grad that is not empty",
            done(zero="never"),
            also=(done(zero="once an epoch"),),
        ),
        Mistake(
            "never-moves",
            "the weights are those that the model came with",
            "what is in .grad at the moment of the step",
            lambda case: {LAST: np.ravel(case.inputs["weights"])},
        ),
        Mistake(
            "step-before-backward",
            "each step used the gradient of the batch before, and the last gradient was never used",
            "which of backward() and step() comes first",
            done(step="before forward"),
            also=(done(step="before backward"),),
        ),
        Mistake(
            "stays-in-eval",
            "in some of the epochs the model was trained in eval mode, with dropout switched off",
            "the model's mode when the first epoch begins, and when the second one does",
            done(train="never"),
            also=(done(train="before the loop"), done(train="after an epoch")),
        ),
        Mistake(
            "ended-with-best",
            "the best weights were put back into the model, which should keep its last ones",
            "what the model should end with, and what is returned beside it",
            lambda case: {LAST: best(run(case)).weights.ravel()},
        ),
        Mistake(
            "called-twice",
            "the model was called twice for a batch in train mode, so its buffers changed twice",
            "every call of the model while it is in train mode",
            done(calls=2),
        ),
        Mistake(
            "arguments-exchanged",
            "the loss was given its two arguments in the wrong order; only a symmetric loss forgives that",
            "the order of arguments in loss_fn(model(x), y)",
            done(exchanged=("training", "validation")),
            also=(done(exchanged=("training",)), done(exchanged=("validation",))),
        ),
        Mistake(
            "validated-in-train-mode",
            "the validation losses were measured in train mode, with dropout dropping",
            "the mode in which the model sees the validation batches",
            done(validate="train"),
        ),
        Mistake(
            "batches-left-out",
            "not every validation batch is in the validation losses",
            "what is carried from one pass of the loop over the validation batches to the next, and the shortest batch",
            done(mean="last batch"),
            also=(done(mean="whole batches"),),
        ),
        Mistake(
            "mean-of-batches",
            "the batches' means were averaged, so an example of a short validation batch counts more than another",
            "how many examples each batch's mean stands for",
            done(mean="batches"),
            also=(keeping(best, mean="batches"),),
        ),
        Mistake(
            "alias",
            "an entry of what you returned is the model's own tensor: it changed when the model changed",
            "whether state_dict() copies anything",
            alias,
            also=(lambda case: {BUFFERS: np.append(best(run(case)).buffers[:-1], alias(case)[BUFFERS][-1])},),
        ),
        Mistake(
            "last-kept",
            "the weights that you returned are those of the last epoch, which is not the best one",
            "when the copy is made, and what is compared before it",
            keeping(lambda epochs: epochs[-1]),
        ),
        Mistake(
            "previous-compared",
            "the loss was compared with that of the epoch before, and not with the lowest so far",
            "what the loss of an epoch is compared with",
            keeping(below_previous),
        ),
        Mistake(
            "needs-a-margin",
            "a loss that is lower by very little was not taken for the lowest",
            "the condition under which you copy the weights",
            keeping(lower_by(1e-4)),
        ),
        Mistake(
            "zero-is-none",
            "a lowest loss of exactly 0 was taken for no loss at all",
            "what `not 0.0` gives, and how your function knows that there is no best epoch yet",
            keeping(after_zero),
        ),
        Mistake(
            "float32",
            "the weights that you returned are float32, and those of the model are float64",
            "what turns numbers into tensors again, and which dtype that gives",
            lambda case: {DTYPES: ["torch.float32"] * 2},
            also=(dtypes_of("float32", "float32"), dtypes_of("float32", "int64")),
        ),
        Mistake(
            "worst-kept",
            "the weights that you returned are those of the epoch with the highest validation loss",
            "in which direction the comparison goes",
            keeping(worst),
        ),
        Mistake(
            "buffers-left-out",
            "the best weights that you returned have no buffers: state_dict() has more than the parameters",
            "which names model.state_dict() has",
            lambda case: {BUFFERS: "a dict without tracker.running_mean", BUFFER_DTYPES: ["missing"] * 2},
        ),
        Mistake(
            "count-as-float",
            "a buffer that you returned is not of its own dtype: the count of batches is a whole number",
            "the dtype of every entry of model.state_dict()",
            lambda case: {BUFFER_DTYPES: ["torch.float64"] * 2},
            also=(lambda case: {BUFFER_DTYPES: ["torch.float32"] * 2},),
        ),
    ),
    visible=(
        visible("one batch (1, 1), three epochs, validation (1, 1.75)", [column(1)], [column(1.75)]),
        visible(
            "validation (1, 1.7), momentum 0.5, the model in eval mode when it comes; each loss is lowered by 4",
            [column(1)],
            [column(1.7)],
            momentum=0.5,
            training=False,
            lowered=4.0,
        ),
        visible("validation (1, 1.62501): two losses are nearly the same", [column(1)], [column(1.62501)]),
        visible(
            "validation batches of three and of one; errors above the target count 3 times",
            [column(1, 1, 1), column(1)],
            [column(1.5, 1.5, 1.5), column(2.2)],
            above=3.0,
        ),
        visible(
            "two training batches, momentum 0.9: the loss falls below 2.3 and rises, twice",
            [column(1, 1)],
            [column(0.5, 3.5)],
            x=[column(1)] * 2,
            y=[column(1)] * 2,
            momentum=0.9,
            epochs=6,
        ),
    ),
    draw=draw,
    domain=domain,
    added=6,  # a case is a training
)
