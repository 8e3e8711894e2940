"""Floating-point formats bit by bit: sign, exponent and fraction of a number in FP32, FP16 and BF16."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .widgets import display_widget, widget_data

if TYPE_CHECKING:
    import ipywidgets

# name -> bits of exponent, bits of fraction; a sign bit is before them
FORMATS = {"FP32": (8, 23), "FP16": (5, 10), "BF16": (8, 7)}


@dataclass(frozen=True)
class StoredFloat:
    """A number as a format stores it.

    Attributes:
        format: a key of FORMATS.
        sign, exponent, fraction: the bits, as text of 0 and 1.
        value: what these bits mean.
        fate: 'exact', 'rounded', 'underflow' or 'overflow'; 'not a number' for NaN.

    """

    format: str
    sign: str
    exponent: str
    fraction: str
    value: float
    fate: str


def stored_float(number: float, format_name: str) -> StoredFloat:
    """Round a number to a format, to the even neighbour at a tie, as IEEE 754 and the hardware do."""
    exponent_bits, fraction_bits = FORMATS[format_name]
    bits = _magnitude_bits(abs(number), exponent_bits, fraction_bits)
    negative = math.copysign(1.0, number) < 0
    text = f"{bits:0{exponent_bits + fraction_bits}b}"
    value = math.copysign(_meaning(bits, exponent_bits, fraction_bits), number)
    return StoredFloat(
        format_name, str(int(negative)), text[:exponent_bits], text[exponent_bits:], value, _fate(number, value)
    )


def _magnitude_bits(magnitude: float, exponent_bits: int, fraction_bits: int) -> int:
    """Exponent and fraction as one whole number; neighbours in the format differ by 1 in it."""
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if math.isnan(magnitude):
        return infinity | 1 << (fraction_bits - 1)
    if math.isinf(magnitude):
        return infinity
    bias = (1 << (exponent_bits - 1)) - 1
    # Below the smallest normal exponent the spacing stays, and digits are lost one by one.
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - bias) if magnitude else 1 - bias
    steps = round(math.ldexp(magnitude, fraction_bits - exponent))  # Python rounds ties to even
    # A normal number has a leading 1 that is not stored; a carry into the next exponent comes out right by itself.
    return min(steps + ((exponent + bias - 1) << fraction_bits), infinity)


def _meaning(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    exponent, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else math.inf
    leading = (1 << fraction_bits) if exponent else 0
    bias = (1 << (exponent_bits - 1)) - 1
    return math.ldexp(fraction + leading, max(exponent, 1) - bias - fraction_bits)


def _fate(number: float, value: float) -> str:
    if math.isnan(number):
        return "not a number"
    if value == number:
        return "exact"
    if math.isinf(value):
        return "overflow"
    return "rounded" if value else "underflow"


def float_table(number: float) -> str:
    """The number in each format as lines of text: sign, exponent, fraction, value, fate."""
    lines = [f"{number!r}", f"{'':5} s {'exponent':8} {'fraction':23} value"]
    for name in FORMATS:
        stored = stored_float(number, name)
        lines.append(
            f"{name:5} {stored.sign} {stored.exponent:8} {stored.fraction:23} {stored.value:<12.8g} {stored.fate}"
        )
    return "\n".join(lines)


def show_float_formats(number: float = 0.1) -> None:
    """Show a number bit by bit as a table; where a reader can use it, below a text field to try others."""
    table = float_table(number)
    if field := widget_data(lambda: float_field(number)):
        text = "(A field to type other numbers, when the notebook runs.)"
        display_widget(field, text, f"The table of {number!r}", f"<pre>{html.escape(table)}</pre>", table)
    else:
        print(table)


def float_field(number: float) -> ipywidgets.VBox:
    """A field for a number, with its table below; Enter or leaving the field updates the table."""
    import ipywidgets

    field = ipywidgets.Text(value=repr(number), description="number", continuous_update=False)
    table = ipywidgets.HTML()

    def update(*_: object) -> None:
        try:
            text = float_table(float(field.value))
        except ValueError:
            text = f"{field.value!r} is not a number. Type one, for example 65520 or 1e-8."
        table.value = f'<pre role="status">{html.escape(text)}</pre>'

    field.observe(update, "value")
    update()
    return ipywidgets.VBox([field, table])
