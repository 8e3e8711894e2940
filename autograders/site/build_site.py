"""Build the site: the texts of the repository as they are, notebooks without solutions, pages of the library."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .. import notebooks
from ..course import STUB, TEXT_STUB, CourseError
from ..setting import ROOT, SETTING

HERE = Path(__file__).parent
TEXTS = ("README.md", "lecture_lib/README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
GUIDE = "autograders/README.md"
MAP = "autograders/guide/what-is-learned.md"
FOR_GRADERS = "autograders/guide/rubrics.md"
"""What the questions in words are graded by."""
PACKAGES = ("tape", "training", "data", "debugging", "experiments", "analysis", "notebook")
_HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def build_site(to: Path, *, solutions: bool = False) -> Path:
    """Build all pages into a folder, which is replaced. Needs no network.

    Args:
        to: the folder.
        solutions: also show the solutions and what they print; by default nothing of them is in any page.

    Returns the first page. Raises CourseError when Sphinx is missing, a text cannot be built, or the folder holds
    something else, or a page would show a solution.

    """
    try:
        importlib.import_module("myst_nb")
    except ImportError:
        raise CourseError('the site needs Sphinx: python -m pip install --editable ".[site]"') from None
    if to.exists() and (not to.is_dir() or (any(to.iterdir()) and not (to / "objects.inv").exists())):
        raise CourseError(f"{to} holds something that is not a site. Name another folder with --to.")
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        source, built = Path(folder) / "source", Path(folder) / "html"
        source.mkdir()
        _write_pages(source, solutions)
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(source), str(built)],
            env={**os.environ, "COURSE_TITLE": SETTING.title, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CourseError(f"Sphinx did not build the site:\n{done.stderr.strip()}")
        for needless in (".doctrees", "_sources"):
            shutil.rmtree(built / needless, ignore_errors=True)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(built, to)
    return to / "index.html"


def _write_pages(source: Path, solutions: bool) -> None:
    shutil.copyfile(HERE / "conf.py", source / "conf.py")
    (source / "_static").mkdir()
    shutil.copyfile(HERE / "pages" / "site.css", source / "_static" / "site.css")
    names = notebooks.assignments()
    masters = {name: notebooks.read(notebooks.master_path(name)) for name in names}
    readable = masters if solutions else {name: without_solutions(nb) for name, nb in masters.items()}
    guide = (ROOT / GUIDE).read_text("utf-8") if (ROOT / GUIDE).is_file() else ""
    # In the order in which the guide's first page names them.
    pages = sorted((ROOT / "autograders" / "guide").glob("*.md"), key=lambda page: guide.find(f"(guide/{page.name})"))
    guides = [page.relative_to(ROOT).as_posix() for page in pages]
    texts = [text for text in (*TEXTS, GUIDE, *guides) if (ROOT / text).is_file()]
    if not solutions and FOR_GRADERS in texts:
        texts.remove(FOR_GRADERS)
    for text in texts:
        page = _with_links(_page(text), text, texts)
        _write(source / text, _with_sections(page, masters) if text == MAP else page)
    if (ROOT / "assets" / "readme").is_dir():
        shutil.copytree(ROOT / "assets" / "readme", source / "assets" / "readme", dirs_exist_ok=True)
    (source / "notebooks").mkdir()
    for name, nb in readable.items():
        nbformat.write(_readable(nb), source / "notebooks" / f"{name}.ipynb")
    packages = [name for name in PACKAGES if (ROOT / "lecture_lib" / name).is_dir()]
    for name in packages:
        _write(source / "library" / f"{name}.rst", _page_of(name))
    _write(source / "index.md", "".join(_index(names, packages, guides, texts)))
    if not solutions and (leaks := list(_given_away(masters, readable))):
        raise CourseError("the site would give solutions away; nothing was written: " + ", ".join(leaks))


def _given_away(masters: dict[str, NotebookNode], readable: dict[str, NotebookNode]) -> Iterator[str]:
    """The questions whose solution is in what is readable, whole, in any cell."""
    text = "\n".join(cell.source for nb in readable.values() for cell in nb.cells)
    for nb in masters.values():
        for cell in nb.cells:
            names = cell.metadata.get("nbgrader", {})
            if names.get("solution"):
                in_words = [cell.source] if cell.cell_type == "markdown" else []
                marked = notebooks.separate_solutions(cell.source)[1]
                if any(solution.strip() and solution in text for solution in in_words + marked):
                    yield str(names["grade_id"])


def without_solutions(master: NotebookNode) -> NotebookNode:
    """A master as it may be read: what shows something keeps its outputs, answers and checks lose theirs."""
    nb = deepcopy(master)
    for cell in nb.cells:
        names = cell.metadata.get("nbgrader", {})
        if not (names.get("solution") or names.get("grade")):
            continue
        if cell.cell_type == "code":
            cell.source = _HIDDEN.sub("", notebooks.separate_solutions(cell.source, STUB)[0])
            cell.outputs, cell.execution_count = [], None
        else:
            cell.source = TEXT_STUB
    return nb


def _readable(nb: NotebookNode) -> NotebookNode:
    """Without what only the grading needs, folded as in JupyterLab, with links to headings as Sphinx writes them."""
    nb = deepcopy(nb)
    for cell in nb.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            # The answer to a prediction: on a page nobody could predict first if it stood there open.
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-cell"]
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\(#([^)]+)\)", lambda match: f"](#{_anchor(match[1])})", cell.source)
        cell.attachments = cell.get("attachments", {})
        if not cell.attachments:
            del cell["attachments"]
    nb.metadata.pop("widgets", None)
    return nb


def _anchor(heading: str) -> str:
    """A heading's anchor on Jupyter's pages, `2-Logits:-no-overflow`, as MyST writes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower())


def _with_links(text: str, of: str, texts: list[str]) -> str:
    """Links to what has a page stay; the others, to code and folders, become plain text.

    Raises CourseError when a link leads to a file or folder that does not exist.

    """

    def kept(match: re.Match[str]) -> str:
        words, target = match.groups()
        path = target.partition("#")[0]
        if not path or "://" in target or target.startswith("mailto:"):
            return match[0]
        place = os.path.normpath(Path(of).parent / path)
        if not (ROOT / place).exists():
            raise CourseError(f"{of}: the link to {target} leads nowhere; there is no {place}. Correct the link.")
        return match[0] if place in texts or place.startswith("assets/readme") else words

    return _LINK.sub(kept, text)


def _with_sections(text: str, masters: dict[str, NotebookNode]) -> str:
    """The map of what is learned where, with a link for each section: '03a: Tape, Graph' names two of 03a's."""
    places: dict[str, list[tuple[str, str]]] = {}  # by the notebook's number: words of a heading, where it is
    for name, nb in masters.items():
        markdown = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
        for heading in re.findall(r"^## (.*)$", markdown, re.MULTILINE):
            place = f"../../notebooks/{name}.ipynb#{_anchor(heading).replace(' ', '-')}"
            places.setdefault(name.partition("-")[0], []).append((re.sub(r"^\d+ ", "", heading), place))

    def linked(match: re.Match[str]) -> str:
        number, sections = match.groups()
        links = []
        for section in sections.split(", "):
            place = next((place for words, place in places.get(number, ()) if words.startswith(section)), "")
            links.append(f"[{section}]({place})" if place else section)
        return f"{number}: {', '.join(links)}"

    return re.sub(r"(\d\d[a-z]): ([^;|]+?)(?= ?[;|])", linked, text)


def _page_of(package: str) -> str:
    """What a package exports: functions first, then classes, and errors last."""
    name = f"lecture_lib.{package}"
    module = importlib.import_module(name)
    exported = {kind: [entry for entry in module.__all__ if _kind(getattr(module, entry)) == kind] for kind in _KINDS}
    page = f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n"
    for kind, entries in exported.items():
        page += "".join(f"\n.. auto{kind}:: {name}.{entry}\n{_KINDS[kind]}" for entry in entries)
    return page


_KINDS = {"function": "", "class": "   :members:\n", "exception": ""}
"""In the order of a page: what Sphinx calls a thing, and an option of it. Data have no docstring of their own."""


def _kind(entry: object) -> str:
    if isinstance(entry, type):
        return "exception" if issubclass(entry, BaseException) else "class"
    return "function" if callable(entry) else "data"


def _index(names: list[str], packages: list[str], guides: list[str], texts: list[str]) -> Iterator[str]:
    """The first page: what there is, and for whom."""
    yield f"# {SETTING.title}\n\n"
    yield "Jupyter notebooks with graded questions. Here you can read them as they run, without the solutions. To work "
    yield "on them you need the course's folder: your instructor has it"
    alone = "autograders/guide/learning-alone.md"
    yield f", and [{_heading(alone)}]({alone}) says how to make it yourself.\n\n" if alone in texts else ".\n\n"
    for name in names:
        nb = notebooks.read(notebooks.master_path(name))
        yield f"## [{_title(nb)}](notebooks/{name}.ipynb)\n\n{_abstract(nb)}\n\n"
    yield "## For instructors, maintainers and other authors\n\n"
    about = {
        MAP: "the lecture's outcomes and ideas, and the section in which each is met",
        GUIDE: "how to release, collect, grade and report",
        "README.md": "what the course is, for whom, and how to start",
        "autograders/guide/how-well-it-works.md": "what the ladder and the graders find and miss",
        "lecture_lib/README.md": "in which order to read it, how it was measured, what it does not do",
        "CONTRIBUTING.md": "how the code is laid out, and how it is tested",
        "autograders/guide/notebooks-and-questions.md": "how to change a notebook or add a question; what `make` does",
        "autograders/guide/another-course.md": "a course of your own with this library and these graders",
        "autograders/guide/how-a-verdict-is-reached.md": "cases, parts, misconceptions, and when one is named",
        "autograders/guide/answer-bank.md": "how the graders themselves are tried, and with what result",
        "autograders/guide/answer-tables.md": "that result, question by question",
        "CHANGELOG.md": "what changed, and the result of each blind trial",
    }
    yield from (f"- [{_heading(text)}]({text}): {words}\n" for text, words in about.items() if text in texts)
    yield "\n"
    groups = {
        "Notebooks": [f"notebooks/{name}" for name in names],
        "Guides": [text.removesuffix(".md") for text in texts if text != "CHANGELOG.md"],
        "Library": [f"library/{name}" for name in packages],
        "News": ["CHANGELOG"] if "CHANGELOG.md" in texts else [],
    }
    for caption, entries in groups.items():
        if entries:
            listed = "\n".join(entries)
            yield f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{listed}\n```\n\n"


def _page(text: str) -> str:
    """A text as a page; README's title is that of the site."""
    page = (ROOT / text).read_text("utf-8")
    return f"# About this course\n{page.partition(chr(10))[2]}" if text == "README.md" else page


def _heading(text: str) -> str:
    return _page(text).splitlines()[0].lstrip("# ")


def _abstract(nb: NotebookNode) -> str:
    """The first paragraph below a notebook's title."""
    first = next(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    paragraphs = [part for part in str(first).split("\n\n") if part and not part.startswith(("#", "|"))]
    return paragraphs[0] if paragraphs else ""


def _title(nb: NotebookNode) -> str:
    first = next(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    return str(first).splitlines()[0].lstrip("# ")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
