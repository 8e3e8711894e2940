"""`autograde publish`: what is in the folder, and what is refused before anything is written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from string import Template

import nbformat
import pytest
import yaml
from conftest import ROOT, autograde, kept_assignments
from helpers.student_computer import URL

from autograders import notebooks
from autograders.course import Course, CourseError, ReleaseError
from autograders.notebooks import assignments
from autograders.questions.bank import Answer
from autograders.questions.question import answer_to
from autograders.questions.seeds import read_secret
from autograders.questions.verdict_cache import Result
from autograders.questions.verify import Outcome, Sets
from autograders.release import install_cell, publish, release_check
from autograders.release.checkout import CheckoutError, clean_commit, committed_files
from autograders.release.publications import read_published, which_release
from autograders.release.publish import Release
from autograders.release.repository import Repository, RepositoryError
from lecture_lib.commands.doctor import PYTHONS

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"


@pytest.fixture
def checked_out(shorter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shorter notebooks, in a checkout without changes, and a bank that holds."""
    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setattr(publish, "clean_commit", lambda root: "0" * 40)
    monkeypatch.setattr(release_check, "verify", lambda questions, sets: iter(()))


@pytest.fixture(scope="module")
def published(shorter: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, Release]:
    folder = tmp_path_factory.mktemp("published")
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notebooks, "NOTEBOOKS", shorter)
        patch.setattr(publish, "clean_commit", lambda root: "0" * 40)
        patch.setattr(release_check, "verify", lambda *given: asked.append(given) or iter(()))
        course = Course(folder / "course")
        release = publish.publish(course, assignments(), URL, folder / "deep" / "to", progress=False)
    names = {question.id for questions, _ in asked for question in questions}
    assert names == {"03a-accumulate", "03a-clip", "03b-inspect", "03b-baseline"}
    drawn = {(sets.secret, sets.version, tuple(sets.indices)) for _, sets in asked}
    assert drawn == {(read_secret(course.secret), version, tuple(range(8))) for version in release.versions.values()}
    assert [path.name for path in (folder / "deep").iterdir()] == ["to"]
    return course, release


def test_the_folder_is_complete_and_holds_nothing_of_the_instructors(published: tuple[Course, Release]) -> None:
    course, release = published
    names = {path.relative_to(release.folder).as_posix() for path in release.folder.rglob("*")}
    assert {
        *("README.md", "CHANGELOG.md", "LICENSE", "LICENSE-prose", "pyproject.toml", "release.json", ".gitignore"),
        *("binder/environment.yml", "binder/postBuild", "assets/digits.npz", "lecture_lib/__init__.py"),
        *(f"notebooks/{name}.ipynb" for name in kept_assignments()),
    } <= names
    parts = {part for name in names for part in Path(name).parts}
    assert not {"autograders", "judges", "answers", "probes", "secret", "tests", "nbgrader_config.py"} & parts
    assert (release.folder / "binder" / "postBuild").stat().st_mode & 0o111 == 0o111
    secret = course.secret.read_bytes()
    for path in release.folder.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path
    stamp = json.loads((release.folder / "release.json").read_text("utf-8"))
    assert stamp["release"] == release.tag
    assert stamp["assignments"] == release.versions


def test_what_is_installed_needs_nothing_of_the_instructors(published: tuple[Course, Release], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(published[1].folder, folder)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    subprocess.run([*command, str(folder)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(about).decode()
    required = {line.removeprefix("Requires-Dist: ") for line in text.splitlines() if line.startswith("Requires-Dist")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert required == set(project["dependencies"])
    assert not any(name.startswith(("nbgrader", "jupytext", "pytest")) for name in required)
    assert "Provides-Extra" not in text


def test_the_notebooks_say_where_they_run_and_what_they_are(published: tuple[Course, Release]) -> None:
    course, release = published
    for name in kept_assignments():
        nb = nbformat.read(release.folder / "notebooks" / f"{name}.ipynb", as_version=4)
        nbformat.validate(nb)
        assert nb.metadata["lecture"] == {
            "assignment": name,
            "version": release.versions[name],
            "release": release.tag,
        }
        badges, install, *rest = nb.cells
        bundled = notebooks.read(course.bundle / "notebooks" / f"{name}.ipynb")
        assert [cell.source for cell in bundled.cells[1:]] == [cell.source for cell in rest]
        assert "bundle.zip" in bundled.cells[0].source
        assert f"[![Open {name} in Colab]" in badges.source
        colab = "https://colab.research.google.com/github/ada/training/blob"
        assert f"({colab}/{release.tag}/notebooks/{name}.ipynb)" in badges.source
        assert f"(https://mybinder.org/v2/gh/ada/training/{release.tag}?urlpath=lab%2Ftree" in badges.source
        assert f"lecture-lib @ git+{URL}@{release.tag}" in install.source
        assert len(install.source.splitlines()) <= 8
        released = notebooks.read(course.notebook("release", name))
        assert [cell.source for cell in rest] == [cell.source for cell in released.cells]


def test_the_readme_names_the_release_and_every_way_to_start(published: tuple[Course, Release]) -> None:
    release = published[1]
    text = (release.folder / "README.md").read_text("utf-8")
    for words in (f"git clone {URL} ", release.tag, "**Binder**", "**Colab**", "lecture doctor", "lecture submit"):
        assert words in text, words
    assert "$" not in text
    bundle = (published[0].bundle / "README.md").read_text("utf-8")
    assert "$" not in bundle
    assert "Binder" not in bundle
    assert "choose `bundle.zip`" in bundle


def test_students_and_doctor_have_the_same_versions_of_python(published: tuple[Course, Release]) -> None:
    project = tomllib.loads((published[1].folder / "pyproject.toml").read_text("utf-8"))["project"]
    lowest, above = (".".join(map(str, version)) for version in PYTHONS)
    assert project["requires-python"] == f">={lowest},<{above}"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("github.com/ada/training", "does not begin with https://"),
        ("git@github.com:ada/training.git", "does not begin with https://"),
        ("ssh://git@github.com/ada/training", "does not begin with https://"),
        ("file:///tmp/training", "does not begin with https://"),
        ("https://ada:token@github.com/ada/training", "every student would read"),
        ("https://github.com/ada", "OWNER/NAME"),
        ("https:///ada/training", "is no host"),
        ("https://github.com/ada/tra ining", "OWNER/NAME"),
        ('https://github.com/ada/x"; import os', "OWNER/NAME"),
        ("https://github.com/ada/training?tab=readme", "behind ? or #"),
        ("https://[github.com/ada/training", "Invalid IPv6 URL"),
        ("", "does not begin with https://"),
    ],
)
def test_an_address_that_students_could_not_use_is_refused(tmp_path: Path, url: str, words: str) -> None:
    with pytest.raises(RepositoryError, match=words.replace("?", r"\?")):
        publish.publish(Course(tmp_path / "course"), assignments(), url, tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "binder", "colab"),
    [
        ("https://github.com/a/b.git", "gh/a/b/v1", True),
        ("https://gitlab.com/a/group/b/", "gl/a%2Fgroup%2Fb/v1", False),
        ("https://git.example.org:8443/a/b", "git/https%3A%2F%2Fgit.example.org%3A8443%2Fa%2Fb/v1", False),
    ],
)
def test_addresses_on_each_host(url: str, binder: str, colab: bool) -> None:
    repository = Repository.parse(url)
    assert repository.binder("v1", "x").startswith(f"https://mybinder.org/v2/{binder}?urlpath=")
    assert (repository.colab("v1", "x") is not None) is colab
    assert ("Colab" in repository.badges("v1", "x")) is colab
    assert repository.pip("v1") == f"git+{url.removesuffix('/').removesuffix('.git')}@v1"


@pytest.mark.usefixtures("checked_out")
@pytest.mark.parametrize("kind", ["a folder with a file", "a file"])
def test_a_target_that_holds_something_is_refused(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    if kind == "a file":
        to.write_text("mine", "utf-8")
    else:
        to.mkdir()
        (to / "mine").write_text("mine", "utf-8")
    with pytest.raises(ReleaseError, match="is not empty: name a folder that does not exist"):
        publish.publish(Course(tmp_path / "course"), assignments(), URL, to)
    assert [path.name for path in tmp_path.iterdir()] == ["to"]


def plant_solution(nb: nbformat.NotebookNode) -> None:
    (answer,) = [c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "03a-accumulate"]
    nb.cells.append(nbformat.v4.new_code_cell(answer.source.split("### BEGIN SOLUTION")[1].split("### END")[0]))


@pytest.mark.usefixtures("checked_out")
@pytest.mark.parametrize("what", ["a leak", "a wrong verdict", "a file in no commit", "a leak in what is added"])
def test_a_release_that_fails_its_checks_is_not_published(
    tmp_path: Path, shorter: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "a leak":
        folder = tmp_path / "notebooks"
        shutil.copytree(shorter, folder)
        nb = notebooks.read(folder / FIRST / f"{FIRST}.ipynb")
        plant_solution(nb)
        nbformat.write(nb, folder / FIRST / f"{FIRST}.ipynb")
        monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)
        words = "the solution 03a-training-recipe/03a-accumulate"
    elif what == "a wrong verdict":
        results = (Result(8.0, None, None), Result(7.0, "loops", None))
        bad = Outcome("03a-clip", Answer("right_loops", "", 8.0, None, ""), results, Sets(indices=(4, 5)))
        monkeypatch.setattr(release_check, "verify", lambda questions, sets: iter([bad]))
        words = r"(?s)answers of the bank \(1\) do not get .*right_loops: declares 8 points; got .* and loops on set 5"
    elif what == "a file in no commit":
        known = committed_files(ROOT) - {"lecture_lib/_common/palette.py"}
        monkeypatch.setattr(publish, "committed_files", lambda root: known)
        words = "lecture_lib/_common/palette.py is in no commit"
    else:
        solution = answer_to("03a-clip", "right_loops")
        install = Template(install_cell.FROM_REPOSITORY.template + "\n" + solution.replace("$", "$$"))
        monkeypatch.setattr(install_cell, "FROM_REPOSITORY", install)
        words = "the answer 03a-clip/right_loops"
    course = Course(tmp_path / "course")
    with pytest.raises(ReleaseError, match=words):
        publish.publish(course, [FIRST], URL, tmp_path / "deep" / "to", progress=False)
    assert not course.root.exists()
    assert not (tmp_path / "deep").exists()


@pytest.mark.usefixtures("checked_out")
def test_what_fails_while_writing_leaves_no_half_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "enter", full)
    with pytest.raises(OSError, match="No space left"):
        publish.publish(Course(tmp_path / "course"), [FIRST], URL, tmp_path / "to", progress=False)
    assert list(tmp_path.iterdir()) == []


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_checkout_with_changes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckoutError, match="is no git checkout with a commit"):
        clean_commit(tmp_path)
    git(tmp_path, "init", "--quiet")
    with pytest.raises(CheckoutError, match="is no git checkout with a commit"):
        clean_commit(tmp_path)
    (tmp_path / "a").write_text("a", "utf-8")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--quiet", "--message", "a")
    assert len(clean_commit(tmp_path)) == 40
    assert committed_files(tmp_path) == {"a"}
    (tmp_path / "new").write_text("b", "utf-8")
    with pytest.raises(CheckoutError, match=r"Commit or stash them:\n  \?\? new"):
        clean_commit(tmp_path)
    (tmp_path / "new").unlink()
    (tmp_path / "a").write_text("b", "utf-8")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    with pytest.raises(CheckoutError, match="  M a"):
        publish.publish(Course(tmp_path / "course"), [FIRST], URL, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_the_command_says_in_a_line_why_it_refuses(tmp_path: Path) -> None:
    done = autograde("publish", "--repository", "github.com/ada/x", "--to", tmp_path / "to", "--course", tmp_path / "c")
    assert done.code == 1
    assert done.err.startswith("autograde publish: 'github.com/ada/x' is no address of a repository")
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_which_release_a_submission_is_of(published: tuple[Course, Release], tmp_path: Path) -> None:
    course, release = published
    version = release.versions[FIRST]
    (entry,) = read_published(course.root)
    own = which_release([entry], FIRST, version, release.tag)
    assert own == f"{release.tag}, published {entry.when}"
    forged = which_release(read_published(course.root), FIRST, "abc", release.tag)
    assert forged == f"{release.tag}, not published from this course"
    assert "not published" in which_release(read_published(course.root), FIRST, version, "v9.9.9-00000000")
    assert which_release(read_published(course.root), FIRST, version, None) == f"version {version}"
    assert which_release(read_published(course.root), FIRST, None, None) == "unknown"
    (tmp_path / "published.json").write_text("[{", "utf-8")
    with pytest.raises(CourseError, match="cannot be read"):
        read_published(tmp_path)


CONDA_NAMES = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base"}


def test_binder_installs_what_the_package_asks_for_and_no_cuda() -> None:
    content = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = set(content["dependencies"])
    for requirement in project["dependencies"]:
        name, lowest = requirement.split(">=")
        assert f"{CONDA_NAMES.get(name, name)}>={lowest}" in listed
    (python,) = (entry.split("=")[1] for entry in listed if entry.startswith("python="))
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    assert not any(word in entry for entry in listed for word in ("cuda", "nvidia", "gpu", "cudnn"))
    assert content["channels"][0] == "conda-forge"
