"""A new question: its skeleton is refused until it is filled in, and then works from the build to the verdict."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT

from autograders import notebooks
from autograders.__main__ import main
from autograders.new_course import write_course
from autograders.new_question import question_cells, write_question
from autograders.notebooks import NotebookError
from autograders.questions import visible
from lecture_lib._common.course_setting import CourseSettingError, read_course_setting

pytestmark = pytest.mark.slow


class Places(NamedTuple):
    """Where a course has its things, as paths in the checkout: the entries of `lecture_lib/course.toml`."""

    questions: str
    notebooks: str
    descriptions: str
    answers: str


PACKAGES = ("questions", "descriptions")
OUR_ANSWERS = "autograders/questions/answers"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a question lives in."""
    for name in ("lecture_lib", "autograders", "assets", "binder"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copyfile(path, tmp_path / path.name)
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autograders", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


OURS = Places("lecture_lib/notebook/questions", "notebooks", "autograders/questions/descriptions", OUR_ANSWERS)
ELSEWHERE = Places("statistics_course/questions", "lessons", "hidden/descriptions", "hidden/answers")
TITLE = "Statistics, by hand"


@pytest.fixture(
    params=[
        pytest.param(OURS, id="in our folders", marks=pytest.mark.full),
        pytest.param(ELSEWHERE, id="in folders and a package of its own"),
    ]
)
def other_course(checkout: Path, request: pytest.FixtureRequest) -> tuple[Path, Places]:
    """A checkout without a question of ours; in folders of its own as `autograde new-course` writes it."""
    places: Places = request.param
    if places == ELSEWHERE:
        folder = checkout.with_name("another")
        guide = (checkout / "autograders/guide/another-course.md").read_text("utf-8")
        (line,) = re.findall(r"^\.venv/bin/autograde (new-course .*)", guide, re.MULTILINE)
        made = run(checkout, *shlex.split(line.replace("../statistics", str(folder))))
        assert made.returncode == 0, made.stderr
        return folder, places
    for folder in OURS:
        for path in (checkout / folder).iterdir():
            if path.suffix in (".py", ".json", ".md") and path.name != "__init__.py":
                path.unlink()
    (checkout / "lecture_lib/notebook/points.json").write_text("{}", "utf-8")
    return checkout, places


def write_setting(checkout: Path, places: Places) -> None:
    entries = {
        "title": TITLE,
        **places._asdict(),
        **{name: getattr(places, name).replace("/", ".") for name in PACKAGES},
    }
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in entries.items())
    (checkout / "lecture_lib/course.toml").write_text(text, "utf-8")


ANSWERS = """# Answers to 04a-double

""" + "\n".join(
    f"## {name}\n\n- points: {points}\n- misconception: {mistake}\n\n"
    f"```python\ndef double(x):\n    return {result}\n```\n"
    for name, points, mistake, result in [
        ("right_plain", 2, "none", "x"),
        ("right_sum", 2, "none", "x + 0"),
        ("right_twice", 2, "none", "-(-x)"),
        ("wrong_sign", 0, "sign", "-x"),
        ("wrong_sign_first", 0, "sign", "0 - x"),
        ("wrong_one_more", 0, "none", "x + 1"),
        ("wrong_zero", 0, "none", "0 * x"),
        ("wrong_double", 0, "none", "2 * x"),
        ("wrong_square", 0, "none", "x**2"),
    ]
)


def test_another_course_is_released_graded_and_reported(other_course: tuple[Path, Places]) -> None:
    """Nothing but the course's own four folders names a question, and its setting names the folders.

    In folders of its own it has the example question too.
    """
    checkout, places = other_course
    made = run(checkout, "new-question", "04a-double", "double")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(f"wrote {checkout / places.questions}/double.py") == 1
    fill_in(checkout, made.stdout, places.notebooks)
    (checkout / places.answers / "04a-double.md").write_text(ANSWERS, "utf-8")
    for command in (
        ("build",),
        ("verify", "--sets", "1"),
        ("release", "--course", "course"),
        ("simulate", "--course", "course", "--students", "10"),
        ("grade", "--course", "course", "--quiet", "--workers", "1"),
        ("feedback", "--course", "course", "--quiet"),
        ("report", "--course", "course"),
        ("gradebook", "--course", "course"),
    ):
        done = run(checkout, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert '"04a-double": 2' in (checkout / "lecture_lib/notebook/points.json").read_text("utf-8")
    count = 20 if places == ELSEWHERE else 10
    assert f"simulated class: all {count} scores and misconceptions equal the known ones" in done.stdout
    grades = (checkout / "course/grades.csv").read_text("utf-8")
    assert re.search(r"\b2(\.0)?,", grades), grades
    if places == ELSEWHERE:
        asked = {line.split(",")[2] for line in (checkout / "course/questions.csv").read_text("utf-8").splitlines()[1:]}
        assert asked == {"01a-centre", "04a-double"}
        pages = [checkout / "course/report.html", checkout / "course/bundle/README.md"]
        assert all(TITLE in page.read_text("utf-8") for page in pages)
        assert not any((checkout / place).exists() for place in OURS)
    check_in_bundle(checkout / "course/bundle", places.questions)


def check_in_bundle(bundle: Path, questions: str) -> None:
    """A student's visible check finds the question in what was released, and a wheel would hold its package."""
    code = (
        "import sys; from lecture_lib.notebook import check_result; "
        "print([line.state for line in check_result('04a-double', lambda x: x).lines], sys.modules['lecture_lib'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=bundle, capture_output=True, text=True, check=False)
    assert "['right', 'right']" in done.stdout, done.stderr
    assert str(bundle) in done.stdout
    wheel = tomllib.loads((bundle / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert questions.split("/")[0] in wheel["packages"]
    assert not (bundle / "hidden").exists()


WRONG_SETTINGS = {
    "another package": ({"questions": "physics/questions"}, "questions = 'physics.questions', and the checkout has no"),
    "another folder": ({"notebooks": "lessons"}, "notebooks = 'lessons', and the checkout has no folder lessons. Make"),
    "a path for a package": ({"questions": "a b"}, "questions = 'a b' is not the dotted name of a package"),
    "answers that would ship": ({"answers": "lecture_lib/data"}, "students get the whole of lecture_lib. Move it"),
    "descriptions that would ship": ({"descriptions": "lecture_lib/tape"}, "descriptions = 'lecture_lib.tape' lies in"),
    "graders that would ship": ({"questions": "autograders/probes"}, "students get the whole of autograders with it"),
    "a title of two lines": ({"title": "a\nb"}, "is not a title. Give a few words in one line"),
    "a path out of the checkout": ({"answers": "../answers"}, "answers = '../answers' is not a folder's path from"),
}


@pytest.mark.parametrize(("entries", "message"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_a_wrong_setting_is_refused_with_the_remedy(checkout: Path, entries: dict[str, str], message: str) -> None:
    write_setting(checkout, OURS._replace(**{name: entry for name, entry in entries.items() if name != "title"}))
    if "title" in entries:
        setting = checkout / "lecture_lib/course.toml"
        setting.write_text(setting.read_text("utf-8").replace(json.dumps(TITLE), json.dumps(entries["title"])), "utf-8")
    refused = run(checkout, "verify")
    assert refused.returncode == 1
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'questions = "a"\n',
            "course.toml: answers is missing. It holds title, questions, notebooks, descriptions, answers",
        ),
        ('answer = "a"\n', "course.toml: answer is not known"),
        ("questions = ", "course.toml cannot be read: Invalid value"),
        (
            "title = 't'\nquestions = 3\nnotebooks = 'n'\ndescriptions = 'd'\nanswers = 'a'",
            "questions = 3 is not the dotted name",
        ),
    ],
)
def test_what_is_no_setting_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "course.toml").write_text(text, "utf-8")
    with pytest.raises(CourseSettingError, match=re.escape(message)):
        read_course_setting(tmp_path / "course.toml")


def fill_in(checkout: Path, printed: str, notebooks: str = "notebooks") -> None:
    """Fill in a skeleton with its own words, and ask the question in a notebook."""
    for match in re.findall(rf"wrote {re.escape(str(checkout))}/(\S+):", printed):
        file = checkout / match
        file.write_text(file.read_text("utf-8").replace("FILL IN: ", ""), "utf-8")
    header = (ROOT / "notebooks" / "03a-training-recipe.py").read_text("utf-8").split("# %%")[0]
    cells = question_cells("04a-double", "double").replace("FILL IN: ", "")
    setup = '# %% tags=["setup"]\nimport torch\n\nfrom lecture_lib.notebook import check\n\n'
    (checkout / notebooks / "04a-new.py").write_text(f"{header}{setup}{cells}", "utf-8")


def test_a_skeleton_is_refused_until_it_is_filled_in(checkout: Path) -> None:
    made = run(checkout, "new-question", "04a-double", "double")
    assert made.returncode == 0, made.stderr
    files = [checkout / match for match in re.findall(rf"wrote {re.escape(str(checkout))}/(\S+):", made.stdout)]
    assert [file.name for file in files] == ["double.py", "double.py", "04a-double.md"]
    for command in (("build", "--questions"), ("verify", "--question", "04a-double")):
        refused = run(checkout, *command)
        assert refused.returncode == 1
        assert "double.py, line 1: what is asked, in one line" in refused.stderr
        assert "04a-double.md, line 3: at least three right answers" in refused.stderr
    fill_in(checkout, made.stdout)
    written = run(checkout, "build", "--questions")
    assert written.returncode == 0, written.stderr
    assert "questions/04a-double.json" in written.stdout


@pytest.mark.parametrize(
    ("question", "function", "message"),
    [
        ("clip", "clip", "'clip' cannot be a question's id"),
        ("../03a-clip", "clip", "cannot be a question's id"),
        ("03a-new", "lambda", "'lambda' cannot be a function's name"),
        ("03a-new", "a b", "'a b' cannot be a function's name"),
        ("03a-clip", "clip", "clip.py is there already"),
    ],
)
def test_what_cannot_be_a_question_is_refused(question: str, function: str, message: str) -> None:
    before = sorted(path for path in (ROOT / "autograders/questions").rglob("*.*") if "__pycache__" not in path.parts)
    with pytest.raises(NotebookError, match=re.escape(message)):
        write_question(question, function)
    after = sorted(path for path in (ROOT / "autograders/questions").rglob("*.*") if "__pycache__" not in path.parts)
    assert after == before


@pytest.mark.parametrize(
    ("folder", "package", "title", "message"),
    [
        ("new", "statistics course", "Title", "'statistics course' cannot be the package's name"),
        ("new", "lecture_lib", "Title", "'lecture_lib' cannot be the package's name"),
        ("new", "class", "Title", "'class' cannot be the package's name"),
        ("new", "statistics", " ", "' ' cannot be the course's title"),
        ("used", "statistics", "Title", "used is there already, with something in it"),
        (str(ROOT / "another"), "statistics", "Title", "lies in this checkout"),
    ],
)
def test_what_cannot_be_a_course_is_refused(
    tmp_path: Path, folder: str, package: str, title: str, message: str
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(NotebookError, match=re.escape(message)):
        write_course(tmp_path / folder, package, title)
    assert [path.name for path in tmp_path.rglob("*")] == ["used", "notes.txt"]
    assert not (ROOT / "another").exists()


def test_a_folder_beside_the_checkout_may_be_named_from_within_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    beside = ROOT / os.path.relpath(tmp_path, ROOT)
    assert ".." in beside.parts
    with pytest.raises(NotebookError, match="is there already"):  # and not that it lies in the checkout
        write_course(beside, "statistics", "Title")


def test_a_question_that_no_notebook_asks_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(visible, "write_visible_cases", list)  # which takes half a minute
    assert main(["build", "--questions"]) == 0
    assert "asked in no notebook" not in capsys.readouterr().out
    monkeypatch.setattr(notebooks, "text_paths", list)
    assert main(["build", "--questions"]) == 0
    assert "03a-clip is asked in no notebook" in capsys.readouterr().out


def test_another_courses_guide_links_to_its_own_pages_and_names_no_question_of_ours(tmp_path: Path) -> None:
    write_course(tmp_path / "course", "my_course", "Title")
    guide = tmp_path / "course" / "autograders"
    pages = [guide / "README.md", *(guide / "guide").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken
    assert len(pages) > 10
    assert "| 03a-" not in (guide / "guide" / "answer-tables.md").read_text("utf-8")


def test_another_course_names_itself_and_says_what_was_not_copied(tmp_path: Path) -> None:
    write_course(tmp_path / "course", "statistics_course", TITLE)
    conda = (tmp_path / "course/binder/environment.yml").read_text("utf-8")
    assert "\nname: statistics-course\n" in conda
    assert "training-in-practice" not in conda
    readme = (tmp_path / "course/lecture_lib/README.md").read_text("utf-8")
    assert readme.splitlines()[2].startswith(
        "Files in `tests/` are those of the course from which this library was copied."
    )
    assert not (tmp_path / "course/tests").exists()


# Pages that explain how questions are graded. The others name a notebook only as an example in a command.
ON_GRADING = {"answer-bank.md", "answer-tables.md", "scores-and-sandbox.md", "how-a-verdict-is-reached.md"}
PLACES = r"`(?:[^`\n]* )?((?:autograders|lecture_lib|tests|assets|binder)/[\w./-]+)[^`\n]*`"


def test_another_courses_guide_names_what_the_course_has(tmp_path: Path) -> None:
    """Where a section is about the questions, the files or the figures of the original course, it says so."""
    write_course(tmp_path / "course", "my_course", "Title")
    guide = tmp_path / "course" / "autograders"
    targets = set(re.findall(r"^([a-z-]+):", (tmp_path / "course" / "Makefile").read_text("utf-8"), re.MULTILINE))
    foreign = []
    for page in (guide / "README.md", *(guide / "guide").glob("*.md")):
        text = page.read_text("utf-8")
        foreign += [
            f"{page.name}: make {target}" for target in re.findall(r"`make ([a-z-]+)", text) if target not in targets
        ]
        foreign += [f"{page.name}: {mark}" for mark in re.findall(r"<!-- original course: .*", text)]
        for section in re.split(r"^(?=##)", text, flags=re.MULTILINE):
            if "original course" not in section:
                named = [place for place in re.findall(PLACES, section) if not re.search(r"NAME|ID", place)]
                foreign += [f"{page.name}: {place}" for place in named if not (tmp_path / "course" / place).exists()]
                asked = re.findall(r"\b03[a-d]\b\S*", section) if page.name in ON_GRADING else []
                foreign += [f"{page.name}: {question}" for question in asked]
    assert foreign == []
