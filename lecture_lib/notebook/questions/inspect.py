"""03b-inspect: find what is wrong with a data set before any model sees it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion

PROBLEMS = ("range", "dtype", "labels", "duplicates", "class-stacked")


def _inspect(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    arrays = [torch.tensor(inputs[name]) for name in ("x_train", "y_train", "x_val", "y_val")]
    names = functions["inspect_data"](*arrays, inputs["classes"])
    if not isinstance(names, Set):
        raise TypeError(f"inspect_data returned a {type(names).__name__}, not a set of problem names")
    unknown = set(names) - set(PROBLEMS)
    if unknown:
        raise TypeError(f"{sorted(map(repr, unknown))[0]} is not one of the names {', '.join(PROBLEMS)}")
    return {name: "reported" if name in names else "not reported" for name in PROBLEMS}


QUESTION = PublicQuestion(
    id="03b-inspect",
    title="inspect a data set",
    functions=("inspect_data",),
    parts={"problems": _inspect},
    repeatable=("inspect_data",),
)
