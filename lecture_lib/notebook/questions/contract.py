"""03a-contract: say what keeps a batch from meeting the contract, before any model sees it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, PublicQuestion

PROBLEMS = ("x.shape", "x.dtype", "x.range", "y.shape", "y.dtype")


def _check(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    # Pixels often lie in memory with the channels last, so x is not contiguous.
    x, y = torch.from_numpy(np.array(inputs["x"], order="F")), torch.tensor(inputs["y"])
    y = torch.stack([y, y], dim=-1)[..., 0]  # as a column of a table, so y is not contiguous either
    # Plain data have no bfloat16: it is made here.
    problems = functions["check_batch"](x.bfloat16() if inputs["bfloat16"] else x, y)
    if not isinstance(problems, Set | list | tuple):
        raise TypeError(f"check_batch returned a {type(problems).__name__}, not a set of problem names")
    if unknown := set(problems) - set(PROBLEMS):
        raise ValueError(f"check_batch returned {unknown}; the names are {', '.join(PROBLEMS)}")
    return {name: "reported" if name in problems else "not reported" for name in PROBLEMS}


QUESTION = PublicQuestion(
    id="03a-contract",
    title="check a batch against its contract",
    functions=("check_batch",),
    parts={"problems": _check},
    ready_made=("lecture_lib.data.check_contract", "lecture_lib.data.contract.check_contract"),
    repeatable=("check_batch",),
)
