"""What a program that stops with an error suffers from: the exception read as a finding."""

from __future__ import annotations

import re

from .._engine.evidence import Evidence
from .finding import Finding

# The first pattern that the exception's text matches names the fault.
TEXTS = (
    (r"Target -?\d+ is out of bounds|cur_target|label.*out of (range|bounds)", "D12"),
    (r"all elements of (input|target) should be between 0 and 1", "L05"),
    (r"second time", "G23"),
    (r"does not require grad and does not have a grad_fn", "G21"),
    (
        r"nll_loss.*not implemented for|expected scalar type (Long|Float) but found|0D or 1D target|multi-target not",
        "L10",
    ),
    (r"(target|label).*(dtype|type|Long|Int)|Expected floating point type for target", "L10"),
    (r"mat1 and mat2 shapes cannot be multiplied|size mismatch|expected input.*to have \d+ channels", "A14"),
    (r"input\.size\(-1\) must be equal to input_size|running_mean should contain|normalized_shape", "A14"),
    (r"same device|on device|device type|same dtype|same data ?type|should be the same|Long, Int|dtype", "P14"),
    (r"Expected target size|batch_size.*to match|size of (tensor|target)|must match the size", "L10"),
)


def stopped(evidence: Evidence) -> Finding | None:
    """The loud faults: the error names its cause to those who know it."""
    error = evidence.run.error
    if error is None:
        return None
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    fault = next((name for pattern, name in TEXTS if re.search(pattern, text)), "")
    where = f" ({evidence.run.line})" if evidence.run.line else ""
    return Finding(fault, f"{text[:200]}{where}", {"error": text, "line": evidence.run.line})
