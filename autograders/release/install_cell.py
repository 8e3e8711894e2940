"""The first code cell of a notebook that students get: on Colab it installs the course, elsewhere it does nothing.

It is no part of the assignment: its version is that of the notebook without it, and a submission with it is graded as
one without.
"""

from __future__ import annotations

from string import Template

from nbformat import NotebookNode

from .. import notebooks

CELL = "install-on-colab"
ARCHIVE = "bundle.zip"
# --no-deps: pip would put another PyTorch in the place of the one that fits Colab and its GPU.
FROM_REPOSITORY = Template("""\
# On Colab: installs this release beside Colab's own PyTorch and says what its GPU can do. Elsewhere: nothing.
import os

if "COLAB_RELEASE_TAG" in os.environ:
    %pip install --quiet --no-deps "lecture-lib @ $source"
    from lecture_lib.commands.doctor import show_gpu

    show_gpu()""")
FROM_BUNDLE = f"""\
# On Colab: asks for {ARCHIVE}, the file that you got, and installs the course from it. Elsewhere: nothing.
import os

if "COLAB_RELEASE_TAG" in os.environ:
    if not os.path.exists("{ARCHIVE}"):
        from google.colab import files

        files.upload_file("{ARCHIVE}")
    %pip install --quiet --no-deps ./{ARCHIVE}
    from lecture_lib.commands.doctor import show_gpu

    show_gpu()"""


def with_install_cell(nb: NotebookNode, source: str | None = None) -> NotebookNode:
    """Put the cell first, in the place of one that is there; returns the notebook.

    Args:
        nb: what students get.
        source: what pip installs the library from; None: from the bundle's archive.

    """
    text = FROM_BUNDLE if source is None else FROM_REPOSITORY.substitute(source=source)
    nb.cells = [notebooks.code_cell(text, CELL), *(cell for cell in nb.cells if cell["id"] != CELL)]
    return nb
