"""Lets nbgrader's Autograde read submissions the way `reading` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter

from .reading import read_notebook
from .rebuild import RebuildFromMaster


class LenientExporter(NotebookExporter):
    """Repairs what a submission can be repaired in; what cannot be read costs that submission only."""

    def from_filename(self, filename: str, resources: Any = None, **kwargs: Any) -> Any:
        """Convert one notebook file. Raises Unreadable, which nbgrader reports for this one submission."""
        if not any(isinstance(step, RebuildFromMaster) for step in self._preprocessors):
            return super().from_filename(filename, resources=resources, **kwargs)
        path = Path(filename)
        resources = {} if resources is None else resources
        resources["metadata"] = {"name": path.stem, "path": str(path.parent)}
        return self.from_notebook_node(read_notebook(path.read_bytes()).notebook, resources=resources, **kwargs)
