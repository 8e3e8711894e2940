"""The formats bit by bit, against the bits that struct and PyTorch write."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lecture_lib.notebook import show_float_formats
from lecture_lib.notebook.float_bits import FORMATS, float_field, float_table, stored_float

EDGES = [0.0, -0.0, 1.0, 0.1, 65504.0, 65519.99, 65520.0, -65520.0, 2**-24, 2**-25, 1.5 * 2**-25, 1e-8]
EDGES += [2**-14, 2**-14 - 2**-25, 3.4e38, 3.3895313892515355e38, 2**-126, 2**-149, 2**-150, 1e-40, math.inf, -math.inf]


def bits_by_struct(number: float, code: str) -> str:
    """FP32 and FP16 as struct packs them; beyond the largest number it refuses, and the format has infinity."""
    try:
        packed = struct.pack(f">{code}", number)
    except OverflowError:
        packed = struct.pack(f">{code}", math.copysign(math.inf, number))
    return "".join(f"{byte:08b}" for byte in packed)


def bits_by_torch(number: float) -> str:
    """BF16 of a number that FP32 holds exactly."""
    return f"{torch.tensor(number).to(torch.bfloat16).view(torch.int16).item() & 0xFFFF:016b}"


def bits_of(number: float, name: str) -> str:
    stored = stored_float(number, name)
    assert (len(stored.exponent), len(stored.fraction)) == FORMATS[name]
    return stored.sign + stored.exponent + stored.fraction


def check_all(number: float) -> None:
    assert bits_of(number, "FP32") == bits_by_struct(number, "f")
    assert bits_of(number, "FP16") == bits_by_struct(number, "e")
    as_fp32 = stored_float(number, "FP32").value
    assert bits_of(as_fp32, "BF16") == bits_by_torch(as_fp32)


@pytest.mark.parametrize("number", EDGES)
def test_the_bits_of_edges_are_those_of_struct_and_pytorch(number: float) -> None:
    check_all(number)


@given(st.floats(allow_nan=False))
def test_the_bits_of_any_number_are_those_of_struct_and_pytorch(number: float) -> None:
    check_all(number)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_values_are_what_a_conversion_gives(number: float) -> None:
    with np.errstate(over="ignore"):
        assert stored_float(number, "FP16").value == float(np.float16(number))
    assert stored_float(number, "BF16").value == torch.tensor(number).to(torch.bfloat16).item()
    assert stored_float(number, "FP32").value == number


@pytest.mark.parametrize(
    ("number", "fates"),
    [
        (1.0, ["exact", "exact", "exact"]),
        (0.1, ["rounded", "rounded", "rounded"]),
        (65520.0, ["exact", "overflow", "rounded"]),
        (1e-8, ["rounded", "underflow", "rounded"]),
        (3.4e38, ["rounded", "overflow", "overflow"]),
        (math.inf, ["exact", "exact", "exact"]),
        (math.nan, ["not a number"] * 3),
    ],
)
def test_the_fate_of_a_number(number: float, fates: list[str]) -> None:
    assert [stored_float(number, name).fate for name in FORMATS] == fates


def test_nan_has_all_ones_in_its_exponent_and_a_fraction() -> None:
    for name in FORMATS:
        stored = stored_float(math.nan, name)
        assert set(stored.exponent) == {"1"}
        assert "1" in stored.fraction
        assert math.isnan(stored.value)


def test_the_field_answers_to_numbers_and_to_other_text() -> None:
    box = float_field(0.1)
    field, table = box.children
    assert "0.099975586" in table.value  # FP16
    field.value = "65520"
    assert "overflow" in table.value
    field.value = "<b>"
    assert "is not a number" in table.value
    assert "<b>" not in table.value


def test_a_page_without_a_kernel_shows_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_float_formats(0.1)
    shown = capsys.readouterr().out
    assert float_table(0.1) in shown
    assert "BF16  0 01111011 1001101                 0.10009766   rounded" in shown
