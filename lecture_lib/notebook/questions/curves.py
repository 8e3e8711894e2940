"""03b-curves: read a run's two loss curves, and say what to do next."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

LABELS = ("diverging", "dead", "oscillating", "under", "leak", "over", "sweet spot")
ACTIONS = ("lower-rate", "overfit-one-batch", "larger-model", "check-split", "regularise", "error-analysis")


def _diagnosis(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    curves = (np.array(inputs[name], dtype=np.float64) for name in ("train_loss", "val_loss"))
    label, action = functions["diagnose_curves"](*curves)
    return {"label": label, "action": action}


def _case(name: str, train: list[float], val: list[float], label: str, action: str, **mistakes: str) -> PublicCase:
    """A pair of curves; `mistakes` maps a misconception to the label that it gives them."""
    shown = {mistake.replace("_", "-"): {"diagnosis": {"label": wrong}} for mistake, wrong in mistakes.items()}
    if label in _SWAPPED:
        shown["under-for-over"] = {"diagnosis": {"label": label, "action": _SWAPPED[label]}}
    if label != "sweet spot":
        shown["always-fine"] = {"diagnosis": {"label": "sweet spot"}}
    expected = {"diagnosis": {"label": label, "action": action}}
    return PublicCase(name, {"train_loss": np.array(train), "val_loss": np.array(val)}, expected, shown)


_SWAPPED = {"under": "regularise", "over": "larger-model"}
_TRAIN = [2.0, 1.2, 0.8, 0.6, 0.5, 0.45, 0.42, 0.41, 0.4, 0.4]
_VAL = [2.0, 1.3, 0.95, 0.75, 0.65, 0.6, 0.57, 0.56, 0.55, 0.55]
_NAN = float("nan")

QUESTION = PublicQuestion(
    id="03b-curves",
    title="diagnose curves",
    functions=("diagnose_curves",),
    parts={"diagnosis": _diagnosis},
    cases=(
        _case("both fall and settle", _TRAIN, _VAL, "sweet spot", "error-analysis"),
        _case(
            "the same, with one bad epoch at the end",
            _TRAIN, [*_VAL[:-1], 1.9], "sweet spot", "error-analysis", last_epoch="over",
        ),
        _case(
            "the same, with a training loss that trembles by 2 %",
            [2.0, 1.2, 0.8, 0.6, 0.41, 0.418, 0.41, 0.418, 0.41, 0.418], _VAL,
            "sweet spot", "error-analysis", any_rise="oscillating",
        ),
        _case(
            "validation turns up, the gap is still small",
            [2.0, 1.4, 1.1, 0.9, 0.8, 0.72, 0.66, 0.6, 0.56, 0.52],
            [2.1, 1.5, 1.2, 0.95, 0.8, 0.82, 0.9, 1.0, 1.1, 1.2],
            "over", "regularise", gap_only="sweet spot",
        ),
        _case(
            "validation settles far above training",
            [2.0, 1.2, 0.7, 0.4, 0.25, 0.18, 0.14, 0.12, 0.11, 0.1],
            [2.0, 1.4, 1.0, 0.8, 0.7, 0.65, 0.62, 0.61, 0.6, 0.6],
            "over", "regularise", rise_only="sweet spot",
        ),
        _case(
            "both settle high",
            [2.0, 1.7, 1.5, 1.45, 1.42, 1.41, 1.4, 1.4, 1.4, 1.4],
            [2.0, 1.72, 1.52, 1.46, 1.43, 1.41, 1.41, 1.4, 1.4, 1.4],
            "under", "larger-model", leak_first="leak",
        ),
        _case("validation ends below training", _TRAIN, [0.7 * loss for loss in _TRAIN], "leak", "check-split"),
        _case(
            "nothing moves",
            [2.3, 2.31, 2.3, 2.29, 2.3, 2.31, 2.3, 2.3, 2.29, 2.3], [2.31] * 10,
            "dead", "overfit-one-batch", leak_first="leak",
        ),
        _case(
            "up and down by a third",
            [2.0, 1.2, 1.7, 0.9, 1.4, 0.8, 1.3, 0.8, 1.3, 0.8],
            [2.0, 1.4, 1.9, 1.0, 1.5, 0.9, 1.4, 0.9, 1.4, 0.9],
            "oscillating", "lower-rate",
        ),
        _case(
            "not a number from epoch 6 on",
            [2.0, 1.5, 1.3, 1.6, 2.6, *[_NAN] * 5], [2.0, 1.6, 1.4, 1.8, 3.0, *[_NAN] * 5],
            "diverging", "lower-rate", nan_unseen="sweet spot",
        ),
        _case(
            "ten times the start",
            [2.0, 1.8, 2.0, 3.0, 4.5, 7.0, 10.0, 14.0, 18.0, 22.0],
            [2.0, 1.9, 2.1, 3.2, 4.9, 7.5, 11.0, 15.0, 19.0, 23.0],
            "diverging", "lower-rate",
        ),
    ),
    misconceptions={
        "always-fine": Misconception(
            "every pair of curves was called a sweet spot",
            "the first condition of the list, on the pair of curves that it was made for",
        ),
        "last-epoch": Misconception(
            "one bad epoch decided: the curves were read at their last value only",
            "what the question calls the end of a curve",
        ),
        "any-rise": Misconception(
            "every small rise was counted: a loss that trembles by 2 % does not oscillate",
            "how large a rise has to be before it counts",
        ),
        "gap-only": Misconception(
            "only the gap was looked at: a validation loss that turns up was missed because the gap is still small",
            "the end of validation beside its own lowest value",
        ),
        "rise-only": Misconception(
            "only a validation loss that turns up was looked for: one that settles far above training was missed",
            "the ends of the two curves beside each other",
        ),
        "leak-first": Misconception(
            "a run that has learned little was called a leak: before there is learning both losses are alike",
            "the order of the conditions: the first one that holds decides",
        ),
        "nan-unseen": Misconception(
            "values that are no numbers went through: every comparison with NaN is false",
            "whether all values are finite, before anything is compared",
        ),
        "under-for-over": Misconception(
            "the actions for under and over are exchanged",
            "which of the two needs more from the training data, and which less",
        ),
    },
)  # fmt: skip
