"""03a-train: the weights after training, the validation losses, and the best epoch's weights, copied.

The reference is least squares with momentum by hand in NumPy. The network is a sum of linear branches, of which
training sees the first only: the second is behind a dropout that drops everything, and back in eval mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..verdict import Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_field

ID = "03a-train"
PARTS = (("weights", 4.0), ("validation losses", 2.0), ("best weights", 3.0))
TOLERANCE = 1e-6  # losses kept in float32 are right too; the known mistakes are at least 1e-2 away
_FIELD = {"weights": "last", "validation losses": "losses", "best weights": "best"}
_APART = 1e-2
_FEATURES = 3


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Runs of five to seven epochs whose best one is in the middle, with and without momentum."""
    cases = []
    for momentum in (0.0, 0.5, 0.8):
        case = _case(rng, momentum)
        while not _tells_mistakes_apart(case):
            case = _case(rng, momentum)
        cases.append(case)
    return cases


def _case(rng: np.random.Generator, momentum: float) -> HiddenCase:
    epochs = int(rng.integers(5, 8))
    true_weight = rng.normal(size=_FEATURES)
    sizes = [int(size) for size in rng.integers(4, 8, size=3)]
    x = [rng.normal(size=(size, _FEATURES)) for size in sizes]
    x_val = [rng.normal(size=(8, _FEATURES)) for _ in range(2)]  # of equal size: 03a-evaluate asks about unequal ones
    inputs: dict[str, Any] = {
        "x": x,
        "y": [(rows @ true_weight)[:, None] + 0.1 * rng.normal(size=(len(rows), 1)) for rows in x],
        "weights": np.stack([rng.normal(size=_FEATURES), rng.normal(size=_FEATURES)]),
        "training": momentum != 0.5,
        "learning_rate": float(rng.uniform(0.03, 0.06)),
        "momentum": momentum,
        "afterwards": float(rng.uniform(5.0, 9.0)),
        "epochs": epochs,
        "x_val": x_val,
        "y_val": [np.zeros((8, 1)) for _ in x_val],
    }
    # What the model says after an epoch in the middle, so that this epoch is the best one.
    middle = run(HiddenCase("", {**inputs, "epochs": int(rng.integers(2, epochs - 1))}))["last"].sum(axis=0)
    inputs["y_val"] = [(rows @ middle)[:, None] + 0.1 * rng.normal(size=(8, 1)) for rows in x_val]
    return HiddenCase("with momentum" if momentum else "without momentum", inputs)


def _tells_mistakes_apart(case: HiddenCase) -> bool:
    """Whether the best epoch is in the middle by a margin, and every mistake shows."""
    losses = run(case)["losses"]
    best = int(np.argmin(losses))
    if not 0 < best < len(losses) - 1 or sorted(losses)[1] - losses[best] < _APART:
        return False
    in_train_mode = run(case, validate="train")["losses"]
    if int(np.argmin(in_train_mode)) in (best, int(np.argmax(losses))) or int(np.argmax(losses)) == len(losses) - 1:
        return False
    lasts = [run(case)["last"], *(run(case, **how)["last"] for how in _WEIGHTS.values())]  # type: ignore[arg-type]
    gaps = [float(np.abs(a - b).max()) for i, a in enumerate(lasts) for b in lasts[:i]]
    return bool(np.isfinite(lasts).all()) and min(gaps) > _APART


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """All of a part's points when it agrees with the reference in every case."""
    found = list(zip(cases, observations, strict=True))
    parts = tuple(
        grade_part(
            name,
            maximum,
            found,
            lambda seen, field=_FIELD[name]: read_field(seen, "run", field),  # type: ignore[misc]
            lambda case, field=_FIELD[name]: run(case)[field],  # type: ignore[misc]
            TOLERANCE,
        )
        for name, maximum in PARTS
    )
    wrong = {part.name for part in parts if part.points < part.maximum}
    return Verdict(ID, parts, misconception=_misconception(wrong, found))


_WEIGHTS: dict[str, dict[str, str]] = {
    "never-zeroed": {"zero": "never"},
    "never-moves": {"zero": "before the step"},
    "step-before-backward": {"step": "before forward"},
    "stays-in-eval": {"train": "first epoch"},
}
_BEFORE_BACKWARD = {"step": "before backward"}  # with the gradient of the forward pass before the step


def _misconception(wrong: set[str], found: list[tuple[HiddenCase, Observation]]) -> str | None:
    def seen(name: str) -> list[tuple[HiddenCase, Any]]:
        return [(case, read_field(observation, "run", _FIELD[name])[0]) for case, observation in found]

    known = None
    if "weights" in wrong:
        known = first_match(
            [
                *((name, lambda case, how=how: run(case, **how)["last"]) for name, how in _WEIGHTS.items()),
                ("step-before-backward", lambda case: run(case, **_BEFORE_BACKWARD)["last"]),  # type: ignore[arg-type]
                ("ended-with-best", lambda case: run(case)["best"]),
            ],
            seen("weights"),
            TOLERANCE,
        )
    if known is None and "validation losses" in wrong:
        simulated = [("validated-in-train-mode", lambda case: run(case, validate="train")["losses"])]
        known = first_match(simulated, seen("validation losses"), TOLERANCE)
    if known is None and "best weights" in wrong:
        known = first_match(
            [
                ("alias", lambda case: np.full((2, _FEATURES), case.inputs["afterwards"])),
                ("last-kept", lambda case: run(case)["last"]),
                ("worst-kept", lambda case: run(case)["worst"]),
            ],
            seen("best weights"),
            TOLERANCE,
        )
    return known


def run(
    case: HiddenCase,
    *,
    zero: Literal["before backward", "never", "before the step"] = "before backward",
    step: Literal["after backward", "before backward", "before forward"] = "after backward",
    train: Literal["every epoch", "first epoch"] = "every epoch",
    validate: Literal["eval", "train"] = "eval",
) -> dict[str, Any]:
    """The run done as the arguments say: validation losses by epoch, and the last, best and worst weights [2, F]."""
    inputs = case.inputs
    weights = np.array(inputs["weights"], dtype=np.float64)
    gradient, velocity = np.zeros_like(weights), np.zeros_like(weights)
    losses, states = [], []
    x_val, y_val = (np.concatenate(inputs[name]) for name in ("x_val", "y_val"))
    for epoch in range(inputs["epochs"]):
        left_in_eval = train == "first epoch" and (epoch > 0 or not inputs["training"])
        # The branch behind dropout learns only where the model was left in eval mode.
        seen = np.array([1.0, float(left_in_eval)])[:, None]
        for x, y in zip(inputs["x"], inputs["y"], strict=True):
            before = weights
            if step != "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
            at = before if step == "before backward" else weights
            new = seen * (2 / len(x)) * (x @ (seen * at).sum(axis=0) - y[:, 0]) @ x
            gradient = {"before backward": new, "never": gradient + new, "before the step": np.zeros_like(new)}[zero]
            if step == "after backward":
                velocity = inputs["momentum"] * velocity + gradient
                weights = weights - inputs["learning_rate"] * velocity
        shown = np.array([1.0, float(validate == "eval")])[:, None]
        losses.append(float(((x_val @ (shown * weights).sum(axis=0) - y_val[:, 0]) ** 2).mean()))
        states.append(weights)
    return {
        "losses": losses,
        "last": weights,
        "best": states[int(np.argmin(losses))],
        "worst": states[int(np.argmax(losses))],
    }
