"""From `autograde publish` to a student's feedback: two folders, and nothing but the words of the READMEs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from conftest import autograde
from helpers.student_computer import URL, Computer, bare_repository, fenced, packages_of_students

from autograders import notebooks
from autograders.course import Course
from autograders.notebooks import assignments
from autograders.questions.question import QUESTIONS, answer_to
from autograders.release import publish
from autograders.release.publish import Release

pytestmark = pytest.mark.slow

FIRST, SECOND = "03a-training-recipe", "03b-debug-ladder"
ANSWERED = {"03a-accumulate": "right_weighted", "03a-clip": "wrong_per_parameter", "03b-inspect": "right_sets"}


@dataclass(frozen=True)
class Pushed:
    """A course that was published and pushed, and a student's computer from which the repository can be reached."""

    course: Course
    release: Release
    computer: Computer
    packages: Path


@pytest.fixture(scope="module")
def pushed(shorter: Path, tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    """The shorter notebooks, published and pushed with the commands that `publish` prints."""
    folder = tmp_path_factory.mktemp("published")
    computer = Computer(folder / "home", bare_repository(folder / "remote.git"))
    computer.home.mkdir()
    course = Course(folder / "instructor" / "course")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notebooks, "NOTEBOOKS", shorter)
        patch.setattr(publish, "clean_commit", lambda root: "0" * 40)
        release = publish.publish(
            course, assignments(), f"{URL}.git/", folder / "instructor" / "to", verify=False, progress=False
        )
    printed = str(release).splitlines()
    computer.run(printed[printed.index(next(line for line in printed if "the first one" in line)) + 1], folder)
    return Pushed(course, release, computer, packages_of_students(folder / "packages"))


def answer(path: Path) -> float:
    """Write answers of the bank into a notebook, as a student would; the points that they declare."""
    nb = nbformat.read(path, as_version=4)
    points = 0.0
    for cell in nb.cells:
        question = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if question in ANSWERED:
            cell.source = answer_to(question, ANSWERED[question])
            declared = {found.name: found.points for found in QUESTIONS[question].answers()}
            points += declared[ANSWERED[question]]
    nbformat.write(nb, path)
    return points


def test_from_publishing_to_feedback_by_the_readme_alone(pushed: Pushed, tmp_path: Path) -> None:
    # The student: the commands of the README, in its order.
    home = tmp_path / "student"
    home.mkdir()
    student = Computer(home, pushed.computer.remote)
    readme = (pushed.release.folder / "README.md").read_text("utf-8")
    get, install, on_mac, on_windows, hand_in, _ = fenced(readme)
    assert on_mac == install.replace("python3", "python3.13", 1)
    assert on_windows.splitlines()[2:] == install.splitlines()[2:]
    student.run(get, home)
    clone = home / get.split("cd ")[1].strip()
    make, *others = install.splitlines()
    student.make_environment(clone, pushed.packages, make)
    assert others[-1] == "jupyter lab notebooks"
    said = student.run("\n".join(others[:-1]), clone)
    assert "all is well" in said
    expected = {name: answer(clone / "notebooks" / f"{name}.ipynb") for name in (FIRST, SECOND)}
    said = student.run(hand_in.replace("YOUR-ID", "ada").replace("Your Name", "Ada L."), clone)
    assert "not answered yet: 03b-baseline" in said
    (file,) = clone.glob("submission-*.zip")

    # The instructor: collect, grade, feedback, gradebook.
    course = pushed.course
    for arguments in (["collect", file], ["grade", "--quiet"], ["feedback", "--quiet"], ["gradebook"]):
        done = autograde(*arguments, course=course)
        assert done.code == 0, done.out + done.err
    report = autograde("report", course=course)
    assert report.code == 0, report.err

    # The student reads the page.
    tag = pushed.release.tag
    for name in (FIRST, SECOND):
        page = course.notebook("feedback", name, "ada").with_suffix(".html").read_text("utf-8")
        score = re.search(r"<strong>([\d.]+) of ([\d.]+) points", page)
        assert score is not None
        assert float(score[1]) == expected[name]
        assert re.search(rf"Made from release: {re.escape(tag)}, published 20\d\d-", page)
        assert "not published from this course" not in page
        record = json.loads(course.journal(name, "ada").read_text("utf-8"))
        assert record["submitted_release"] == tag
        assert record["submitted_version"] == record["version"] == pushed.release.versions[name]
        assert record["notes"] == []
    assert tag in course.grades.read_text("utf-8")
    assert (clone / "release.json").read_text("utf-8").count(tag) == 1


FIRST_CELLS = """
import sys, nbformat
from nbclient import NotebookClient
nb = nbformat.read(sys.argv[1], as_version=4)
code = [number for number, cell in enumerate(nb.cells) if cell.cell_type == "code"]
nb.cells = nb.cells[: code[2] + 1]
NotebookClient(nb, timeout=120, kernel_name="python3", allow_errors=True).execute()
outputs = [output for cell in nb.cells for output in cell.get("outputs", [])]
for output in outputs:
    print(output.get("text") or output.get("ename") or output.get("data"))
"""


def test_on_colab_the_first_cell_installs_the_tagged_release(pushed: Pushed, tmp_path: Path) -> None:
    """In a Python that has PyTorch and not the course, as Colab's is; `%pip` installs from the pushed repository."""
    pushed.computer.make_environment(tmp_path, pushed.packages)
    (tmp_path / "first_cells.py").write_text(FIRST_CELLS, "utf-8")
    path = pushed.release.folder / "notebooks" / f"{FIRST}.ipynb"
    command = f".venv/bin/python first_cells.py '{path}'"
    # Elsewhere the cell does nothing: the imports behind it fail here, and nothing was installed.
    said = pushed.computer.run(command, tmp_path)
    assert said.split() == ["ModuleNotFoundError"]
    assert not list(tmp_path.glob(".venv/lib/python3*/site-packages/lecture_lib*"))
    said = pushed.computer.run(command, tmp_path, COLAB_RELEASE_TAG="release-colab")
    assert "no GPU here, and nothing needs one" in said
    assert "Error" not in said
    (installed,) = tmp_path.glob(".venv/lib/python3*/site-packages/lecture_lib-*.dist-info/direct_url.json")
    source = json.loads(installed.read_text("utf-8"))
    assert source["vcs_info"]["requested_revision"] == pushed.release.tag
    assert source["url"] == pushed.computer.remote.as_uri() or source["url"] == URL


def test_on_colab_the_first_cell_of_the_bundle_installs_from_its_archive(pushed: Pushed, tmp_path: Path) -> None:
    """The archive is asked for once: by what Colab has for it, here a module that copies a file."""
    pushed.computer.make_environment(tmp_path, pushed.packages)
    (tmp_path / "first_cells.py").write_text(FIRST_CELLS, "utf-8")
    (tmp_path / "google" / "colab").mkdir(parents=True)
    archive = f"{pushed.course.bundle}.zip"
    upload = f"import shutil\ndef upload_file(name):\n    print('uploaded')\n    shutil.copy({archive!r}, name)\n"
    (tmp_path / "google" / "colab" / "files.py").write_text(upload, "utf-8")
    command = f".venv/bin/python first_cells.py '{pushed.course.bundle / 'notebooks' / FIRST}.ipynb'"
    assert pushed.computer.run(command, tmp_path).split() == ["ModuleNotFoundError"]
    for uploads in (1, 0):
        said = pushed.computer.run(command, tmp_path, COLAB_RELEASE_TAG="release-colab", PYTHONPATH=str(tmp_path))
        assert said.count("uploaded") == uploads
        assert "no GPU here, and nothing needs one" in said
        assert "Error" not in said
    assert list(tmp_path.glob(".venv/lib/python3*/site-packages/lecture_lib-*.dist-info/direct_url.json"))


def test_a_later_release_goes_behind_the_first(
    pushed: Pushed, shorter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second command that `publish` prints, and a student who pulls."""
    home = tmp_path / "student"
    home.mkdir()
    student = Computer(home, pushed.computer.remote)
    student.run(f"git clone --quiet {URL} course", home)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setattr(publish, "clean_commit", lambda root: "1" * 40)
    course = Course(tmp_path / "course")
    later = publish.publish(course, [FIRST], URL, tmp_path / "to", verify=False, progress=False)
    assert later.tag != pushed.release.tag
    student.run(str(later).splitlines()[-1], tmp_path)
    student.run("git pull --quiet", home / "course")
    assert later.tag in (home / "course" / "README.md").read_text("utf-8")
    assert not (home / "course" / "notebooks" / f"{SECOND}.ipynb").exists()
    assert student.run("git tag", tmp_path / "to").split() == sorted([pushed.release.tag, later.tag])


def test_binders_last_step_runs_in_the_published_folder(pushed: Pushed, tmp_path: Path) -> None:
    """binder/postBuild, as far as it can be run without Binder: in a Python with the packages and not the course."""
    pushed.computer.run(f"git clone --quiet {URL} .", tmp_path)
    pushed.computer.make_environment(tmp_path, pushed.packages)
    path = f"{tmp_path / '.venv' / 'bin'}:{pushed.computer.environment['PATH']}"
    said = pushed.computer.run("./binder/postBuild", tmp_path, PATH=path, MPLCONFIGDIR=str(tmp_path / "matplotlib"))
    assert "all is well" in said
    assert list((tmp_path / "matplotlib").glob("fontlist-*.json"))
    assert list((tmp_path / "lecture_lib").rglob("*.pyc"))
