"""03c-embedding: flat and sharp distributions, easy and hard triplets, pairs of different and of equal items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.special

from ..cases import Case
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
KL, TRIPLET, INFO_NCE = "kl.value", "triplet.value", "info_nce.value"
DISTINCT, REPEATED = "all items differ", "items that occur twice"


log_softmax: Callable[[Array], Array] = partial(scipy.special.log_softmax, axis=1)


def arrays(case: Case, *names: str) -> list[Array]:
    return [np.asarray(case.inputs[name], np.float64) for name in names]


def divergence(log_p: Array, log_q: Array) -> Array:
    return np.exp(log_p) * (log_p - log_q)


def by_rows(terms: Array) -> float:
    return float(terms.sum() / len(terms))


def kl(
    terms: Callable[[Array, Array], Array] = divergence,
    reduce: Callable[[Array], float] = by_rows,
    teacher_t: Callable[[float], float] = lambda t: t,
    student_t: Callable[[float], float] = lambda t: t,
    factor: Callable[[float], float] = lambda t: 1.0,
) -> Simulation:
    """KL of teacher and student with one of its parts exchanged."""

    def simulate(case: Case) -> dict[str, Any]:
        teacher, student = arrays(case, "teacher_logits", "student_logits")
        t = case.inputs["softness"]
        logs = log_softmax(teacher / teacher_t(t)), log_softmax(student / student_t(t))
        return {KL: reduce(terms(*logs)) * factor(t)}

    return simulate


def euclidean(differences: Array) -> Array:
    return np.sqrt((differences**2).sum(axis=1))


def hinged(gaps: Array) -> float:
    return float(np.maximum(gaps, 0).mean())


def triplet(
    gaps: Callable[[Array, Array, float], Array] = lambda near, far, margin: near - far + margin,
    reduce: Callable[[Array], float] = hinged,
    distance: Callable[[Array], Array] = euclidean,
) -> Simulation:
    """The triplet loss with one of its parts exchanged."""

    def simulate(case: Case) -> dict[str, Any]:
        anchors, positives, negatives = arrays(case, "anchors", "positives", "negatives")
        near, far = distance(anchors - positives), distance(anchors - negatives)
        return {TRIPLET: reduce(gaps(near, far, case.inputs["margin"]))}

    return simulate


def cosines(queries: Array, keys: Array) -> Array:
    return (queries / euclidean(queries)[:, None]) @ (keys / euclidean(keys)[:, None]).T


Mask = Callable[[Array, Array], Array]


def allowed(same: Array, own: Array) -> Array:
    return own | ~same


def info_nce(
    compared: Mask = allowed,
    positive: Mask = lambda same, own: own,
    similarity: Callable[[Array, Array], Array] = cosines,
    scale: Callable[[float], float] = lambda t: 1 / t,
    reduce: Callable[[Array], float] = lambda losses: float(losses.mean()),
    left_out: float = -np.inf,
) -> Simulation:
    """InfoNCE with one of its parts exchanged: which keys are compared, and which of them count as right.

    `left_out` is the logit of a key that is not compared.
    """

    def simulate(case: Case) -> dict[str, Any]:
        queries, keys = arrays(case, "queries", "keys")
        items = case.inputs["items"]
        same, own = items[:, None] == items, np.eye(len(items), dtype=bool)
        logits = similarity(queries, keys) * scale(case.inputs["temperature"])
        # Logits that are not normalised are too large for exp.
        total = np.logaddexp.reduce(np.where(compared(same, own), logits, left_out), axis=1)
        right = positive(same, own)
        value = reduce(total - (logits * right).sum(axis=1) / right.sum(axis=1))
        return {INFO_NCE: value if np.isfinite(value) else np.nan}

    return simulate


def both_ways(case: Case) -> dict[str, Any]:
    exchanged = Case(case.kind, {**case.inputs, "queries": case.inputs["keys"], "keys": case.inputs["queries"]})
    return {INFO_NCE: (info_nce()(case)[INFO_NCE] + info_nce()(exchanged)[INFO_NCE]) / 2}


def backwards(case: Case) -> Mapping[str, Any]:
    return info_nce()(Case(case.kind, {**case.inputs, "queries": case.inputs["keys"], "keys": case.inputs["queries"]}))


def reference(case: Case) -> dict[str, Any]:
    return {**kl()(case), **triplet()(case), **info_nce()(case)}


NAMES = ("student_logits", "teacher_logits", "anchors", "positives", "negatives", "queries", "keys")


def made(kind: str, values: dict[str, Any], items: Any, dtype: Any = np.float64) -> Case:
    tensors = {name: np.asarray(values[name], dtype) for name in NAMES}
    rest = {name: values[name] for name in ("softness", "margin", "temperature")}
    return Case(kind, {**tensors, **rest, "items": np.asarray(items, np.int64)})


def case(rng: np.random.Generator, kind: str, count: int, dtype: Any = np.float64) -> Case:
    """Easy triplets and hard ones in turn, rows of different lengths, and temperatures away from 1."""
    classes, size = (int(number) for number in rng.integers(3, 5, 2))
    student, teacher = rng.normal(0, 1.5, (2, count, classes))
    anchors = rng.normal(0, 1, (count, size))
    steps = rng.normal(size=(2, count, size))
    steps /= np.linalg.norm(steps, axis=2, keepdims=True)
    margin = float(rng.uniform(0.3, 0.8))
    # Far negatives with a distance above 2 + margin are easy; in every second triplet the positive is farther.
    near = np.resize([0.5, 1.5], count) * rng.uniform(0.9, 1.1, count)
    far = np.resize([2.8, 0.7], count) * rng.uniform(0.9, 1.1, count)
    queries, keys = rng.normal(size=(2, count, size)) * rng.uniform(0.5, 3, (2, count, 1))
    items = np.arange(count) if kind == DISTINCT else np.resize(np.arange((count + 1) // 2), count)
    values = {
        "student_logits": student, "teacher_logits": teacher, "softness": float(rng.uniform(2, 4)), "anchors": anchors,
        "positives": anchors + near[:, None] * steps[0], "negatives": anchors + far[:, None] * steps[1],
        "margin": margin, "queries": queries, "keys": keys, "temperature": float(rng.uniform(0.2, 0.6)),
    }  # fmt: skip
    return made(kind, values, rng.permutation(items) + rng.integers(5), dtype)


def confident(case: Case, rng: np.random.Generator) -> Case:
    """The same case with logits near both ends and a low temperature: probabilities are 0 but for their logarithms."""
    logits = {name: case.inputs[name] for name in NAMES[:2]}
    ends = {name: (np.sign(each) * rng.uniform(9, 10, each.shape)).astype(each.dtype) for name, each in logits.items()}
    ends["teacher_logits"][0, :2], ends["student_logits"][0, :2] = (10, -10), (-10, 10)
    return replace(case, inputs={**case.inputs, **ends, "softness": float(rng.uniform(0.1, 0.15))})


def side_by_side(case: Case, rng: np.random.Generator) -> Case:
    """The same case far from 0, with positives close to their anchors: the difference of large squares loses them."""
    anchors = np.clip(case.inputs["anchors"], -2, 2) + rng.uniform(4, 5)
    signs = rng.choice([-1, 1], (2, *anchors.shape))
    moved = {"anchors": anchors, "positives": anchors + 1e-3 * signs[0], "negatives": anchors + 0.1 * signs[1]}
    dtype = case.inputs["anchors"].dtype
    return replace(case, inputs={**case.inputs, **{name: rows.astype(dtype) for name, rows in moved.items()}})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every set has both precisions, one pair alone, an even and an odd batch, logits at the ends, close embeddings."""
    cases = [case(rng, kind, count) for kind in (DISTINCT, REPEATED) for count in (5, 6)]
    cases += [side_by_side(case(rng, DISTINCT, 4, np.float32), rng)]
    cases += [case(rng, DISTINCT, 4, np.float32), case(rng, REPEATED, 7, np.float32), case(rng, DISTINCT, 1)]
    return cases + [confident(case(rng, DISTINCT, 3, dtype), rng) for dtype in (np.float32, np.float64)]


def domain(rng: np.random.Generator) -> Case:
    """One to six rows and dimensions or twelve, entries and logits up to 10, and temperatures from 0.1 to 5.

    Items that are all equal or all different, neighbouring numbers too large for float32 or float64, equal
    distributions, equal embeddings, zeros among the entries and the ends of what numbers may be are not rare.
    """
    count, classes, size = (int(rng.choice([12, int(rng.integers(least, 7))], p=[0.12, 0.88])) for least in (1, 2, 1))
    spread = 10 ** rng.uniform(-0.5, 1)
    values: dict[str, Any] = dict(zip(NAMES[2:5], spread * rng.uniform(-1, 1, (3, count, size)), strict=True))
    values |= dict(zip(NAMES[:2], rng.uniform(-10, 10, (2, count, classes)), strict=True))
    values |= {name: rng.choice([-1, 1], (count, size)) * rng.uniform(0.1, 3, (count, size)) for name in NAMES[5:]}
    if rng.integers(6) == 0:
        values |= {name: 10 * np.sign(values[name]) for name in (*NAMES[:2], NAMES[5])}
    if rng.integers(6) == 0:
        values |= {"student_logits": values["teacher_logits"], "positives": values["anchors"]}
    if rng.integers(6) == 0:
        values |= {"negatives": values["positives"], "keys": values["queries"]}
    if size > 1 and rng.integers(4) == 0:
        for name in NAMES[2:]:
            values[name] = values[name] * (np.arange(size) != rng.integers(size))
    softness, temperature = (
        float(rng.choice([0.1, 5.0, 10 ** rng.uniform(-1, np.log10(5))], p=[0.12, 0.12, 0.76])) for _ in range(2)
    )
    margin = float(rng.choice([0.0, 3.0, rng.uniform(0, 3)], p=[0.12, 0.12, 0.76]))
    values |= {"softness": softness, "margin": margin, "temperature": temperature}
    items = [np.full(count, 3), rng.permutation(count), *[rng.integers(-2, 4, count)] * 3][rng.integers(5)]
    kind = "domain"
    if len(np.unique(items)) > 1 and rng.integers(4) == 0:
        # As floating-point numbers, two neighbours there are equal.
        kind, items = "large item numbers", items + int(rng.choice([-1, 1])) * 2 ** int(rng.choice([25, 55]))
    return made(kind, values, items, [np.float32, np.float64][rng.integers(2)])


FIRST = {
    "student_logits": [[2, 0, 0], [0, 1, 0]], "teacher_logits": [[1, 1, 0], [0, 3, 1]], "softness": 2.0,
    "anchors": [[0, 0], [1, 1]], "positives": [[3, 4], [1, 2]], "negatives": [[0, 3], [4, 5]], "margin": 0.5,
    "queries": [[3, 4], [1, 0]], "keys": [[4, 3], [0, 2]], "temperature": 0.5,
}  # fmt: skip
THREE = {
    "queries": [[1, 0], [0, 2], [1, 1]], "keys": [[2, 1], [0, 1], [-1, 1]], "student_logits": [[1, 0], [0, 2], [1, 1]],
    "teacher_logits": [[0, 0], [1, 0], [3, 0]], "anchors": [[0], [2], [1]], "positives": [[1], [2], [3]],
    "negatives": [[1.5], [5], [1]], "margin": 1.0, "temperature": 0.25, "softness": 3.0,
}  # fmt: skip

QUESTION = Description(
    id="03c-embedding",
    parts=(
        Graded("KL divergence", 4, (KL,)),
        Graded("triplet loss", 4, (TRIPLET,)),
        Graded("InfoNCE, all items differ", 3, (INFO_NCE,), on=(DISTINCT,)),
        Graded("InfoNCE, equal items", 3, (INFO_NCE,), on=(REPEATED,)),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "kl-of-probabilities",
            "`kl_div` got the student's probabilities; its first argument must be log-probabilities",
            "what PyTorch's documentation says of the input of `kl_div`",
            kl(lambda log_p, log_q: np.exp(log_p) * (log_p - np.exp(log_q))),
            also=(kl(lambda log_p, log_q: np.exp(log_p) * (log_p - np.exp(log_q)), np.mean),),
        ),
        Mistake(
            "kl-mean-of-entries",
            "the divergence was divided by the number of all entries: it is a sum over classes, a mean over examples",
            "the difference between reduction='mean' and reduction='batchmean'",
            kl(reduce=np.mean),
        ),
        Mistake(
            "kl-summed",
            "the divergence is a sum over the examples",
            "what the loss of a batch twice as large is",
            kl(reduce=np.sum),
        ),
        Mistake(
            "kl-exchanged",
            "teacher and student are exchanged: KL divergence is not symmetric",
            "which of the two distributions the logarithms are weighted by",
            kl(lambda log_p, log_q: divergence(log_q, log_p)),
        ),
        Mistake(
            "kl-cross-entropy",
            "this is the cross-entropy: the teacher's own entropy was not subtracted",
            "the loss when student and teacher agree: it is 0",
            kl(lambda log_p, log_q: -np.exp(log_p) * log_q),
        ),
        Mistake(
            "kl-without-temperature",
            "the temperature is missing, in both distributions or in one of them",
            "what the logits of each of the two are divided by",
            kl(teacher_t=lambda t: 1.0, student_t=lambda t: 1.0),
            also=(kl(teacher_t=lambda t: 1.0), kl(student_t=lambda t: 1.0)),
        ),
        Mistake(
            "kl-times-temperature",
            "the logits were multiplied by the temperature, or the loss by its square: not asked for",
            "whether a high temperature makes a distribution flat",
            kl(teacher_t=lambda t: 1 / t, student_t=lambda t: 1 / t),
            also=(kl(factor=lambda t: t**2),),
        ),
        Mistake(
            "triplet-exchanged",
            "positive and negative are exchanged, so training would push the positive away",
            "which of the two distances should be small",
            triplet(lambda near, far, margin: far - near + margin),
        ),
        Mistake(
            "triplet-without-hinge",
            "easy triplets give a negative loss: it must not fall below 0",
            "a triplet whose negative is very far away",
            triplet(reduce=np.mean),
            also=(triplet(reduce=lambda gaps: max(0.0, float(gaps.mean()))),),
        ),
        Mistake(
            "triplet-margin",
            "the margin is missing or has the wrong sign",
            "the loss of a triplet with two equal distances: it is the margin",
            triplet(lambda near, far, margin: near - far),
            also=(triplet(lambda near, far, margin: near - far - margin),),
        ),
        Mistake(
            "triplet-squared",
            "the distances were squared",
            "the unit of the margin",
            triplet(distance=lambda differences: (differences**2).sum(axis=1)),
        ),
        Mistake(
            "triplet-other-distance",
            "this is not the Euclidean distance: the magnitudes were added, or the mean was taken of the squares",
            "the distance of [0, 0] and [3, 4]: it is 5",
            triplet(distance=lambda differences: np.abs(differences).sum(axis=1)),
            also=(triplet(distance=lambda differences: np.sqrt((differences**2).mean(axis=1))),),
        ),
        Mistake(
            "triplet-mean-of-active",
            "the mean was taken over the triplets with a positive loss, or not at all",
            "how many triplets the question divides by",
            triplet(reduce=lambda gaps: float(np.maximum(gaps, 0).sum() / max(1, (gaps > 0).sum()))),
            also=(triplet(reduce=lambda gaps: float(np.maximum(gaps, 0).sum())),),
        ),
        Mistake(
            "not-normalised",
            "the rows were not brought to length 1: long rows count more",
            "what a cosine similarity divides by",
            info_nce(similarity=lambda queries, keys: queries @ keys.T),
        ),
        Mistake(
            "temperature-forgotten",
            "the similarities were not divided by the temperature, or were multiplied by it",
            "what a small temperature does to the differences between similarities",
            info_nce(scale=lambda t: 1.0),
            also=(info_nce(scale=lambda t: t),),
        ),
        Mistake(
            "positives-as-negatives",
            "keys of the query's own item count as negatives, so training would push equal items apart",
            "two rows with the same number in `items`",
            info_nce(compared=lambda same, own: np.ones_like(own)),
        ),
        Mistake(
            "mask-of-zeros",
            "the logits of the keys that are left out were set to 0, which adds e⁰ = 1 to the sum for each of them",
            "the logit at which a key has no share in a softmax",
            info_nce(left_out=0.0),
        ),
        Mistake(
            "several-positives",
            "other keys of the same item count as positives; the question leaves them out",
            "how many keys a query is compared with when its item occurs twice",
            info_nce(compared=lambda same, own: np.ones_like(own), positive=lambda same, own: same),
        ),
        Mistake(
            "own-key-left-out",
            "the query's own key is missing from the sum, so the loss can be negative",
            "the terms of the sum in the denominator",
            info_nce(compared=lambda same, own: ~own),
            also=(info_nce(compared=lambda same, own: ~same),),
        ),
        Mistake(
            "info-nce-summed",
            "InfoNCE is a sum over the queries, not a mean",
            "what the loss of a batch twice as large is",
            info_nce(reduce=lambda losses: float(losses.sum())),
        ),
        Mistake(
            "wrong-direction",
            "for each key the query was chosen (or both ways were averaged), not the key of each query",
            "which axis of the similarity matrix belongs to the keys",
            backwards,
            also=(both_ways,),
        ),
    ),
    visible=(
        made("two rows, two different items", FIRST, [0, 1]),
        made("two rows, the same item; temperature 1", {**FIRST, "temperature": 1.0, "margin": 0.0}, [4, 4]),
        made("three rows, all items differ, float32", THREE, [2, 0, 1], np.float32),
        made("three rows, the first and the last show the same item", THREE, [1, 0, 1]),
    ),
    draw=draw,
    domain=domain,
)
