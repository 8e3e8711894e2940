"""What crosses the border between a student's process and the grader: exact, and closed to everything else."""

from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from autograders.probes.codec import DTYPES, MAX_BYTES, MAX_DEPTH, MalformedObservation, decode, encode

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: st_numpy.arrays(dtype, st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text() | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray):
        assert isinstance(right, np.ndarray)
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return isinstance(right, dict) and set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return type(left) is type(right) and left == right


@given(values)
def test_plain_data_comes_back_bit_by_bit_through_strict_json(value: object) -> None:
    text = json.dumps(encode(value), allow_nan=False)
    assert same(decode(json.loads(text)), value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["array", "dtype", "shape", "list", "dict", "float"]), inner)
        ),
        max_leaves=12,
    )
)
def test_decode_takes_anything_and_raises_nothing_but_its_own_error(data: object) -> None:
    with contextlib.suppress(MalformedObservation):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        [1],
        {"list": {}},
        {"dict": []},
        {"float": "1.0"},
        {"array": "AAAA", "dtype": "object", "shape": [1]},
        {"array": "AAAA", "dtype": "float64", "shape": [1]},
        {"array": "", "dtype": "float64", "shape": [10**9]},
        {"array": "", "dtype": "float64", "shape": [-1]},
        {"array": "", "dtype": "float64", "shape": [True]},
        {"array": "é", "dtype": "uint8", "shape": [1]},
        {"array": "A" * (MAX_BYTES + 4), "dtype": "uint8", "shape": [1]},
        {"array": "", "dtype": ["float64"], "shape": [0]},
        {"list": [], "dict": {}},
    ],
    ids=str,
)
def test_what_encode_would_not_have_made_is_malformed(data: object) -> None:
    with pytest.raises(MalformedObservation):
        decode(data)


def test_nesting_is_limited() -> None:
    data: object = 1
    for _ in range(100):
        data = {"list": [data]}
    with pytest.raises(MalformedObservation, match="nested"):
        decode(data)


@pytest.mark.parametrize(
    "value", [object(), np.array([object()]), np.array([1j]), {1, 2}], ids=lambda value: type(value).__name__
)
def test_other_kinds_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [np.zeros([1] * (MAX_DEPTH + 1)), np.zeros(MAX_BYTES, dtype=np.uint8), nested(MAX_DEPTH + 1)],
    ids=["axes", "bytes", "levels"],
)
def test_what_decode_would_refuse_is_not_encoded(value: object) -> None:
    """An answer that returned 13 axes was set aside as forged."""
    with pytest.raises(TypeError, match="carried"):
        encode(value)


@given(st.integers(0, MAX_DEPTH), st.integers(0, MAX_DEPTH))
def test_whatever_is_encoded_is_decoded(axes: int, levels: int) -> None:
    for value in (np.zeros([1] * axes), nested(levels)):
        decode(json.loads(json.dumps(encode(value))))
