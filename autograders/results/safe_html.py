"""Takes out of HTML what could run, load, send or cover anything: what a student wrote is shown, and no more."""

from __future__ import annotations

import re

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""The content security policy of our pages: no script, nothing from elsewhere, whatever the cleaning missed."""

_TAGS = frozenset(
    re.findall(
        r"\S+",
        "a abbr b blockquote br caption center code col colgroup dd del details div dl dt em figcaption figure h1 h2 "
        "h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strike strong sub summary sup table tbody "
        "td tfoot th thead tr tt u ul var",
    )
)
_WITH_THEIR_TEXT = frozenset(
    re.findall(r"\S+", "script style iframe object embed noscript template title textarea select svg math")
)
_ATTRIBUTES = {
    "*": {"style", "title", "align", "dir", "lang"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "ol": {"start", "type"},
    "details": {"open"},
    "table": {"border"},
    "span": {"data-formula"},
}
_OF_THE_PAGE = {"class", "id", "name", "tabindex"}
_STYLES = frozenset(
    re.findall(
        r"\S+",
        "background-color border border-bottom border-collapse border-color border-left border-radius border-right "
        "border-style border-top border-width color display font-family font-size font-style font-weight height "
        "line-height list-style-type margin-bottom margin-top max-width min-width overflow overflow-wrap padding "
        "padding-bottom padding-left padding-right padding-top text-align text-decoration vertical-align white-space "
        "width word-break",
    )
)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
_LINK = re.compile(r"\s*(?:https?://|mailto:|#)", re.IGNORECASE)
# A length beyond this, or a negative one, would lay a piece over its neighbours.
_TOO_LARGE = re.compile(
    r"-\s*[\d.]|\d{5,}|(?:1\d|[2-9]\d|\d{3,})\s*(?:r?em|vw|vh|cm|in)|calc|var|url|expression", re.IGNORECASE
)


def clean_fragment(fragment: str) -> str:
    """What a student wrote as HTML: its text, lists, tables, pictures that it holds itself, links; no class, no id."""
    import nh3

    return nh3.clean(
        fragment,
        tags=set(_TAGS),
        clean_content_tags=set(_WITH_THEIR_TEXT),
        attributes={
            **_ATTRIBUTES,
            "div": {"class"},
            "pre": {"class"},
            "code": {"class"},
            "span": {"class", "data-formula"},
        },
        attribute_filter=_attribute,
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=set(_STYLES),
    )


def clean_page(body: str) -> str:
    """The body of a page of ours, whose template has classes and anchors, once more as a whole."""
    import nh3

    return nh3.clean(
        body,
        tags=set(_TAGS),
        clean_content_tags=set(_WITH_THEIR_TEXT),
        attributes={**_ATTRIBUTES, "*": _ATTRIBUTES["*"] | _OF_THE_PAGE},
        attribute_filter=lambda tag, name, value: value if name in _OF_THE_PAGE else _attribute(tag, name, value),
        url_schemes={"http", "https", "mailto", "data"},
        filter_style_properties=set(_STYLES),
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """An attribute's value as it is kept, or None where it is not."""
    # A picture from elsewhere would tell its server who reads the page, and when.
    if name == "src":
        return value if _PICTURE.fullmatch(value) else None
    if name == "href":
        return value if _LINK.match(value) else None
    if name == "style":
        rules = [rule for rule in value.split(";") if not _TOO_LARGE.search(rule)]
        return ";".join(rules)
    if name == "class":
        # The colours of code, which Pygments names by one to three letters.
        return " ".join(word for word in value.split() if re.fullmatch(r"highlight|[a-z][a-z0-9]{0,2}", word)) or None
    return value
