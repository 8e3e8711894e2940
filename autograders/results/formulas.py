"""Formulas as MathML: a page shows them without a network and without a script."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

MOST_CHARACTERS = 2_000
"""What a formula may have; a longer one is shown as it was written."""

_TAGS = frozenset(
    re.findall(
        r"\S+",
        "math mrow mi mn mo ms mtext mspace mstyle mfrac msqrt mroot msub msup msubsup munder mover munderover mtable "
        "mtr mtd mpadded mphantom menclose mmultiscripts mprescripts none",
    )
)
_ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        "accent columnalign columnlines columnspacing depth display displaystyle fence form height largeop linebreak "
        "linethickness lspace mathcolor mathvariant maxsize minsize movablelimits notation rowlines rowspacing rspace "
        "scriptlevel separator stretchy voffset width",
    )
)
_VALUE = re.compile(r"[\w#.%+ -]{0,60}")
# What LaTeX numbers or sets inside another formula, in the terms that the converter has.
_ENVIRONMENTS = {
    "aligned": "align*",
    "alignat": "align*",
    "eqnarray": "align*",
    "eqnarray*": "align*",
    "gather": "align*",
}
_PLAIN = ("equation", "equation*", "math", "displaymath")


def mathml(formula: str, *, block: bool) -> str:
    """A formula as MathML that holds nothing but numbers, letters and signs; its source where it cannot be read."""
    from latex2mathml.converter import convert_to_element

    source = formula.strip()
    for name, replacement in _ENVIRONMENTS.items():
        source = source.replace(f"\\begin{{{name}}}", f"\\begin{{{replacement}}}").replace(
            f"\\end{{{name}}}", f"\\end{{{replacement}}}"
        )
    for name in _PLAIN:
        source = source.replace(f"\\begin{{{name}}}", "").replace(f"\\end{{{name}}}", "")
    try:
        if len(source) > MOST_CHARACTERS:
            raise ValueError(f"a formula of {len(source)} characters")
        element = _plain(convert_to_element(source, display="block" if block else "inline"))
        return ElementTree.tostring(element, encoding="unicode", short_empty_elements=False)
    except Exception:
        # Whatever the converter does not know, a student wrote: it is shown, and costs nobody the page.
        return f"<code>{html.escape(formula.strip()[: 10 * MOST_CHARACTERS])}</code>"


def _plain(element: ElementTree.Element) -> ElementTree.Element:
    """A copy with known tags and harmless attributes alone. The converter escapes nothing and keeps any attribute."""
    kept = {name: value for name, value in element.attrib.items() if name in _ATTRIBUTES and _VALUE.fullmatch(value)}
    copy = ElementTree.Element(element.tag if element.tag in _TAGS else "mrow", kept)
    # Its signs are character references in the text.
    copy.text = html.unescape(element.text) if element.text else None
    copy.tail = html.unescape(element.tail) if element.tail else None
    copy.extend(_plain(child) for child in element)
    return copy
