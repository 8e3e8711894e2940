"""Lets nbgrader's Autograde read submissions the way `reading` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import CheckCellMetadata, NbGraderPreprocessor
from traitlets import Unicode

from ..intake.reading.archives import RefusedArchive, read_file
from ..intake.reading.decoding import Unreadable
from ..intake.reading.limited_reading import read_notebook, rebuilt
from ..notebooks import as_text
from .lost_metadata import refuse_lost_metadata


class RebuildFromMaster(NbGraderPreprocessor):
    """Replaces the submission by the released notebook with the submission's answers."""

    course_root = Unicode(help="The course's working folder, which holds the released notebooks.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Rebuild one notebook. Raises Unreadable."""
        refuse_lost_metadata(self.config)
        assignment = resources["nbgrader"]["assignment"]
        release = Path(self.course_root) / "release" / assignment / f"{assignment}.ipynb"
        return rebuilt(nb, release), resources


class LenientExporter(NotebookExporter):
    """Repairs what a submission can be repaired in; what cannot be read costs that submission only."""

    def from_filename(self, filename: str, resources: Any = None, **kwargs: Any) -> Any:
        """Convert one notebook file. Raises Unreadable, which nbgrader reports for this one submission."""
        # nbgrader converts twice: first the student's file, then, without this step, the one that it wrote itself.
        if not any(isinstance(step, RebuildFromMaster) for step in self._preprocessors):
            return super().from_filename(filename, resources=resources, **kwargs)
        path = Path(filename)
        resources = {} if resources is None else resources
        resources["metadata"] = {"name": path.stem, "path": str(path.parent)}
        try:
            content = read_file(path)
        except RefusedArchive as error:
            raise Unreadable(str(error)) from None
        return self.from_notebook_node(read_notebook(content).notebook, resources=resources, **kwargs)

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **kwargs: Any) -> Any:
        """Convert a notebook; returns its text and the resources."""
        # Past NotebookExporter, which writes the file with nbformat: ten times slower than `as_text`.
        nb, resources = super(NotebookExporter, self).from_notebook_node(nb, resources, **kwargs)
        return as_text(nb), resources


class CheckMetadataOnce(CheckCellMetadata):
    """nbgrader's check of its metadata, which is slow, once for all notebooks that have the same."""

    _passed: set[str] = set()  # noqa: RUF012 - on purpose one for the process

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Check the metadata of one notebook. Raises nbgrader's ValidationError."""
        metadata = json.dumps([cell.metadata.get("nbgrader") for cell in nb.cells], sort_keys=True)
        if metadata not in self._passed:
            super().preprocess(nb, resources)
            self._passed.add(metadata)
        return nb, resources
