"""03b-curves: read a run's two loss curves, and say what to do next."""

from __future__ import annotations

from typing import Any

from ..question import Functions, Inputs, PublicQuestion

LABELS = ("diverging", "dead", "oscillating", "under", "leak", "over", "sweet spot")
ACTIONS = ("lower-rate", "overfit-one-batch", "larger-model", "check-split", "regularise", "error-analysis")


def told(label: Any) -> dict[str, Any]:
    """A label, and of each one whether it was given: a label earns points by itself."""
    labels = {name: "given" if isinstance(label, str) and label == name else "not given" for name in LABELS}
    return {"label": label, **labels}


def _diagnosis(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    label, action = functions["diagnose_curves"](inputs["train_loss"], inputs["val_loss"])
    return {**told(label), "action": action}


QUESTION = PublicQuestion(
    id="03b-curves",
    title="diagnose curves",
    functions=("diagnose_curves",),
    parts={"diagnosis": _diagnosis},
    repeatable=("diagnose_curves",),
)
