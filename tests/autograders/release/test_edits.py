"""What somebody changed in the student's folder is kept when a release replaces it."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograders.release import edits
from autograders.release.archive import write_archive
from autograders.release.edits import edited, keep_edits, replace_folder


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


@pytest.mark.parametrize("left", ["nothing", "half", "a damaged file in it"])
def test_without_an_archive_that_can_be_read_the_whole_folder_is_kept(tmp_path: Path, left: str) -> None:
    bundle, archive = a_bundle(tmp_path)
    content = archive.read_bytes()
    if left == "nothing":
        archive.unlink()
    elif left == "half":
        archive.write_bytes(content[: len(content) // 2])
    else:
        archive.write_bytes(damaged(content))
    assert edited(bundle, archive) == [Path("README.md"), Path("notebooks/03a.ipynb")]


def damaged(content: bytes) -> bytes:
    """An archive with a wrong byte in the middle of its first file."""
    place = content.index(b"README.md") + len(b"README.md") + 3
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


@pytest.mark.parametrize("step", range(4))
def test_a_release_that_is_killed_loses_no_edit_and_leaves_a_whole_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Stopped before each of the steps that change something, and run again."""
    bundle, archive = a_bundle(tmp_path)
    (bundle / "notebooks" / "03a.ipynb").write_text("three weeks of work")
    new = tmp_path / "new" / "course"
    new.mkdir(parents=True)
    (new / "03a.ipynb").write_text("released again")
    calls: list[str] = []

    def stopping(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(original.__name__)
            if len(calls) == step + 1:
                raise KeyboardInterrupt
            return original(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for place, name in ((shutil, "copytree"), (edits, "write_archive"), (Path, "rename")):
            patched.setattr(place, name, stopping(getattr(place, name)))
        with pytest.raises(KeyboardInterrupt):
            replace_folder(new, bundle, archive)
    assert calls == ["copytree", "write_archive", "rename", "rename"][: step + 1]
    assert zipfile.ZipFile(archive).testzip() is None
    replace_folder(new, bundle, archive)
    assert [path.name for path in bundle.iterdir()] == ["03a.ipynb"]
    assert "three weeks of work" in {path.read_text() for path in tmp_path.glob("edited-*/notebooks/03a.ipynb")}
    assert zipfile.ZipFile(archive).read("course/03a.ipynb") == b"released again"
    assert not list(tmp_path.glob(".bundle*"))


def test_an_old_folder_that_is_left_is_not_deleted_before_its_edits_are_kept(tmp_path: Path) -> None:
    """An editor that is still open writes the folder anew, and what was moved away is the only copy."""
    bundle, archive = a_bundle(tmp_path)
    bundle.rename(tmp_path / ".bundle.old")
    (tmp_path / ".bundle.old" / "notebooks" / "03a.ipynb").write_text("three weeks of work")
    (bundle / "notebooks").mkdir(parents=True)
    (bundle / "notebooks" / "notes.txt").write_text("saved by an editor")
    new = tmp_path / "new" / "course"
    new.mkdir(parents=True)
    replace_folder(new, bundle, archive)
    assert {path.read_text() for path in tmp_path.glob("edited-*/notebooks/*")} == {
        "three weeks of work",
        "saved by an editor",
    }


def test_the_archive_is_the_old_one_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, archive = a_bundle(tmp_path)
    before = archive.read_bytes()

    def cut_off(base: str, *_: object) -> str:
        Path(f"{base}.zip").write_bytes(before[:50])
        raise OSError("no space left on device")

    monkeypatch.setattr(shutil, "make_archive", cut_off)
    with pytest.raises(OSError, match="no space"):
        write_archive(bundle, archive)
    assert archive.read_bytes() == before
