"""03b-shift: which of the distributions stayed as it was, and is it a matter of time?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion

KINDS = ("covariate", "label", "concept", "temporal")
ARRAYS = ("x_train", "y_train", "t_train", "x_val", "y_val", "t_val")


def _decision(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"kind": functions["find_shift"](*(np.array(inputs[name]) for name in ARRAYS))}


def _part(counts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels with `counts[x][y]` examples of each pair, all mixed."""
    pairs = [(x, y) for x, of_x in enumerate(counts) for y, count in enumerate(of_x) for _ in range(count)]
    step = 37  # has no common factor with the numbers of examples used here
    rows = np.array(pairs)[np.arange(len(pairs)) * step % len(pairs)]
    return rows[:, 0].copy(), rows[:, 1].copy()


def _case(
    name: str, kind: str, earlier: list[list[int]], later: list[list[int]], val: list[list[int]], **mistakes: str
) -> PublicCase:
    """Training's two halves in time and validation as counts of (x, y); `mistakes`: misconception -> its answer."""
    halves = [_part(earlier), _part(later)]
    count = len(halves[0][0])
    # Rows of the two halves take turns, so that the order of rows is not the order in time.
    x_train, y_train = (np.stack([half[side] for half in halves], axis=1).reshape(-1) for side in (0, 1))
    t_train = np.stack([np.arange(count), count + np.arange(count)], axis=1).reshape(-1)
    x_val, y_val = _part(val)
    inputs = dict(
        zip(ARRAYS, (x_train, y_train, t_train, x_val, y_val, 2 * count + np.arange(len(x_val))), strict=True)
    )
    shown = {mistake.replace("_", "-"): {"decision": {"kind": wrong}} for mistake, wrong in mistakes.items()}
    return PublicCase(name, inputs, {"decision": {"kind": kind}}, shown)


# counts[x][y]: of the inputs 0, 1 and 2 with 10, 50 and 90 % of class 1 in _SAME.
_SAME = [[36, 4], [20, 20], [2, 18]]
_OTHER_INPUTS = [[18, 2], [10, 10], [6, 54]]
_FLIPPED = [[4, 36], [20, 20], [18, 2]]

QUESTION = PublicQuestion(
    id="03b-shift",
    title="find the shift",
    functions=("find_shift",),
    parts={"decision": _decision},
    cases=(
        _case(
            "nothing but the dates differs", "none", _SAME, _SAME, _SAME,
            rows_for_time="temporal", later_is_temporal="temporal", always_covariate="covariate",
        ),
        _case(
            "other inputs, and with them other shares of the classes", "covariate", _SAME, _SAME, _OTHER_INPUTS,
            always_none="none", label_by_share="label", concept_by_x_given_y="concept", later_is_temporal="temporal",
        ),
        _case(
            "other shares of the classes, and with them other inputs", "label",
            [[36, 18], [18, 9], [6, 33]], [[36, 18], [18, 9], [6, 33]], [[18, 36], [9, 18], [3, 66]],
            always_none="none", covariate_by_input="covariate", concept_by_relation="concept",
            later_is_temporal="temporal", always_covariate="covariate",
        ),
        _case(
            "the same inputs, other labels", "concept", _SAME, _SAME, _FLIPPED,
            always_none="none", always_covariate="covariate", later_is_temporal="temporal",
        ),
        _case(
            "inputs that change within training, and go on changing", "temporal", _SAME, _OTHER_INPUTS,
            [[9, 1], [10, 10], [6, 54]],
            always_none="none", never_temporal="covariate", rows_for_time="covariate", always_covariate="covariate",
        ),
    ),
    misconceptions={
        "always-none": Misconception(
            "no shift was found in any of the cases",
            "the shares in the two parts of the second case, beside each other",
        ),
        "always-covariate": Misconception(
            "the same kind was named for every case",
            "the first case, in which all shares are the same",
        ),
        "label-by-share": Misconception(
            "a changed share of the classes was called label shift; other inputs bring other shares too",
            "whether each class looks as before: the inputs within a class",
        ),
        "covariate-by-input": Misconception(
            "changed inputs were called covariate shift; other shares of the classes bring other inputs too",
            "whether alike inputs still have the same labels",
        ),
        "concept-by-relation": Misconception(
            "a changed P(y | x) was called concept shift; other shares of the classes change it too",
            "whether the inputs as a whole stayed as they were",
        ),
        "concept-by-x-given-y": Misconception(
            "a changed P(x | y) was called concept shift",
            "which of the two conditionals says what an input's label is",
        ),
        "later-is-temporal": Misconception(
            "validation was called drifted because it is later; in every case it is",
            "the two halves of training in time, beside each other",
        ),
        "never-temporal": Misconception(
            "time was not looked at: what changes inside training was taken for a difference between the parts",
            "the two halves of training in time, beside each other",
        ),
        "rows-for-time": Misconception(
            "the halves of training were made by row; the rows are not in the order of time",
            "what the column of times is for",
        ),
    },
)  # fmt: skip
