"""What a released notebook carries so that a submission says which release it was made from."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from ..notebooks import STAMP, assignment_version
from .lost_metadata import refuse_lost_metadata


class StampRelease(NbGraderPreprocessor):
    """Stamps assignment and version into the notebook's metadata, and drops the state of the master's widgets."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Stamp one notebook; first in the list, since later steps change what the version is computed from."""
        refuse_lost_metadata(self.config)
        # nbgrader releases the saved state of widgets, in which the solutions' outputs can be read.
        nb.metadata.pop("widgets", None)
        nb.metadata[STAMP] = {
            "assignment": resources["nbgrader"]["assignment"],
            "version": assignment_version(nb),
        }
        return nb, resources
