"""nbgrader's feedback page without anything that runs or loads: students' HTML cleaned, formulas as MathML."""

from __future__ import annotations

import functools
import html
import io
import re
import secrets
from typing import Any

from jinja2 import BytecodeCache, Environment, pass_context
from jinja2.bccache import Bucket
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from traitlets import default

from ..results.formulas import mathml
from ..results.report_page import TEMPLATES
from ..results.safe_html import POLICY, clean_fragment, clean_page

MOST_MARKDOWN = 20_000
"""Characters of one text that are read as Markdown, and how often it may begin a LaTeX environment: the reader's time
grows with the square of both. What has more is shown as plain text."""
_MOST_ENVIRONMENTS = 50
_NO_ALT = "No description has been provided for this image"
_KEPT = ("text/plain", "text/html", "text/markdown", "image/png", "image/jpeg", "image/svg+xml")


FOLD, UNFOLD = "fold_begins", "fold_ends"
"""Keys in a cell's metadata: a folded part of the page begins before it, ends behind it."""
HEADING = "feedback_heading"
"""Key in a graded cell's metadata: what is above it."""
OURS = "feedback_head"
"""Key in the metadata of the page's head, which is ours: no limit for students' texts holds there."""


class SafePageExporter(HTMLExporter):
    """The page that students get. Only its style is ours or nbgrader's; nothing on it can run."""

    export_from_notebook = None  # not one of nbconvert's own list of formats

    @default("raw_template")
    def _raw_template_default(self) -> str:
        return (TEMPLATES / "feedback.html.j2").read_text("utf-8")

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        """Convert a notebook; returns the page and the resources."""
        self._formulas: list[str] = []
        # Nobody can write a place for a formula into an answer without knowing this.
        self._mark = secrets.token_hex(8)
        for cell in nb.cells:
            for output in cell.get("outputs", ()):
                self._make_harmless(output)
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name", None))
        self.register_filter(
            "highlight_code", lambda source, metadata=None: _highlighted(source, str(lexer or "ipython3"))
        )
        # Past HTMLExporter, which reads the whole page again with BeautifulSoup: half of the time, for one attribute.
        own = _OnePageOnly(nb)
        page, resources = super(HTMLExporter, self).from_notebook_node(own, self._init_resources(resources), **kwargs)
        return self._whole(page), resources

    def _preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Run the steps on the notebook itself; nbconvert copies it twice more, and checks its form once more."""
        for step in self._preprocessors:
            nb, resources = step(nb, resources)
        return nb, resources

    def _create_environment(self) -> Environment:
        environment: Environment = super()._create_environment()
        environment.bytecode_cache = _TEMPLATES
        return environment

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """What nbconvert's filter of that name does, cleaned."""
        cell = context.get("cell", {})
        too_long = len(source) > MOST_MARKDOWN or source.count("\\begin{") > _MOST_ENVIRONMENTS
        if too_long and not cell.get("metadata", {}).get(OURS):
            return f"<pre>{html.escape(source)}</pre>"
        attachments = cell.get("attachments", {})
        page, mark, formulas = _rendered(source) if not attachments else _render(source, attachments)
        for number, formula in enumerate(formulas):
            page = page.replace(_place(mark, number), _place(self._mark, len(self._formulas)))
            self._formulas.append(formula)
        return page

    def _noted(self, formula: str, block: bool) -> str:
        """A place in the page for a formula, which is put there when everything around it is clean."""
        self._formulas.append(mathml(formula, block=block))
        return _place(self._mark, len(self._formulas) - 1)

    def _make_harmless(self, output: NotebookNode) -> None:
        """Leave of an output what a page can show without running it."""
        data = output.get("data")
        if data is None:
            return
        if "text/latex" in data and "text/html" not in data:
            data["text/html"] = self._noted(str(data["text/latex"]).strip().strip("$"), True)
        elif "text/html" in data:
            data["text/html"] = clean_fragment(_text(data["text/html"]))
        left_out = [kind for kind in data if kind not in _KEPT]
        for kind in left_out:
            del data[kind]
        if not data:
            data["text/plain"] = f"(an output of the kind {', '.join(left_out)[:100]}, which this page does not show)"
        # An alternative text is kept; an isolated frame, widths and file names are not.
        metadata = output.get("metadata", {})
        output["metadata"] = NotebookNode(
            {
                kind: {"alt": str(settings["alt"])}
                for kind, settings in metadata.items()
                if isinstance(settings, dict) and "alt" in settings
            }
        )

    def _whole(self, page: str) -> str:
        begin = page.index(">", page.index("<body")) + 1
        head, body = page[:begin], page[begin : page.rindex("</body>")]
        # nbgrader's template loads MathJax and the signs of Bootstrap, which it does not use.
        head = re.sub(r"<script\b.*?</script>|@font-face\s*\{[^}]*\}", "", head, flags=re.DOTALL)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        policy += '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        head = head.replace("<html>", '<html lang="en">', 1).replace("<head>", f"<head>\n{policy}", 1)
        body = re.sub(r"<img (?![^>]*\balt=)", f'<img alt="{_NO_ALT}" ', clean_page(body))
        # What can be scrolled must be reachable with the keyboard.
        body = re.sub(r'<div class="[^"]*\boutput_subarea\b[^"]*"', r'\g<0> tabindex="0"', body)
        for number, formula in enumerate(self._formulas):
            body = body.replace(_place(self._mark, number), formula)
        return f"{head}{body}</body>\n</html>\n"


class _OnePageOnly(NotebookNode):
    """A notebook that was read from a file for one page, so that nobody needs a copy of it as it was.

    Copies are a third of a page's computing time.
    """

    def __deepcopy__(self, memo: Any) -> _OnePageOnly:
        return self


class _Templates(BytecodeCache):
    """Compiled templates, kept for the next page of the process: every page has an environment of its own."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill a bucket with what was compiled before."""
        compiled = self._compiled.get((bucket.key, bucket.checksum))
        if compiled is not None:
            bucket.load_bytecode(io.BytesIO(compiled))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self._compiled[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


_TEMPLATES = _Templates()


@functools.lru_cache(maxsize=500)
def _highlighted(source: str, lexer: str) -> str:
    """Code in colours. Most cells of a notebook are the same for the whole class."""
    return str(Highlight2HTML(pygments_lexer=lexer)(source))


def _place(mark: str, number: int) -> str:
    """Where a formula goes when everything around it is clean."""
    return f'<span data-formula="{mark}-{number}"></span>'


def _render(source: str, attachments: Any) -> tuple[str, str, list[str]]:
    """A text as HTML, cleaned; the mark of the places for formulas, which nobody knew who wrote it; the formulas."""
    formulas: list[str] = []
    mark = secrets.token_hex(8)

    def note(formula: str, block: bool) -> str:
        formulas.append(mathml(formula, block=block))
        return _place(mark, len(formulas) - 1)

    renderer = _Renderer(note, attachments=attachments)
    return clean_fragment(MarkdownWithMath(renderer=renderer).render(source)), mark, formulas


@functools.lru_cache(maxsize=500)
def _rendered(source: str) -> tuple[str, str, list[str]]:
    """`_render` without attachments. Most texts of a notebook are the same for the whole class."""
    return _render(source, {})


class _Renderer(IPythonRenderer):
    """nbconvert's renderer, with formulas noted and no picture from elsewhere."""

    def __init__(self, note: Any, attachments: Any) -> None:
        super().__init__(escape=False, attachments=attachments, exclude_anchor_links=True)
        self._note = note

    def block_math(self, body: str) -> str:
        return str(self._note(body, True))

    def inline_math(self, body: str) -> str:
        return str(self._note(body, False))

    def latex_environment(self, name: str, body: str) -> str:
        return str(self._note(f"\\begin{{{name}}}{body}\\end{{{name}}}", True))

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def _embed_image_or_attachment(self, src: str) -> str:
        if src.startswith("attachment:") and src.removeprefix("attachment:") not in self.attachments:
            return ""
        return str(super()._embed_image_or_attachment(src))


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
