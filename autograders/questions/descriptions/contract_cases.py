"""The cases of 03a-contract: good batches, and changes that give one of them a problem, or seem to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cases import Case

Array = np.ndarray
Change = Callable[[Array, Array], tuple[Array, Array]]


def one_hot(labels: Array) -> Array:
    return np.eye(int(labels.max()) + 2, dtype=np.int64)[labels]


def spoilt(entry: float, place: int) -> Callable[[Array], Array]:
    """x with one entry changed, at the start or at the end."""

    def change(x: Array) -> Array:
        x = x.copy()
        x.flat[place] = entry
        return x

    return change


def pixels(x: Array) -> Array:
    return np.rint(x * 155 + 100).astype(np.uint8)


def good(rng: np.random.Generator) -> tuple[Array, Array]:
    """RGB images. Every size differs from 1, so that no dimension is lost by squeezing unless a kind makes it 1."""
    examples, height, width = (int(size) for size in rng.integers(3, 7, size=3))
    x = rng.uniform(0.0, 1.0, (examples, 3, height, width)).astype(np.float32)
    return x, rng.integers(0, int(rng.integers(2, 12)), examples)


def many(x: Array, y: Array) -> tuple[Array, Array]:
    """More than a thousand examples of one pixel."""
    return np.repeat(x[:, :, :1, :1], 400, axis=0), np.repeat(y, 400)


def many_spoilt(entry: float) -> Change:
    """Only the last entry of many is a bad one."""

    def change(x: Array, y: Array) -> tuple[Array, Array]:
        x, y = many(x, y)
        return spoilt(entry, -1)(x), y

    return change


def large_in_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Thousands of float16 entries between 9 and 10: each is good, and their sum is not a number of this dtype."""
    x = x[:, :, :2, :2]
    times = 7400 // x.size + 1
    return (9 + 0.9 * np.repeat(x, times, axis=0)).astype(np.float16), np.repeat(y, times)


def with_axes(x: Array, axes: int = 6) -> Array:
    return x.reshape(len(x), *[1] * (axes - x.ndim), *x.shape[1:])


def changed(**changes: Callable[[Array], Array]) -> Callable[[Array, Array], tuple[Array, Array]]:
    unchanged: Callable[[Array], Array] = np.copy
    return lambda x, y: (changes.get("x", unchanged)(x), changes.get("y", unchanged)(y))


# kind -> what is done to good RGB images and their labels. Where x has a wrong number of dimensions, the number of
# labels is its first size, or y has two dimensions.
SIZES: dict[str, Change] = {
    "good, grey": changed(x=lambda x: x[:, :1]),
    "good, five channels": changed(x=lambda x: np.concatenate([x, x[:, :2]], axis=1)),
    "good, images of one pixel": changed(x=lambda x: x[:, :, :1, :1]),
    "good, batch of one": changed(x=lambda x: x[:1], y=lambda y: y[:1]),
    "good, vectors": changed(x=lambda x: x.reshape(len(x), -1)),
    "good, vectors of one number": changed(x=lambda x: x[:, 0, 0, :1]),
    "good, one vector": changed(x=lambda x: x[:1].reshape(1, -1), y=lambda y: y[:1]),
    "no batch dimension": lambda x, y: (x[0], y[:3]),
    "no channel dimension": changed(x=lambda x: x[:, 0]),
    "a dimension too many": changed(x=lambda x: x[:, None]),
    "six dimensions": changed(x=with_axes),
    "a dimension of vectors only": changed(x=lambda x: x[:, 0, 0, 0]),
}
ENTRIES: dict[str, Change] = {
    "good, standardised": changed(x=lambda x: (x - 0.5) * 8),
    "good, exactly 10 and -10": changed(x=lambda x: spoilt(-10.0, -1)(spoilt(10.0, 0)(x))),
    "values up to 255": changed(x=lambda x: x * 155 + 100),
    "just above 10": changed(x=spoilt(10.0625, -1)),  # exact in bfloat16
    "just below -10": changed(x=spoilt(-10.0625, 0)),
    "one large entry": changed(x=spoilt(37.0, 0)),
    "one very negative entry": changed(x=spoilt(-37.0, -1)),
    # The sum and the mean are those of a batch with 10 and -10 in their places.
    "two entries that cancel": changed(x=lambda x: spoilt(-12.0, -1)(spoilt(12.0, 0)(np.rint(x * 64) / 64))),
    "one infinite entry": changed(x=spoilt(float("-inf"), 0)),
    "one infinite entry, above": changed(x=spoilt(float("inf"), -1)),
    "NaN first": changed(x=spoilt(float("nan"), 0)),
    "NaN last": changed(x=spoilt(float("nan"), -1)),
}
INPUT_TYPES: dict[str, Change] = {
    "good, bfloat16": changed(),
    "NaN in bfloat16": changed(x=spoilt(float("nan"), 0)),
    "just above 10 in bfloat16": changed(x=spoilt(10.0625, -1)),
    # Its absolute value is not a number of its type: abs gives the number itself.
    "the smallest int8": changed(x=lambda x: spoilt(-128, 0)(np.rint(x * 3).astype(np.int8))),
    "the smallest int64": changed(x=lambda x: spoilt(-(2**63), 0)(np.rint(x * 3).astype(np.int64))),
    "raw uint8 pixels": changed(x=pixels),
    "integer inputs": changed(x=lambda x: np.rint(x * 9).astype(np.int64)),
    "int32 inputs, large and negative": changed(x=lambda x: np.rint(x * -90 - 20).astype(np.int32)),
    "float64 inputs": changed(x=lambda x: x.astype(np.float64)),
    "float16 inputs": changed(x=lambda x: x.astype(np.float16)),
}
LABEL_SHAPES: dict[str, Change] = {
    "one-hot labels": changed(y=one_hot),
    "a column of labels": changed(y=lambda y: y[:, None]),
    "a row of labels": changed(y=lambda y: y[None]),
    "labels of three dimensions": changed(y=lambda y: y.reshape(-1, 1, 1)),
    "labels of four dimensions": changed(y=lambda y: y.reshape(1, 1, 1, -1)),
    "a label missing": changed(y=lambda y: y[:-1]),
    "a label too many": changed(y=lambda y: np.append(y, 0)),
}
LABEL_TYPES: dict[str, Change] = {
    "good, labels from -100 up": changed(y=lambda y: y * 17 - 100),
    "good, labels from 100 up": changed(y=lambda y: y * 17 + 100),
    "float labels": changed(y=lambda y: y.astype(np.float32)),
    "float64 labels": changed(y=lambda y: y.astype(np.float64)),
    "int32 labels": changed(y=lambda y: y.astype(np.int32)),
    "uint8 labels": changed(y=lambda y: y.astype(np.uint8)),
    "int8 labels": changed(y=lambda y: y.astype(np.int8)),
    "int16 labels": changed(y=lambda y: y.astype(np.int16)),
    "float16 labels": changed(y=lambda y: y.astype(np.float16)),
    "bool labels": changed(y=lambda y: y.astype(np.bool_)),
}
KINDS: dict[str, Change] = {
    **SIZES,
    **ENTRIES,
    **INPUT_TYPES,
    **LABEL_SHAPES,
    **LABEL_TYPES,
    "good, RGB": changed(),
    "good, many examples": many,
    "float16 inputs with a large sum": large_in_sum,
    "many examples, NaN in the last": many_spoilt(float("nan")),
    "many examples, just above 10 in the last": many_spoilt(10.0625),
    "many examples, just below -10 in the last": many_spoilt(-10.0625),
    "uint8 vectors": changed(x=lambda x: pixels(x).reshape(len(x), -1)),
    "one-hot float labels": changed(y=lambda y: one_hot(y).astype(np.float32)),
    "a batch of one with a column of labels": changed(x=lambda x: x[:1], y=lambda y: y[:1, None]),
    "vectors, a label missing": changed(x=lambda x: x.reshape(len(x), -1), y=lambda y: y[:-1]),
    "uint8 pixels, float labels": changed(x=pixels, y=lambda y: y.astype(np.float32)),
    "a dimension too many, values up to 255": changed(x=lambda x: x[:, None] * 155 + 100),
    "a float64 NaN, a label missing": changed(
        x=lambda x: spoilt(float("nan"), 0)(x.astype(np.float64)), y=lambda y: y[1:]
    ),
    "every problem": changed(x=lambda x: pixels(x)[None], y=lambda y: y[:, None].astype(np.float32)),
}


def case(kind: str, x: Array, y: Array) -> Case:
    return Case(kind, {"x": np.ascontiguousarray(x), "y": np.ascontiguousarray(y), "bfloat16": "bfloat16" in kind})


def draw(rng: np.random.Generator) -> list[Case]:
    """Every kind once, in a random order."""
    cases = [case(kind, *make(*good(rng))) for kind, make in KINDS.items()]
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Each way to change a batch or none, together, as long as the labels can be counted.

    Some batches have many examples, with a bad entry at the end; six dimensions or more; labels of three dimensions; of
    a rare dtype. In some the only bad entry is the smallest integer of its dtype, and in some the sum is too large.
    """
    joint = int(rng.integers(8))
    if joint == 0:
        return case("float16 inputs with a large sum", *large_in_sum(*good(rng)))
    if joint == 1:
        x, y = good(rng)
        bits = (8, 16, 32, 64)[rng.integers(4)]
        x = spoilt(-(2 ** (bits - 1)), int(rng.integers(x.size)))(np.rint(x * 9).astype(f"int{bits}"))
        return case("the smallest integer", x, y)
    while True:
        x, y = good(rng)
        bfloat16, long = False, rng.integers(4) == 0
        if long:
            x, y = many(x, y)
        try:
            for changes in (SIZES, ENTRIES, INPUT_TYPES, LABEL_SHAPES, LABEL_TYPES):
                if rng.integers(2):
                    kind = list(changes)[rng.integers(len(changes))]
                    bfloat16 = bfloat16 or "bfloat16" in kind
                    with np.errstate(all="ignore"):
                        x, y = changes[kind](x, y)
        except (IndexError, ValueError):
            continue
        if long and rng.integers(2) and not np.isnan(x).any():
            x = spoilt(11, -1)(x)
        if rng.integers(7) == 0:
            x = with_axes(x, int(rng.integers(6, 9)))
        if rng.integers(8) == 0:
            y = y.reshape(-1, 1, 1)
        if rng.integers(4) == 0:
            y = y.astype([np.bool_, np.int16][rng.integers(2)])
        if x.dtype == np.uint8 and not (x > 10).any():
            continue
        # Another bad entry beside a NaN is seen or not, depending on how a wrong rule takes the largest.
        if np.isnan(x).any() and (np.abs(x) > 10).any():
            continue
        if y.size and (x.ndim in (2, 4) or y.ndim != 1 or len(y) == len(x)):
            return case("bfloat16" if bfloat16 else "domain", x, y)
