"""Build hook: an editable install also gets the instructor's `autograde` command.

The grading code is run from the instructor's checkout and is in no wheel, so its command must not be in one either.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AutogradeCommand(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            build_data["shared_scripts"]["autograders/autograde"] = "autograde"
