"""03a-metric: a loss, an accuracy and a macro F1 over a validation set in batches, and the model that each prefers."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion


def _measure(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    pairs = zip(inputs["logits"], inputs["labels"], strict=True)
    batches = [(torch.tensor(logits), torch.tensor(labels)) for logits, labels in pairs]
    functions["measure"](batches)
    # Once more, with the same tensors: what the first call left in them, or in a default argument, shows.
    loss, accuracy, macro_f1 = functions["measure"](batches)
    return {"loss": loss, "accuracy": accuracy, "macro F1": macro_f1}


def _preferred(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"models": list(functions["preferred"]([tuple(row) for row in inputs["measured"]]))}


QUESTION = PublicQuestion(
    id="03a-metric",
    title="measure a validation set, choose a model",
    functions=("measure", "preferred"),
    parts={"measure": _measure, "preferred": _preferred},
    repeatable=("preferred",),
    ready_made=(
        "lecture_lib.analysis.metrics.macro_f1",
        "sklearn.metrics.f1_score",
        "sklearn.metrics.precision_recall_fscore_support",
        "sklearn.metrics.classification_report",
    ),
    relative_tolerance=1e-5,  # sums kept in float32 are right too
)
