"""Whether a configuration would take the metadata out of notebooks that scores are saved by."""

from __future__ import annotations

from typing import Any

from ..course import CourseError


def refuse_lost_metadata(config: Any) -> None:
    """Raise CourseError when nbgrader is set to strip the metadata by which scores are saved."""
    if config.get("ClearMetadataPreprocessor", {}).get("enabled", False):
        raise CourseError(
            "ClearMetadataPreprocessor is enabled: it strips nbgrader's metadata, and scores are then not saved. "
            "Remove `c.ClearMetadataPreprocessor.enabled = True` from nbgrader_config.py (also in ~/.jupyter)."
        )
