"""Every relative link of a Markdown file in the repository leads to a file, and to a heading of it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from conftest import ROOT

FENCE = re.compile(r"^ *(`{3,})[^\n]*\n.*?^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as GitHub gives them."""
    taken: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        names.add(f"{name}-{taken[name]}" if taken[name] else name)
        taken[name] += 1
    return names


def broken_links(pages: Iterable[Path]) -> Iterator[str]:
    """The relative links that lead nowhere, each with its page."""
    for page in pages:
        for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
            path, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            to = page.parent / path if path else page
            if not to.exists():
                yield f"{page.name}: {target}: no such file"
            elif anchor and (to.suffix != ".md" or anchor not in anchors(to.read_text("utf-8"))):
                yield f"{page.name}: {target}: no such heading"


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = [ROOT / name for name in filter(None, listed.stdout.split("\0"))]
    links = [target for page in pages for target in LINK.findall(page.read_text("utf-8"))]
    assert len(links) > 50
    assert list(broken_links(pages)) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# A Title: `code`, twice\n\n## Again\n\n## Again\n\n```\n# no heading\n```\n", "utf-8")
    right = ["other.md", "other.md#a-title-code-twice", "other.md#again-1", "#here", "https://example.org/x", "./"]
    wrong = ["gone.md", "other.md#again-2", "other.md#no-heading", "#there", "gone/"]
    listed = "\n".join(f"[words]({target})" for target in right + wrong)
    page.write_text(f"# Here\n\n{listed}\n\n```\n[not a link](nowhere.md)\n```\n", "utf-8")
    assert [line.split(": ")[1] for line in broken_links([page, other])] == wrong
