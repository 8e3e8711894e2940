"""What the course's notebooks import: a process from which kernels or answers are forked imports it once for all."""

from __future__ import annotations

import ast

from .notebooks import text_paths

IMPORTED_LATE = ("torch._dynamo", "sklearn.model_selection", "torchvision.transforms.v2")
"""What functions import when they are called: PyTorch its compiler, for the first optimizer, which takes seconds."""


def imported_modules() -> tuple[str, ...]:
    """The modules that the notebooks' cells import, functions left out, and those above."""
    modules: dict[str, None] = {}
    for text in text_paths():
        for node in ast.parse(text.read_text("utf-8")).body:
            if isinstance(node, ast.Import):
                modules |= dict.fromkeys(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules[node.module] = None
    return (*modules, *IMPORTED_LATE)
