"""Build hooks: an editable install gets the instructor's `autograde` command; README is shown without its files.

The grading code is run from the instructor's checkout and is in no wheel, so its command must not be in one either.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class AutogradeCommand(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            build_data["shared_scripts"]["autograders/autograde"] = "autograde"


class ReadmeWithoutFiles(MetadataHookInterface):
    """README as a package index shows it, which has none of the pictures and files that the text refers to."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", text)
        text = re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
