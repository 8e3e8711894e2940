"""03b-buckets: from sorted mistakes to the next thing to do, and which component of a pipeline to work on."""

from __future__ import annotations

from typing import Any

from ..question import Functions, Inputs, PublicQuestion


def _buckets(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rows = [list(row) for row in functions["rank_buckets"](list(inputs["mistakes"]), inputs["accuracy"])]
    if any(len(row) != 3 for row in rows):
        raise TypeError("a row of rank_buckets holds three entries: name, ceiling, intervention")
    # Looked up by name, so that a wrong order costs the order only.
    return {
        "names": [name for name, _, _ in rows],
        "ceilings": {name: ceiling for name, ceiling, _ in rows},
        "interventions": {name: intervention for name, _, intervention in rows},
    }


def _component(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    name, gain = functions["best_component"](inputs["base"], dict(inputs["alone"]))
    return {"name": name, "gain": gain}


QUESTION = PublicQuestion(
    id="03b-buckets",
    title="rank the buckets",
    functions=("rank_buckets", "best_component"),
    repeatable=("rank_buckets", "best_component"),
    parts={"buckets": _buckets, "component": _component},
    relative_tolerance=2e-4,  # numbers from 30 on that were rounded to two decimals are right
)
