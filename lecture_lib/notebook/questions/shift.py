"""03b-shift: which of the distributions stayed as it was, and is it a matter of time?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Functions, Inputs, PublicQuestion

KINDS = ("covariate", "label", "concept", "temporal")
ARRAYS = ("x_train", "y_train", "t_train", "x_val", "y_val", "t_val")


def named(word: str) -> dict[str, str]:
    """The word, and for each kind whether it is the one that was named: a wrong word costs the kinds it concerns."""
    return {"word": word, **{kind: "named" if kind == word else "not named" for kind in KINDS}}


def _decision(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    word = functions["find_shift"](*(np.array(inputs[name]) for name in ARRAYS))
    if word not in (*KINDS, "none"):
        raise TypeError(f"{word!r} is not one of the words {', '.join(KINDS)}, none")
    return named(str(word))


QUESTION = PublicQuestion(
    id="03b-shift",
    title="find the shift",
    functions=("find_shift",),
    repeatable=("find_shift",),
    parts={"decision": _decision},
)
