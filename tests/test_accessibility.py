"""The built notebooks as pages: no serious violation of axe-core's rules that is ours, nothing wider than the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from accessible import page_violations, violations
from browsing import chromium

from autograders import notebooks
from autograders.notebooks import notebook_path, text_paths


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("text", text_paths(), ids=lambda text: text.stem)
def test_a_built_notebook_can_be_read_by_everybody(text: Path, theme: str, tmp_path: Path) -> None:
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="lab", theme=theme)
    page = tmp_path / "page.html"
    page.write_text(exporter.from_notebook_node(notebooks.read(notebook_path(text)))[0], "utf-8")
    assert page_violations(page, theme) == []


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
def test_a_violation_is_seen(body: str, rule: str) -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(f'<html lang="en"><title>A page</title><main>{body}</main></html>')
        assert [line.split()[0] for line in violations(page)] == [rule]
