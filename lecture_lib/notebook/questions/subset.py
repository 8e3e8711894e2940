"""03b-subset: does a program beat the constant answer by more than seeds differ?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..question import Functions, Inputs, PublicQuestion

FIELDS = ("gain", "spread", "holds")
NOT_LOOKED_AT = "not looked at"


def _field(name: str) -> Any:
    def run(functions: Functions, inputs: Inputs) -> dict[str, Any]:
        rung = functions["subset_rung"]
        # With a loss that is not finite the question asks for the verdict alone.
        if name != "holds" and not np.isfinite(inputs["losses"]).all():
            return {name: NOT_LOOKED_AT}
        values = rung(torch.tensor(inputs["losses"]), torch.tensor(inputs["constant"]))
        return {name: dict(zip(FIELDS, values, strict=True))[name]}

    return run


QUESTION = PublicQuestion(
    id="03b-subset",
    title="a small subset, over seeds",
    functions=("subset_rung",),
    repeatable=("subset_rung",),
    parts={name: _field(name) for name in FIELDS},
    relative_tolerance=1e-5,  # float32 is precise enough
)
