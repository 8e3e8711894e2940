"""What forked kernels and answers would import by themselves, each of them, is imported before they are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograders import imports
from autograders.imports import imported_modules

ROOT = Path(__file__).resolve().parents[2]

_SET_UP = """
import importlib, sys
from autograders import notebooks
from autograders.imports import imported_modules
for name in imported_modules():
    importlib.import_module(name)
before = set(sys.modules)
for assignment in notebooks.assignments():
    namespace = {}
    for cell in notebooks.read(notebooks.master_path(assignment)).cells:
        if "setup" in cell.metadata.get("tags", []):
            exec(cell.source, namespace)
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(packages - sys.stdlib_module_names))
"""


@pytest.mark.slow
def test_after_them_the_set_up_cells_import_no_further_package() -> None:
    done = subprocess.run([sys.executable, "-c", _SET_UP], cwd=ROOT, capture_output=True, text=True, check=True)
    packages = {"sklearn", "scipy", "matplotlib", "torch", "torchvision", "PIL", "lecture_lib"}
    assert not packages & set(done.stdout.split())


def test_the_imports_of_functions_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "01-text.py"
    text.write_text("# %%\nimport a.b as c, d\nfrom e.f import g\n\ndef h():\n    import i\n", "utf-8")
    monkeypatch.setattr(imports, "text_paths", lambda: [text, text])
    assert imported_modules() == ("a.b", "d", "e.f", *imports.IMPORTED_LATE)
