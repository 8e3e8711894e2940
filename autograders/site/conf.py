"""Sphinx's configuration of the site. Whatever a page needs lies beside it: no font, script or formula is fetched.

Sphinx with MyST-NB: both are maintained, read notebooks and Markdown as they are, and take docstrings from the code.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode

from autograders.results.formulas import mathml

project = os.environ["COURSE_TITLE"]
author = f"The authors of {project}"
copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.header", "misc.highlighting_failure", "toc.not_included", "mystnb.mime_type"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "groupwise"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
exclude_patterns = ["_build"]
html_math_renderer = "mathml"


def _formula(writer: Any, node: Any) -> None:
    """A formula as MathML, which browsers show by themselves."""
    block = node.tagname == "math_block"
    formula = mathml(node.astext(), block=block)
    writer.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise SkipNode


def _for_the_keyboard(app: Any, exception: Exception | None) -> None:
    """What scrolls can be reached by a key, and a heading says its level: Sphinx writes neither."""
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text("utf-8")
        text = text.replace('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">')
        text = text.replace("<pre>", '<pre tabindex="0">').replace(
            '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'
        )
        # A table that a cell printed has no wrapper. On a phone it scrolls by itself.
        text = re.sub(r"<table(?![^>]*docutils)", '<table tabindex="0"', text)
        path.write_text(text, "utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
    app.connect("build-finished", _for_the_keyboard)
