"""The feedback page of a hostile submission: it shows what was written, runs nothing, loads nothing, covers nothing."""

from __future__ import annotations

import base64
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, MixedClass, copy_course
from helpers.accessibility import page_violations
from helpers.browser import LAPTOP, chromium
from helpers.submissions import ACCUMULATE, WORDS, cell_of

from autograders.__main__ import main
from autograders.course import Course
from autograders.grading.journal import read_record, write_record
from autograders.nbgrader.safe_page_exporter import SafePageExporter, _rendered
from autograders.results.formulas import mathml
from autograders.results.safe_html import clean_fragment
from lecture_lib._common.pictures import image_tag

pytestmark = pytest.mark.slow

HIT = "window.hit=1;new Image().src='https://evil.example/a'"
DRAWN = f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{HIT}\"><script>{HIT}</script><text>drawn</text></svg>"
ENCODED = base64.b64encode(f"<script>{HIT}</script>".encode()).decode()
HOSTILE = {
    "script": f"<script>{HIT}</script>",
    "handler": f'<img src="x" onerror="{HIT}">',
    "handler without quotes": f"<img/src=x/onerror={HIT.replace(' ', '/**/')}>",
    "unclosed": f'<img src=x onerror="{HIT}" ',
    "iframe": f'<iframe srcdoc="<script>{HIT}</script>"></iframe>',
    "iframe with data": f'<iframe src="data:text/html;base64,{ENCODED}"></iframe>',
    "object": f'<object data="data:text/html;base64,{ENCODED}"></object><embed src="https://evil.example/e">',
    "link": f'<a href="javascript:{HIT}">a script</a> <a href=" jAva\tscript:{HIT}">another</a>',
    "link with data": f'<a href="data:text/html;base64,{ENCODED}">data</a>',
    "Markdown link": f"[a link](javascript:{HIT.replace(' ', '%20')}) ![x](javascript:{HIT.replace(' ', '%20')})",
    "picture from elsewhere": "![a picture](https://evil.example/pixel.png) <img src=//evil.example/p>",
    "picture of several sizes": '<img srcset="https://evil.example/2 2x">',
    "drawing": DRAWN,
    "drawing with a link": f"<svg><a xlink:href='javascript:{HIT}'><text>x</text></a></svg>",
    "drawing that moves": f'<svg><animate onbegin="{HIT}"/></svg>',
    "style": "<style>body{display:none} @import 'https://evil.example/s.css';</style>",
    "cover": '<div style="position:fixed;top:0;left:0;width:100vw;height:100vh">ALL RIGHT</div>',
    "picture behind": '<div style="background:url(https://evil.example/b)">x</div>',
    "cover by a margin": '<p style="margin-top:-4000px">MOVED</p>',
    "cover by a class": '<div class="navbar-fixed-top modal">MODAL</div>',
    "refresh": '<meta http-equiv="refresh" content="0;url=https://evil.example/r">',
    "base and form": '<base href="https://evil.example/"><form action="https://evil.example/f"><button>send</button></form>',
    "end of the page": f"</div></div></body></html><script>{HIT}</script>",
    "comment": f"<!--><script>{HIT}</script>-->",
    "noscript": f'<noscript><p title="</noscript><img src=x onerror={HIT}>">',
    "formula": rf"$\text{{<img src=x onerror={HIT}>}}$",
    "formula with a link": rf"$\href{{javascript:{HIT}}}{{x}}$ $\style{{position:fixed}}{{y}}$",
    "formula in a picture's name": f'![$\\text{{"onerror="{HIT}}}$](x.png)',
    "missing attachment": "![x](attachment:no.png)",
    # The last one: it never ends, so what the student wrote behind it is lost to the student.
    "mutation": f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={HIT}&gt;">',
}
UNBOUNDED = "\\begin{a}" * 5000  # half a minute for the reader of Markdown
TEXT = (
    "Told **plainly**: $\\frac{1}{N}\\sum_i \\ell_i$ and\n\n$$\\hat y = w x + b$$\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
)


def outputs_of(piece: str) -> list[dict[str, Any]]:
    """A piece of HTML in every kind of output that a page shows."""
    kinds = ("text/html", "text/markdown", "text/latex", "image/svg+xml", "application/javascript", "application/pdf")
    shown: list[dict[str, Any]] = [
        {"output_type": "display_data", "data": {kind: piece}, "metadata": {}} for kind in kinds
    ]
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": piece}, "text/plain": piece}
    isolated = {
        "text/html": {"isolated": True},
        "image/png": {"width": f"1 onload={HIT}", "alt": f'"><script>{HIT}</script>'},
    }
    return [
        *shown,
        {"output_type": "display_data", "data": widget, "metadata": {}},
        {"output_type": "display_data", "data": {"text/html": piece}, "metadata": isolated},
        {"output_type": "display_data", "data": {"image/png": f'"{piece}'}, "metadata": isolated},
        {"output_type": "execute_result", "data": {"text/plain": piece}, "metadata": {}, "execution_count": 1},
        {"output_type": "stream", "name": "stdout", "text": f"{piece}\x1b]0;title\x07\x1b[31mred"},
        {"output_type": "error", "ename": piece, "evalue": piece, "traceback": [piece, f"\x1b[31m{piece}"]},
    ]


def spoil(course: Course, student: str, pieces: dict[str, str]) -> None:
    """Put pieces into the answer in words and into outputs, where a graded notebook keeps what a student made."""
    path = course.notebook("autograded", MIXED, student)
    nb = json.loads(path.read_text("utf-8"))
    cell_of(nb, WORDS)["source"] = TEXT + "\n\n".join(f"{piece}\n\nbehind {name}" for name, piece in pieces.items())
    outputs = [output for piece in pieces.values() for output in outputs_of(piece)]
    extra = {"cell_type": "code", "metadata": {}, "source": "# <script>", "outputs": outputs, "execution_count": 1}
    nb["cells"].insert(3, {**extra, "id": "hostile"})
    cell_of(nb, ACCUMULATE)["outputs"] = outputs
    path.write_text(json.dumps(nb), "utf-8")


def page_of(course: Course, student: str) -> Path:
    arguments = ["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED, "--student", student]
    assert main(arguments) == 0
    return course.notebook("feedback", MIXED, student).with_suffix(".html")


@pytest.fixture(scope="module")
def hostile(mixed_graded: MixedClass, tmp_path_factory: pytest.TempPathFactory) -> Path:
    course = copy_course(mixed_graded.course, tmp_path_factory.mktemp("hostile") / "course")
    spoil(course, "right", HOSTILE)
    return page_of(course, "right")


class Reader(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_text_that_takes_the_reader_of_markdown_long_is_shown_as_it_is(
    mixed_graded: MixedClass, tmp_path: Path
) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    spoil(course, "right", {"the environments": UNBOUNDED})
    text = page_of(course, "right").read_text("utf-8")
    assert UNBOUNDED in text
    assert "behind the environments" in text


def test_a_page_with_hundreds_of_remarks_begins_like_any_other(mixed_graded: MixedClass, tmp_path: Path) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    record = read_record(course, MIXED, "right")
    assert record is not None
    record.notes = [f"also handed in, not graded: {'folder/' * 40}{number}.png: a picture" for number in range(300)]
    record.notes[1] = "\\begin{a}" * 5000
    write_record(course, record)
    with chromium() as browser:
        page = browser.new_page(viewport=LAPTOP)
        page.goto(page_of(course, "right").as_uri())
        shown = page.inner_text("body")
        listed = page.evaluate("() => [...document.querySelector('ul').children].map(entry => entry.innerText)")
        rows = page.evaluate("() => document.querySelector('table').rows.length")
    assert shown.split("\n\n")[0] == MIXED
    assert "<h1>" not in shown
    assert rows == 4
    assert len(listed) == 13
    assert listed[-1] == "and 288 more"
    assert max(map(len, listed)) < 700


def test_a_text_that_was_rendered_before_has_its_own_formulas_again() -> None:
    """Rendered texts are kept for the next page of the process; formulas are numbered anew on each page."""
    texts = ["first $a$ then $$b$$", '$c$ <span data-formula="0-0"></span>', "none", "first $a$ then $$b$$"]
    formulas = [("a", False), ("b", True), ("c", False), ("a", False), ("b", True)]

    def page() -> str:
        exporter = SafePageExporter()
        exporter._formulas, exporter._mark = [], "0123456789abcdef"
        fragments = "".join(exporter.markdown2html({}, text) for text in texts)
        return exporter._whole(f"<html><head></head><body>{fragments}</body></html>")

    _rendered.cache_clear()
    fresh = page()
    assert re.findall(r"<math.*?</math>", fresh, re.DOTALL) == [mathml(text, block=block) for text, block in formulas]
    assert page() == fresh
    texts.reverse()
    again = re.findall(r"<math.*?</math>", page(), re.DOTALL)
    assert again == [mathml(text, block=block) for text, block in [*formulas[3:], formulas[2], *formulas[:2]]]


def test_nothing_on_the_page_can_run_or_load(hostile: Path) -> None:
    page = hostile.read_text("utf-8")
    tags = Reader(page).tags
    used = {tag for tag, _ in tags}
    assert not used & {"script", "iframe", "object", "embed", "base", "form", "link", "svg", "noscript", "template"}
    for tag, attributes in tags:
        assert not [name for name in attributes if name.startswith("on") or name == "srcset"], (tag, attributes)
        assert (attributes.get("src") or "data:image/").startswith("data:image/"), (tag, attributes)
        target = attributes.get("href") or "#"
        assert target.startswith(("#", "https://", "http://", "mailto:")), target
        assert "position" not in (attributes.get("style") or "")
        assert "url(" not in (attributes.get("style") or "")
    refreshing = [attributes for tag, attributes in tags if tag == "meta" and attributes.get("http-equiv") == "refresh"]
    assert refreshing == []
    (policy,) = [
        of["content"] for tag, of in tags if tag == "meta" and of.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in str(policy)
    assert "script" not in str(policy)


def test_a_browser_shows_everything_and_asks_for_nothing(hostile: Path) -> None:
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport=LAPTOP)
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: asked.append(dialog.message))
        page.goto(hostile.as_uri())
        assert page.evaluate("() => window.hit ?? null") is None
        assert page.url == hostile.as_uri()
        shown = page.inner_text("body")
        drawn = page.evaluate("() => [...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)")
        lifted = page.evaluate(
            "() => [...document.querySelectorAll('body *')].filter(e => ['fixed', 'absolute', 'sticky']"
            ".includes(getComputedStyle(e).position)).map(e => e.outerHTML.slice(0, 99))"
        )
        title = page.title()
    assert [address for address in asked if not address.startswith("data:")] == [hostile.as_uri()]
    for name in set(HOSTILE) - {"mutation"}:
        assert f"behind {name}" in shown
    assert "Told plainly:" in shown
    assert len(drawn) >= 2
    assert min(drawn) > 0
    assert lifted == []
    assert title == MIXED


def test_the_page_of_a_healthy_submission_can_be_read_by_everybody(mixed_graded: MixedClass, tmp_path: Path) -> None:
    course = copy_course(mixed_graded.course, tmp_path / "course")
    spoil(course, "right", {"words": "plain words"})
    page = page_of(course, "right")
    text = page.read_text("utf-8")
    assert text.count("<math") >= 2
    assert "\\frac" not in text
    assert "cdn" not in text.lower()
    assert "<strong>graded</strong>" in text
    assert page_violations(page, "light", "dark") == []


def test_the_page_begins_with_the_questions_folds_the_rest_and_fits_a_phone(
    mixed_graded: MixedClass, tmp_path: Path
) -> None:
    path = page_of(copy_course(mixed_graded.course, tmp_path / "course"), "wrong")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.goto(path.as_uri())
        rows = page.evaluate("() => [...document.querySelector('table').rows].map(row => row.innerText)")
        targets = page.evaluate(
            "() => [...document.querySelectorAll('table a')].slice(0, 3).map(a => a.getAttribute('href').slice(1))"
            ".map(name => document.getElementsByName(name).length)"
        )
        width = page.evaluate("() => document.documentElement.scrollWidth")
        shown = page.inner_text("body")
        folded = page.locator("details.rest").count()
        page.emulate_media(media="print")
        printed = page.locator("details.rest:visible").count()
    assert len(rows) == 4
    assert "3 of 8" in rows[1] or "5 of 8" in rows[1] or "5 of 10" in rows[1]
    assert "Look at:" in rows[1]
    assert targets == [1, 1, 1]
    assert width <= 390
    assert "Test cell" not in shown
    assert "Grade cell" not in shown
    assert shown.split("\n\n")[:2] == ["03a-training-recipe", "8 of 18 points so far; 2 wait for a person"]
    assert "– of 2" in rows[3]
    assert folded > 1
    assert printed == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_a_fragment_keeps_no_handler_address_or_cover(name: str) -> None:
    for tag, attributes in Reader(clean_fragment(HOSTILE[name])).tags:
        assert tag not in (
            "script",
            "iframe",
            "object",
            "embed",
            "meta",
            "base",
            "form",
            "style",
            "svg",
            "math",
            "link",
        )
        assert not {key for key in attributes if key.startswith("on")} | {"id", "name"} & set(attributes)
        assert "evil.example" not in " ".join(value or "" for key, value in attributes.items() if key != "title")
        assert attributes.get("class") is None
        assert "-4000" not in (attributes.get("style") or "")


def test_what_is_harmless_is_kept() -> None:
    kept = (
        '<details><summary>more</summary><table border="1"><tbody><tr><td colspan="2" style="color:red">1</td></tr>'
        "</tbody></table><ul><li>a</li></ul></details>"
    )
    assert clean_fragment(kept) == kept
    for kind in ("png", "svg+xml"):
        picture = image_tag(b"picture", kind, 'a curve, < 1 & "flat"')
        (before,), (after,) = Reader(picture).tags, Reader(clean_fragment(picture)).tags
        assert {**after[1], "style": None} == {**before[1], "style": None}
    assert 'href="https://a.example"' in clean_fragment('<a href="https://a.example">a</a>')


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"\frac{a}{b}", "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>"),
        (r"a \le b", "<mi>a</mi><mo>≤</mo><mi>b</mi>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
        (r"\text{<b>&lt;script&gt;</b>}", "&lt;b&gt;&lt;script&gt;&lt;/b&gt;"),
        (r"\frac{", r"<code>\frac{</code>"),
        (r"\left( <i>", r"<code>\left( &lt;i&gt;</code>"),
        ("{" * 3000, "<code>{{{"),
    ],
)
def test_a_formula_becomes_mathml_or_stays_what_it_is(formula: str, expected: str) -> None:
    written = mathml(formula, block=False)
    assert expected in written
    for tag, attributes in Reader(written).tags:
        assert tag[0] == "m" or tag == "code"
        assert not {"href", "style", "class", "id"} & set(attributes)
