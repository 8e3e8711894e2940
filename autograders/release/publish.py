"""Makes the student's repository: the bundle with its way to Binder and Colab, checked, in a folder ready to push."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..course import Course, ReleaseError
from ..notebooks import ROOT
from .checkout import clean_commit, committed_files
from .online import put_online
from .publications import add_published
from .release import Draft, drafted, enter, refuse_leaks
from .repository import Repository
from .student_folder import FOLDERS, library_version, write_stamp


@dataclass(frozen=True)
class Release:
    """What was published."""

    tag: str
    folder: Path
    repository: Repository
    versions: dict[str, str]

    def __str__(self) -> str:
        lines = [f"published {name}, version {version}" for name, version in self.versions.items()]
        commit = f'git add --all && git commit --quiet --message "Release {self.tag}" && git tag {self.tag}'
        push = f"git push {self.repository.url} HEAD:main {self.tag}"
        return "\n".join(
            [
                *lines,
                f"release {self.tag} is in {self.folder}. Students get it when it is pushed; the first one:",
                f"  cd {self.folder} && git init --quiet --initial-branch main && {commit} && {push}",
                "a later one, behind those that are there:",
                f"  cd {self.folder} && git clone --quiet --bare {self.repository.url} .git && "
                f"git config core.bare false && {commit} && {push}",
            ]
        )


def publish(
    course: Course,
    assignments: Sequence[str],
    repository: str,
    to: Path,
    *,
    verify: bool = True,
    progress: bool = True,
    replace: bool = False,
) -> Release:
    """Release assignments and write the repository that students clone into the folder `to`.

    Args:
        course: where the release is entered, so that it is what will be graded.
        assignments: their names.
        repository: the web address under which the repository will be public.
        to: a folder that does not exist, or is empty.
        verify: try the bank of answers on this course's hidden inputs.
        progress: show how far that is.
        replace: also when students have handed in from an earlier release.

    Raises:
        RepositoryError: no such address.
        CheckoutError: the checkout has changes that no commit holds.
        ReleaseError: `to` holds something, the content gives an answer away, or an answer of the bank gets other
            points than it declares. In all cases nothing was written.

    """
    where = Repository.parse(repository)
    to = to.resolve()
    _refuse_target(to)
    commit = clean_commit(ROOT)
    with drafted(course, assignments, verify=verify, progress=progress, replace=replace) as draft:
        # Of the folder before the tag is written into its notebooks: a tag cannot be part of its own digest.
        tag = f"v{library_version()}-{_digest(draft.bundle)[:8]}"
        folder = draft.bundle.with_name("published")
        shutil.copytree(draft.bundle, folder)
        put_online(folder, assignments, where, tag)
        stamp = {"release": tag, "repository": where.url, "lecture_lib": library_version()}
        write_stamp(folder, {**stamp, "assignments": draft.versions})
        # Once more: since the draft was checked, `put_online` has written into this folder.
        refuse_leaks([*draft.leaks(folder), *_not_committed(folder)])
        _write(course, draft, folder, to, lambda: add_published(course, tag, where.url, commit, draft.versions))
    return Release(tag, to, where, draft.versions)


def _refuse_target(to: Path) -> None:
    if to.exists() and not (to.is_dir() and not any(to.iterdir())):
        raise ReleaseError(f"{to} is not empty: name a folder that does not exist. Nothing was written.")


def _digest(folder: Path) -> str:
    """A digest of a folder's files and their names: what is published twice without a change has one tag."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _not_committed(folder: Path) -> list[str]:
    """Files of the checkout that git ignores, such as somebody's notes or keys in lecture_lib."""
    committed = committed_files(ROOT)
    names = (path.relative_to(folder).as_posix() for part in FOLDERS for path in (folder / part).rglob("*"))
    return [
        f"{name} is in no commit; move it out of the checkout's folder"
        for name in sorted(names)
        if name not in committed and (folder / name).is_file()
    ]


def _write(course: Course, draft: Draft, folder: Path, to: Path, note: Callable[[], None]) -> None:
    """Copy the folder beside its place, enter the release into the course, and put the folder there in one step."""
    to.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target: a rename in one step works only within a file system.
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.") as beside:
        staged = Path(beside) / to.name
        shutil.copytree(folder, staged)
        enter(course, draft)
        # Before the folder is there: what students may clone must already be among the published releases.
        note()
        staged.rename(to)
