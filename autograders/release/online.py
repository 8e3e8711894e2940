"""What a published notebook has and one in the bundle has not: the way to Colab and Binder, its release's name.

The cell with the badges is no part of the assignment, as the one that installs (install_cell.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

import nbformat
from nbformat import NotebookNode

from .. import notebooks
from ..notebooks import STAMP
from .install_cell import with_install_cell
from .repository import Repository
from .student_folder import FOLDER, STUDENT, write_readme


def put_online(folder: Path, assignments: Sequence[str], repository: Repository, tag: str) -> None:
    """Change a student's folder into a release that lies in a repository under a tag."""
    for name in assignments:
        path = folder / "notebooks" / f"{name}.ipynb"
        nb = notebooks.read(path)
        _mark(nb, name, repository, tag)
        nbformat.write(nb, path)
    on_colab = all(repository.colab(tag, name) for name in assignments)
    online = Template((STUDENT / "binder.md").read_text("utf-8") + (STUDENT / "colab.md").read_text("utf-8") * on_colab)
    badges = "\n".join(f"- {name}: {repository.badges(tag, name)}" for name in assignments)
    get = Template((STUDENT / "clone.md").read_text("utf-8")).substitute(url=repository.url, tag=tag, folder=FOLDER)
    write_readme(folder, get.rstrip(), "\n" + online.substitute(badges=badges).rstrip() + "\n")


def _mark(nb: NotebookNode, name: str, repository: Repository, tag: str) -> None:
    """Put the badges and the installing cell first, and the tag into the stamp that submissions carry."""
    nb.metadata[STAMP]["release"] = tag
    with_install_cell(nb, repository.pip(tag))
    # After the installing cell, which puts itself first.
    nb.cells.insert(0, nbformat.v4.new_markdown_cell(repository.badges(tag, name), id="open-online"))
