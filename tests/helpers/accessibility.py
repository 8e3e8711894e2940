"""What axe-core finds on a page in Chromium: violations that keep somebody from reading or using it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.browser import LAPTOP, chromium

GRAVE = ("serious", "critical")
NOT_OURS = {
    # nbconvert's lab template has grey prompts, and Pygments' colours for numbers, comments, `in`, `not` and `or`.
    "color-contrast": ".jp-InputPrompt, .jp-OutputPrompt, .highlight :is(.mi, .mf, .c1, .ow)",
    "aria-input-field-name": ".noUi-handle",  # ipywidgets' sliders do not tie their description to the handle
}
"""Rule of axe-core -> the elements that JupyterLab or nbconvert make so, and that a notebook cannot change."""

# A target of more than one selector lies in a frame.
EXCUSED = """nodes => nodes.map(([excused, target]) =>
    Boolean(excused) && target.length === 1 && document.querySelector(target[0]).matches(excused))"""
WIDER = """() => [...document.querySelectorAll("body *")]
    .filter(element => element.clientWidth && element.getBoundingClientRect().right > window.innerWidth + 1)
    .map(element => element.outerHTML.slice(0, 150))"""


def violations(page: Any, within: str | None = None) -> list[str]:
    """The serious and critical violations on an open page that are not in `NOT_OURS`, a line each.

    Args:
        page: of playwright.
        within: a selector of what is looked at; None: the whole page.

    """
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context=within).response["violations"]
    nodes = [(one["id"], node) for one in found if one["impact"] in GRAVE for node in one["nodes"]]
    excused = page.evaluate(EXCUSED, [[NOT_OURS.get(rule), node["target"]] for rule, node in nodes])
    return [
        f"{rule} at {' '.join(map(str, node['target']))}: {node['html'][:150]}"
        for (rule, node), is_excused in zip(nodes, excused, strict=True)
        if not is_excused
    ]


def page_violations(path: Path, *themes: str) -> list[str]:
    """What is wrong with an HTML file at the width of a laptop, light or dark; nothing is fetched from elsewhere."""
    found = []
    with chromium() as browser:
        for theme in themes:
            page = browser.new_page(viewport=LAPTOP, color_scheme=theme)
            page.route(lambda address: not address.startswith("file:"), lambda route: route.abort())
            page.goto(path.as_uri())
            found += [f"{theme}: {line}" for line in violations(page)]
            found += [f"{theme}: too wide: {element}" for element in page.evaluate(WIDER)]
            page.close()
    return found
