"""The built notebooks as pages: no serious violation of axe-core's rules that is ours, nothing wider than the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.accessibility import page_violations, violations
from helpers.browser import THEMES, chromium, in_turns

from autograders import notebooks
from autograders.notebooks import notebook_path, text_paths

pytestmark = pytest.mark.slow


# A theme is the same template for all notebooks.
@pytest.mark.parametrize(
    ("text", "theme"), in_turns(text_paths(), THEMES), ids=lambda value: getattr(value, "stem", value)
)
def test_a_built_notebook_can_be_read_by_everybody(text: Path, theme: str, tmp_path: Path) -> None:
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="lab", theme=theme)
    page = tmp_path / "page.html"
    page.write_text(exporter.from_notebook_node(notebooks.read(notebook_path(text)))[0], "utf-8")
    assert page_violations(page, theme) == []


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as browser:
        yield browser.new_page()


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ('<img src="data:image/png;base64,">', "image-alt"),
        ('<p style="color:#999;background:#fff">grey on white</p>', "color-contrast"),
        (
            '<div class="highlight"><span class="k" style="color:#999;background:#fff">grey</span></div>',
            "color-contrast",
        ),
        ("<button></button>", "button-name"),
    ],
)
def test_a_violation_is_seen(page: Any, body: str, rule: str) -> None:
    page.set_content(f'<html lang="en"><title>A page</title><main>{body}</main></html>')
    assert [line.split()[0] for line in violations(page)] == [rule]
