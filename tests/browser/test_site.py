"""The site: every link leads somewhere, no solution is in it, nothing is fetched, and it can be read on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from conftest import ROOT
from helpers.accessibility import WIDER, violations
from helpers.browser import chromium

from autograders import notebooks
from autograders.course import STUB, CourseError
from autograders.notebooks import assignments, master_path, separate_solutions
from autograders.site import build_site as site
from autograders.site.build_site import build_site, without_solutions

pytestmark = pytest.mark.slow
pytest.importorskip("myst_nb", reason="the site's packages are not installed (the extra `site`)")

PHONE, DESKTOP = {"width": 375, "height": 800}, {"width": 1366, "height": 900}
EXAMINED = ("index", f"notebooks/{assignments()[0]}", "autograders/README", "library/training")
SEEN = (*EXAMINED, *(f"notebooks/{name}" for name in assignments()[1:]))
OF_WIDTH = {"runOnly": {"type": "rule", "values": ["scrollable-region-focusable", "target-size", "meta-viewport"]}}
"""The rules of axe-core whose result depends on the width. All of its rules take half a minute for a notebook."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site") / "html").parent


class Page(HTMLParser):
    """The links, names and pictures of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = {""}
        self.pictures: list[dict[str, str | None]] = []
        self.words: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and what it is called."""
        named = dict(attrs)
        self.ids.update(filter(None, (named.get("id"), named.get("name"))))
        self.targets += [value for name in ("href", "src") if (value := named.get(name)) is not None]
        if tag == "img":
            self.pictures.append(named)

    def handle_data(self, data: str) -> None:
        """Note the text."""
        self.words.append(data)


@pytest.fixture(scope="module")
def read(pages: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(pages.rglob("*.html"))}


def test_every_link_leads_to_a_page_and_a_place_on_it(pages: Path, read: dict[Path, Page]) -> None:
    broken = []
    for path, page in read.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https"):
                if not re.fullmatch(r"[a-z0-9.-]+\.[a-z]+", parts.netloc):
                    broken.append((path.name, target))
                continue
            if parts.scheme:  # pictures in the page itself, addresses
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            known = place.is_file() and (place.suffix != ".html" or unquote(parts.fragment) in read[place].ids)
            if not known:
                broken.append((str(path.relative_to(pages)), target))
    assert broken == []


def test_every_notebook_guide_and_package_has_a_page(pages: Path, read: dict[Path, Page]) -> None:
    linked = {target.partition("#")[0] for target in read[pages / "index.html"].targets}
    guides = (path.stem for path in (ROOT / "autograders/guide").glob("*.md") if path.stem != "rubrics")
    wanted = {
        *(f"notebooks/{name}.html" for name in assignments()),
        *(f"autograders/guide/{name}.html" for name in guides),
        *(f"library/{name}.html" for name in ("tape", "training", "data", "debugging", "experiments", "analysis")),
    }
    assert wanted <= linked
    sections = [target for target in read[pages / "autograders/guide/what-is-learned.html"].targets if "#" in target]
    assert len([target for target in sections if "/notebooks/" in target]) > 100
    functions = read[pages / "library/training.html"].ids
    assert {"lecture_lib.training.train", "lecture_lib.training.clip_by_global_norm"} <= functions


@pytest.fixture(scope="module")
def solutions() -> set[str]:
    """Lines of the solutions that stand nowhere else in a notebook."""
    found = set()
    for name in assignments():
        cells = notebooks.read(master_path(name)).cells
        given = "\n".join(cell.source for cell in cells if not cell.metadata.get("nbgrader", {}).get("solution"))
        for cell in cells:
            for solution in separate_solutions(cell.source)[1]:
                lines = (line.strip() for line in solution.splitlines())
                found.update(line for line in lines if len(line) > 30 and line not in given)
    return found


def test_solutions_are_left_out_and_outputs_are_there(pages: Path, read: dict[Path, Page], solutions: set[str]) -> None:
    assert len(solutions) > 100
    shown = "\n".join("".join(read[pages / f"notebooks/{name}.html"].words) for name in assignments())
    assert [line for line in solutions if line in shown] == []
    assert shown.count("write your answer here") >= len(assignments())
    assert "BEGIN HIDDEN TESTS" not in shown
    assert "probe(" not in shown
    # What a cell prints that shows something, as it stands in the built notebook.
    assert "smallest MSE at 22.0, smallest L1 loss at 3.0" in shown
    kinds = {path.suffix for path in pages.rglob("*") if path.is_file()}
    assert not kinds & {".ipynb", ".py", ".doctree"}


def test_a_page_with_solutions_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(site, "without_solutions", lambda nb: nb)
    with pytest.raises(CourseError, match=r"give solutions away.*03a-clip"):
        build_site(tmp_path / "html")
    assert not (tmp_path / "html").exists()


def test_every_picture_has_words(read: dict[Path, Page]) -> None:
    pictures = [picture for path, page in read.items() if path.parent.name == "notebooks" for picture in page.pictures]
    assert len(pictures) > 20
    assert [picture.get("src", "")[:80] for picture in pictures if not (picture.get("alt") or "").strip()] == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def narrow_violations(page: Any) -> list[dict[str, Any]]:
    """What axe-core finds on an open page of a phone's width, whatever its colours."""
    from axe_playwright_python.sync_playwright import Axe

    return Axe().run(page, options=OF_WIDTH).response["violations"]


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_can_be_read(browser: Any, pages: Path, size: dict[str, int], theme: str) -> None:
    page = browser.new_page(viewport=size, color_scheme=theme)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    wrong = []
    for name in SEEN:
        page.goto((pages / f"{name}.html").as_uri())
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wrong.append((name, "too wide", page.evaluate(WIDER)[:3]))
        formulas = page.evaluate("[...document.querySelectorAll('math')].filter(m => m.clientHeight === 0).length")
        if name.startswith("notebooks") and (formulas or not page.query_selector("math")):
            wrong.append((name, "formulas that are not shown", formulas))
        if size == DESKTOP and name in EXAMINED:
            wrong += [(name, line, "") for line in violations(page)]
        elif size == PHONE and theme == "light":
            wrong += [(name, rule["id"], rule["nodes"][0]["target"]) for rule in narrow_violations(page)]
    page.close()
    assert wrong == []
    assert [address for address in fetched if not address.startswith(("file:", "data:"))] == []


def test_a_link_to_a_page_stays_and_one_to_code_becomes_plain_text() -> None:
    text = "[guide](guide/publish.md#publish), [code](new_course.py), [web](https://example.org), [here](#several)"
    shown = site._with_links(text, "autograders/README.md", ["autograders/guide/publish.md"])
    assert shown == "[guide](guide/publish.md#publish), code, [web](https://example.org), [here](#several)"


@pytest.mark.parametrize(
    "target", ["guide/no-such-page.md", "no_such_code.py", "../no-such-folder/", "publish.md#publish"]
)
def test_a_link_that_leads_nowhere_is_refused(target: str) -> None:
    with pytest.raises(CourseError, match=rf"^autograders/README.md: the link to {re.escape(target)} leads nowhere"):
        site._with_links(f"[words]({target})", "autograders/README.md", [])


def test_a_folder_with_something_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(CourseError, match="holds something that is not a site"):
        build_site(tmp_path)
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "mine"


def test_a_notebook_without_solutions_keeps_everything_else() -> None:
    master = notebooks.read(master_path(assignments()[0]))
    shown = without_solutions(master)
    for before, after in zip(master.cells, shown.cells, strict=True):
        names = before.metadata.get("nbgrader", {})
        if not (names.get("solution") or names.get("grade")):
            assert before == after
        elif before.cell_type == "code" and names.get("solution"):
            assert STUB in after.source
            assert not after.outputs


def test_the_answer_to_a_prediction_is_folded(pages: Path) -> None:
    text = (pages / "notebooks" / f"{assignments()[0]}.html").read_text("utf-8")
    revealed = notebooks.read(master_path(assignments()[0])).cells
    count = sum(cell.source.startswith("reveal(") for cell in revealed if cell.cell_type == "code")
    assert count > 20
    assert len(re.findall(r'<details class="[^"]*hide[^"]*"', text)) == count


def test_a_page_of_the_library_names_errors_last(pages: Path) -> None:
    text = (pages / "library" / "training.html").read_text("utf-8")
    places = {name: text.index(f'<dt class="sig sig-object py" id="lecture_lib.training.{name}"') for name in NAMES}
    assert sorted(NAMES, key=places.__getitem__) == list(NAMES)


NAMES = ("accuracy", "train", "Evaluation", "ProcessLostError")
"""Functions, a class and an error."""
