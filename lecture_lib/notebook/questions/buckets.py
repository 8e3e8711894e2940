"""03b-buckets: from sorted mistakes to the next thing to do, and which component of a pipeline to work on."""

from __future__ import annotations

from typing import Any

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

INTERVENTIONS = {
    "blur": "augment",
    "rare class": "collect-or-reweight",
    "ambiguous label": "clean-labels",
    "background shortcut": "change-backgrounds",
    "threshold": "tune-threshold",
}
OTHER = "look-at-ten"
FIELDS = ("names", "ceilings", "interventions")


def _buckets(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    rows = [list(row) for row in functions["rank_buckets"](list(inputs["mistakes"]), inputs["accuracy"])]
    if any(len(row) != len(FIELDS) for row in rows):
        raise TypeError("a row of rank_buckets holds three entries: name, ceiling, intervention")
    return {field: [row[position] for row in rows] for position, field in enumerate(FIELDS)}


def _component(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    name, gain = functions["best_component"](inputs["base"], dict(inputs["alone"]))
    return {"name": name, "gain": gain}


def _expected(ceilings: dict[str, float], name: str, gain: float) -> dict[str, dict[str, Any]]:
    actions = [INTERVENTIONS.get(bucket, OTHER) for bucket in ceilings]
    buckets = {"names": list(ceilings), "ceilings": list(ceilings.values()), "interventions": actions}
    return {"buckets": buckets, "component": {"name": name, "gain": gain}}


# 100 mistakes of a model with 82 % accuracy; the counts are the lecture's.
_COUNTS = {"threshold": 8, "rare class": 14, "blur": 32, "ambiguous label": 18, "background shortcut": 28}
_RANKED = ["blur", "background shortcut", "ambiguous label", "rare class", "threshold"]
_TIES = ["rare class", "blur", "glare", "blur", "rare class", "rare class", "glare", "blur", "blur", "rare class"]

QUESTION = PublicQuestion(
    id="03b-buckets",
    title="rank the buckets",
    functions=("rank_buckets", "best_component"),
    parts={"buckets": _buckets, "component": _component},
    relative_tolerance=1e-4,  # ceilings around 90 that were rounded to two decimals are right
    cases=(
        PublicCase(
            name="the lecture's numbers: 32, 28, 18, 14, 8; 82 to 83, 91, 83",
            inputs={
                "mistakes": [name for name, count in _COUNTS.items() for _ in range(count)],
                "accuracy": 82.0,
                "base": 82.0,
                "alone": {"detect": 83.0, "align": 91.0, "read": 83.0},
            },
            expected=_expected(
                dict(zip(_RANKED, (87.76, 87.04, 85.24, 84.52, 83.44), strict=True)), "align", 9.0
            ),
            mistakes={
                "first-come": {"buckets": {"names": list(_COUNTS)}},
                "alphabetical": {"buckets": {"names": sorted(_COUNTS)}},
                "ascending": {"buckets": {"names": _RANKED[::-1]}},
                "share-added": {"buckets": {"names": _RANKED, "ceilings": [114.0, 110.0, 100.0, 96.0, 90.0]}},
                "share-for-ceiling": {"buckets": {"names": _RANKED, "ceilings": [32.0, 28.0, 18.0, 14.0, 8.0]}},
                "one-for-all": {"buckets": {"names": _RANKED, "interventions": ["augment"] * 5}},
                "neighbours": {"component": {"name": "align", "gain": 8.0}},
                "accuracy-for-gain": {"component": {"name": "align", "gain": 91.0}},
            },
        ),
        PublicCase(
            name="ties, and a bucket that is not in the table",
            inputs={
                "mistakes": _TIES,
                "accuracy": 90.0,
                "base": 90.0,
                "alone": {"segment": 93.0, "classify": 93.0, "merge": 91.0},
            },
            expected=_expected({"blur": 94.0, "rare class": 94.0, "glare": 92.0}, "segment", 3.0),
            mistakes={
                "ties-as-met": {"buckets": {"names": ["rare class", "blur", "glare"]}},
                "ascending": {"buckets": {"names": ["glare", "blur", "rare class"]}},
                "share-added": {"buckets": {"ceilings": [130.0, 130.0, 110.0]}},
                "share-for-ceiling": {"buckets": {"ceilings": [40.0, 40.0, 20.0]}},
                "one-for-all": {"buckets": {"interventions": ["augment"] * 3}},
                "last-of-ties": {"component": {"name": "classify", "gain": 3.0}},
            },
        ),
    ),
    misconceptions={
        "constant-answer": Misconception(
            "the same buckets came back for every list of mistakes",
            "where the names and the counts come from: both are in the arguments",
        ),
        "first-come": Misconception(
            "the buckets come in the order in which the mistakes were met",
            "by what the buckets are to be ordered",
        ),
        "alphabetical": Misconception(
            "the buckets are ordered by name; the name decides between equal counts only",
            "by what the buckets are to be ordered first",
        ),
        "ascending": Misconception(
            "the smallest bucket comes first",
            "the direction of the order",
        ),
        "ties-as-met": Misconception(
            "buckets of equal size stand in the order in which they were met",
            "what the question says about equal counts",
        ),
        "share-added": Misconception(
            "a bucket's share of the mistakes was added to the accuracy as it is",
            "how many of 100 examples are mistakes at all, and which part of these the bucket holds",
        ),
        "share-for-ceiling": Misconception(
            "the share of the mistakes was returned; a ceiling is an accuracy",
            "the accuracy that is left to win, and which part of it the bucket holds",
        ),
        "one-for-all": Misconception(
            "every bucket has the same intervention",
            "what each kind of mistake asks for",
        ),
        "last-of-ties": Misconception(
            "of equal gains the last was taken",
            "what the question says about equal gains",
        ),
        "neighbours": Misconception(
            "each accuracy was compared with its neighbour; in this table one component alone is perfect in each row",
            "what every row of the table is to be compared with",
        ),
        "accuracy-for-gain": Misconception(
            "the accuracy was returned; a gain is a difference",
            "what the component adds to the accuracy that is there already",
        ),
    },
)  # fmt: skip
