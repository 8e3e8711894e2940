"""03a-recipe: trained weights judged on data that the student's process never had, and a record that is true.

The network is computed here from its published weights, in NumPy. What the record says is recomputed where it can be:
the ids from the data, the best row's loss and accuracy from the weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from lecture_lib.experiments import content_id
from lecture_lib.notebook.questions.recipe import CHANCE_FREE, HIDDEN, LEARNED_BY_HEART

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, value, why_none

ID = "03a-recipe"
PARTS = (
    ("held-out accuracy", 2.0),
    ("same seed", 1.0),
    ("config, seed and data", 1.0),
    ("code and environment", 1.0),
    ("metrics", 1.0),
)
ACCURACY = 0.62  # right answers reach 0.75 and more, chance is a third at most
TOLERANCE = 1e-3
_FEATURES = 32
_Pair = tuple[HiddenCase, Observation]
_Wrong = tuple[str, str | None]  # what is wrong, and the misconception's id


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two data sets with a fifth of wrong labels each; the held-out points, rightly labelled, are the key."""
    return [_case(rng, repeat) for repeat in (True, False)]


def _case(rng: np.random.Generator, repeat: bool) -> HiddenCase:
    classes = int(rng.integers(3, 6))
    directions, _ = np.linalg.qr(rng.normal(size=(_FEATURES, classes)))
    centres = 6.0 * directions.T
    truth = rng.permutation(np.arange(180) % classes)
    rows = rng.permutation(180)
    wrong = np.zeros(180, dtype=bool)
    wrong[rows[::5]] = True  # the same share in both parts: nobody can be right on more than that by honest means
    y = np.where(wrong, (truth + rng.integers(1, classes, 180)) % classes, truth)
    inputs = {
        "x": _points(rng, centres, truth),
        "y": y,
        "split": [rows[:120], rows[120:]],
        "classes": classes,
        "repeat": repeat,
        "config": {
            "epochs": int(rng.integers(15, 19)),
            "batch_size": int(rng.choice([20, 24, 30])),
            "learning_rate": float(rng.choice([0.03, 0.04, 0.05])),
            "seed": int(rng.integers(1000, 10**6)),
        },
    }
    held_out = rng.permutation(np.arange(600) % classes)
    return HiddenCase(f"{classes} classes", inputs, (_points(rng, centres, held_out), held_out))


def _points(rng: np.random.Generator, centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return (centres[labels] + rng.normal(size=(len(labels), _FEATURES))).astype(np.float32)


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part; without trained weights nothing is earned for repeating them or for naming a machine."""
    pairs = list(zip(cases, observations, strict=True))
    graders = (_accuracy, _same_seed, _identity, _environment, _metrics)
    wrong = [next(filter(None, (grader(pair) for pair in pairs)), None) for grader in graders]
    for position in (1, 3):
        if wrong[0] is not None:
            wrong[position] = ("nothing to judge without trained weights", wrong[0][1])
    parts = tuple(
        Part(
            name, points if found is None else 0.0, points, "right on 2 hidden data sets" if found is None else found[0]
        )
        for (name, points), found in zip(PARTS, wrong, strict=True)
    )
    return Verdict(ID, parts, misconception=next((found[1] for found in wrong if found is not None), None))


def _accuracy(pair: _Pair) -> _Wrong | None:
    case, seen = pair
    weights = _weights(case, _fields(seen, "run").get("weights"))
    if weights is None:
        return (_why(seen, "run", "no weights of the network that was asked for"), None)
    points, labels = case.key
    share = float((_scores(weights, points).argmax(1) == labels).mean())
    if share >= ACCURACY:
        return None
    known = "untrained" if share < CHANCE_FREE else None
    return (f"{100 * share:.0f} % right on held-out points, at least {100 * ACCURACY:.0f} % wanted", known)


def _same_seed(pair: _Pair) -> _Wrong | None:
    case, seen = pair
    if not case.inputs["repeat"]:
        return None
    again = _fields(seen, "again")
    first, same, other = (
        _weights(case, found) for found in (_fields(seen, "run").get("weights"), again.get("same"), again.get("next"))
    )
    if first is None or same is None or other is None:
        return (_why(seen, "again", "no weights of a second run"), None)
    if not _equal(first, same):
        return ("two runs with one seed gave different weights", "unseeded")
    return ("another seed gave the same weights", "seed-ignored") if _equal(first, other) else None


def _identity(pair: _Pair) -> _Wrong | None:
    case, seen = pair
    record, inputs = _record(seen), case.inputs
    config = record.get("config")
    wanted = inputs["config"]
    if not isinstance(config, dict) or any(not _is(config.get(name), wanted[name]) for name in wanted):
        return (_why(seen, "run", "config does not hold the settings of the run"), "config-missing")
    if not _is(record.get("seed"), wanted["seed"]):
        return ("seed is not the run's", "seed-missing")
    if record.get("data_id") != content_id(inputs["x"], inputs["y"]):
        return ("data_id is not the content_id of the data", "data-id-missing")
    if record.get("split_id") != content_id(*inputs["split"]):
        return ("split_id is not the content_id of the split", None)
    return None


def _environment(pair: _Pair) -> _Wrong | None:
    seen = pair[1]
    record, here = _record(seen), _fields(seen, "run").get("here")
    code, machine = record.get("code"), record.get("hardware")
    if not isinstance(code, dict) or not isinstance(code.get("commit") or code.get("reason"), str):
        return (_why(seen, "run", "code names neither a commit nor why there is none"), "code-missing")
    # The probe reports the versions of the process that ran; only their form can be checked here.
    if not isinstance(here, dict) or not all(
        re.match(r"\d+\.\d+", str(here.get(name))) for name in ("python", "torch")
    ):
        return ("the versions of the process are unknown", None)
    if not isinstance(machine, dict) or any(machine.get(name) != here[name] for name in ("python", "torch")):
        return ("hardware does not hold the versions of Python and torch", "environment-missing")
    if record.get("precision") != "fp32":
        return ("precision is not 'fp32'", None)
    return None if record.get("status") == "finished" else ("status is not 'finished'", "unfinished")


def _metrics(pair: _Pair) -> _Wrong | None:
    case, seen = pair
    run = _fields(seen, "run")
    weights, losses, shares = _weights(case, run.get("weights")), run.get("val_loss"), run.get("val_metric")
    if weights is None or not isinstance(losses, np.ndarray) or not isinstance(shares, np.ndarray):
        return (_why(seen, "run", "no rows of metrics"), None)
    epochs = case.inputs["config"]["epochs"]
    if losses.shape != (epochs,) or shares.shape != (epochs,) or not np.isfinite(losses).all():
        known = {0: "metrics-missing", 1: "metrics-once"}.get(losses.size)
        return (f"{losses.size} rows with val_loss and {shares.size} with val_metric, one an epoch is wanted", known)
    loss, share = _validation(case, weights)
    if share > LEARNED_BY_HEART:
        return ("the wrong labels of the validation rows were learned too", "trained-on-validation")
    best = int(losses.argmin())
    if abs(loss - losses[best]) > TOLERANCE * max(1.0, loss):
        return ("the weights do not have the lowest val_loss that the record tells", "last-not-best")
    if abs(share - shares[best]) > TOLERANCE:
        return ("the val_metric of the best row is not the share that the weights get right", None)
    return None


def _fields(seen: Observation, part: str) -> dict[str, Any]:
    return dict(value(seen, part) or {})


def _record(seen: Observation) -> dict[str, Any]:
    record = _fields(seen, "run").get("record")
    return record if isinstance(record, dict) else {}


def _why(seen: Observation, part: str, otherwise: str) -> str:
    return why_none(seen, part) if value(seen, part) is None else otherwise


def _is(found: Any, wanted: float) -> bool:
    return isinstance(found, np.ndarray) and found.shape == () and found.dtype.kind in "if" and float(found) == wanted


def _weights(case: HiddenCase, found: Any) -> list[np.ndarray] | None:
    """The published weights in float64 when they are finite and of the network's shapes."""
    classes = case.inputs["classes"]
    shapes = [(HIDDEN, _FEATURES), (HIDDEN,), (classes, HIDDEN), (classes,)]
    if not isinstance(found, list) or not all(isinstance(part, np.ndarray) for part in found):
        return None
    if [part.shape for part in found] != shapes or not all(part.dtype.kind == "f" for part in found):
        return None
    weights = [part.astype(np.float64) for part in found]
    return weights if all(np.isfinite(part).all() for part in weights) else None


def _scores(weights: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The network's outputs [N, classes] for points [N, features]."""
    hidden = np.maximum(x @ weights[0].T + weights[1], 0)
    return np.asarray(hidden @ weights[2].T + weights[3])


def _validation(case: HiddenCase, weights: list[np.ndarray]) -> tuple[float, float]:
    """Mean cross-entropy (nats) and share right on the validation rows, with their labels as given."""
    rows = case.inputs["split"][1]
    scores, labels = _scores(weights, case.inputs["x"][rows]), case.inputs["y"][rows]
    scores = scores - scores.max(1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return float(-logs[np.arange(len(labels)), labels].mean()), float((scores.argmax(1) == labels).mean())


def _equal(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
