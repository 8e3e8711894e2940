"""JupyterLab in a headless Chromium: a notebook is opened, run and worked as a student does."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.server_process import TOKEN, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LAPTOP = {"width": 1280, "height": 800}
PATIENCE = 120_000  # ms; for conditions that a slow machine meets late
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight are rendered too
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


def in_turns(*choices: Iterable[Any]) -> list[Any]:
    """Every combination as parameters of a test. `make test` takes every second one in each direction."""
    return [
        pytest.param(
            *(value for _, value in chosen),
            marks=pytest.mark.full if sum(place for place, _ in chosen) % 2 else (),
        )
        for chosen in itertools.product(*map(enumerate, choices))
    ]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of playwright's on the system's Chromium; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def jupyterlab(root: Path, settings: Path, *, cwd: Path | None = None, **environment: str) -> Iterator[str]:
    """Start JupyterLab on a folder, as `serving` does; yields its address."""
    for name, values in SETTINGS.items():
        path = settings / "config" / "lab" / "user-settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), "utf-8")
    exposed = "--LabApp.expose_app_in_browser=True"
    with serving("jupyterlab", root, settings, exposed, cwd=cwd, **environment) as address:
        yield address


@dataclass
class OpenNotebook:
    """A notebook in a tab of the browser."""

    page: Any

    @classmethod
    def open(cls, browser: Any, address: str, path: str) -> OpenNotebook:
        """Open a notebook (a path below the server's root) and wait for its kernel."""
        page = browser.new_page(viewport=LAPTOP)
        page.set_default_timeout(PATIENCE)
        # A workspace for each: two pages of one would open each other's notebooks.
        page.goto(f"{address}lab/workspaces/{Path(path).stem}/tree/{path}?token={TOKEN}")
        opened = cls(page)
        opened.wait_for_kernel()
        return opened

    def wait_for_kernel(self) -> None:
        """Wait until the notebook is shown and its kernel waits for work."""
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        self.page.evaluate("() => jupyterapp.shell.currentWidget.context.ready")

    def command(self, name: str, **arguments: Any) -> None:
        """Do what an entry of a menu does, and wait for its end."""
        self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args).then(() => null)", [name, arguments]
        )

    def start(self) -> None:
        """Run all cells, without waiting for them."""
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def wait_until_run(self) -> None:
        """Wait until every code cell has a number and the kernel is idle."""
        self.page.wait_for_function(
            """() => {
                const panel = jupyterapp.shell.currentWidget;
                return panel.sessionContext.session.kernel.status === 'idle' && panel.content.widgets.every(cell =>
                    cell.model.type !== 'code' || !cell.model.sharedModel.source.trim()
                    || (cell.model.executionCount && cell.model.executionState !== 'running'));
            }""",
            polling=250,
            timeout=5 * PATIENCE,  # it computes for two minutes, and others may compute beside it
        )

    def cells(self) -> list[dict[str, Any]]:
        """The cells as they would be saved, outputs included."""
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON().cells")

    def save(self) -> None:
        """Write the notebook to its file."""
        self.command("docmanager:save")

    def theme(self, name: str) -> None:
        """Change to a key of THEMES and wait until it is shown."""
        self.command("apputils:change-theme", theme=THEMES[name])
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg=str(name == "light").lower()
        )

    def cell(self, text: str) -> Any:
        """The first cell whose source contains a text, as a locator, scrolled into view."""
        position = self.page.evaluate(
            """text => jupyterapp.shell.currentWidget.content.widgets
                .findIndex(cell => cell.model.sharedModel.source.includes(text))""",
            text,
        )
        assert position >= 0, f"no cell has {text!r}"
        found = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(position)
        found.scroll_into_view_if_needed()
        return found

    def write(self, cell: Any, source: str) -> None:
        """Click into a cell and replace its text by what is typed."""
        if cell.locator(".jp-MarkdownOutput").is_visible():
            cell.locator(".jp-MarkdownOutput").dblclick()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def run(self, cell: Any) -> str:
        """Run a cell by Ctrl and Enter; returns the text of its output once the kernel is idle again."""
        if not self.folded(cell):
            cell.locator(".cm-content").click()
        else:  # a click would unfold it
            cell.evaluate(
                """element => {
                    const notebook = jupyterapp.shell.currentWidget.content;
                    notebook.activeCellIndex = notebook.widgets.findIndex(cell => cell.node === element);
                    notebook.activate();
                }"""
            )
        count = (
            "jupyterapp.shell.currentWidget.content.widgets.find(cell => cell.node === element).model.executionCount"
        )
        before = cell.evaluate(f"element => {count}")
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            f"([element, before]) => {count} && {count} !== before", arg=[cell.element_handle(), before]
        )
        return str(cell.locator(".jp-Cell-outputWrapper").inner_text())

    def folded(self, cell: Any) -> bool:
        """Whether its source is hidden."""
        return bool(cell.locator(".jp-InputPlaceholder").is_visible())

    def too_wide(self) -> list[str]:
        """What an output holds that is wider than its place, and so is cut off or has to be scrolled sideways."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-OutputArea-output, .jp-OutputArea-output *')]
                .filter(element => element.clientWidth && element.scrollWidth > element.clientWidth + 1)
                .filter(element => !element.closest('.noUi-base'))  // the slider's handle stands out of its line
                .map(element => `${element.tagName} ${element.className}: ${element.scrollWidth} in `
                    + `${element.clientWidth} pixels: ${element.textContent.slice(0, 80)}`)"""
        )

    @contextmanager
    def width(self, pixels: int) -> Iterator[None]:
        """Show the page in another width, without the list of files at its left."""
        self.page.evaluate("() => jupyterapp.shell.collapseLeft()")
        self.page.set_viewport_size({**LAPTOP, "width": pixels})
        try:
            yield
        finally:
            self.page.set_viewport_size(LAPTOP)

    def keep_pictures(self, name: str) -> None:
        """Keep what a reader sees on the way down as NAME-00.png and so on, where $BROWSER_ARTEFACTS names a folder."""
        if "BROWSER_ARTEFACTS" not in os.environ:
            return
        to = Path(os.environ["BROWSER_ARTEFACTS"])
        to.mkdir(parents=True, exist_ok=True)
        area = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer")
        size = self.page.viewport_size
        self.page.set_viewport_size({**size, "height": 3 * LAPTOP["height"]})
        height, seen = area.evaluate("element => [element.scrollHeight, element.clientHeight]")
        for number, top in enumerate(range(0, height, seen - 40)):
            area.evaluate("(element, top) => { element.scrollTop = top; }", top)
            self.page.screenshot(path=to / f"{name}-{number:02}.png")
        self.page.set_viewport_size(size)
