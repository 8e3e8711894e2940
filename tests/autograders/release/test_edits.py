"""What somebody changed in the student's folder is kept when a release replaces it."""

from __future__ import annotations

import shutil
from pathlib import Path

from autograders.release.edits import edited, keep_edits


def a_bundle(folder: Path) -> tuple[Path, Path]:
    bundle = folder / "bundle"
    (bundle / "notebooks").mkdir(parents=True)
    (bundle / "notebooks" / "03a.ipynb").write_text("released")
    (bundle / "README.md").write_text("read me")
    return bundle, Path(shutil.make_archive(str(bundle), "zip", folder, "bundle"))


def test_only_what_was_changed_or_added_by_hand_is_kept(tmp_path: Path) -> None:
    bundle, archive = a_bundle(tmp_path)
    assert keep_edits(bundle, archive) is None
    (bundle / "notebooks" / "03a.ipynb").write_text("answered")
    (bundle / "notebooks" / "notes.txt").write_text("mine")
    (bundle / "notebooks" / ".ipynb_checkpoints").mkdir()
    (bundle / "notebooks" / ".ipynb_checkpoints" / "03a.ipynb").write_text("of JupyterLab")
    assert edited(bundle, archive) == [Path("notebooks/03a.ipynb"), Path("notebooks/notes.txt")]
    kept = keep_edits(bundle, archive)
    assert kept is not None
    assert kept.parent == tmp_path
    assert (kept / "notebooks" / "03a.ipynb").read_text() == "answered"
    assert not (kept / "README.md").exists()


def test_without_an_archive_nothing_is_known_to_be_changed(tmp_path: Path) -> None:
    bundle, archive = a_bundle(tmp_path)
    archive.unlink()
    assert edited(bundle, archive) == []
