"""The student's bundle: complete, runnable unanswered, and refused when its content gives an answer away."""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from conftest import MIXED, ROOT
from nbclient import NotebookClient
from nbgrader.api import get_alembic_version

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course, ReleaseError
from autograders.nbgrader.database import put_scripts_on_path
from autograders.notebooks import assignments, master_path
from autograders.questions.question import QUESTIONS, answer_to
from autograders.questions.seeds import read_secret
from autograders.release import release
from autograders.release.course_check import check_master
from autograders.release.release import leak_check
from autograders.release.release_check import chosen_variants
from autograders.release.solutions import with_solutions
from autograders.release.student_folder import FOLDER
from autograders.setting import ANSWERS

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"
SOLUTION = """\
for first in range(0, len(micro_batches), accumulate):
    window = micro_batches[first : first + accumulate]
    window_examples = sum(y.shape[0] for _, y in window)
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def released(released_in_full: Course) -> Course:
    return released_in_full


@pytest.fixture(scope="module")
def checker(released: Course):
    masters = {name: notebooks.read(master_path(name)) for name in assignments()}
    generated = {name: notebooks.read(released.notebook("release", name)) for name in assignments()}
    return leak_check(masters, generated)


def test_the_bundle_is_complete_and_clean(released: Course, checker) -> None:
    bundle = released.bundle
    for path in (
        "README.md",
        "pyproject.toml",
        "release.json",
        "assets/digits.npz",
        "binder/environment.yml",
        "LICENSE",
    ):
        assert (bundle / path).is_file(), path
    assert {path.stem for path in (bundle / "notebooks").iterdir()} == set(assignments())
    assert checker.search_folder(bundle) == []
    names = [path.name for path in bundle.rglob("*")]
    assert not {"autograders", "judges", "answers", "probes", "secret"} & set(names)
    with zipfile.ZipFile(f"{bundle}.zip") as archive:
        files = {f"{FOLDER}/{path.relative_to(bundle)}" for path in bundle.rglob("*") if path.is_file()}
        assert {name for name in archive.namelist() if not name.endswith("/")} == files


def test_only_the_script_of_this_course_ships(released: Course, checker, tmp_path: Path) -> None:
    """Every other script of 03b-debug is a leak, and so is what repairs any of them."""
    question = QUESTIONS["03b-debug"]
    chosen = question.of_course(read_secret(released.secret)).variant
    assert chosen is not None
    cell = cell_of(notebooks.read(released.bundle / "notebooks" / "03b-debug-ladder.ipynb"), question.id)
    assert cell.source == chosen.stub
    for variant in question.variants:
        for text, ships in ((variant.stub, variant.name == chosen.name), (variant.solution, False)):
            (tmp_path / "planted.txt").write_text(text, "utf-8")
            assert (checker.search_folder(tmp_path) == []) == ships, variant.name


def test_the_solution_is_that_of_the_courses_script(released: Course) -> None:
    chosen = QUESTIONS["03b-debug"].of_course(read_secret(released.secret)).variant
    assert chosen is not None
    cells = with_solutions(released, "03b-debug-ladder").cells
    (folded,) = [cell.source for cell in cells if "A solution of 03b-debug<" in cell.source]
    assert chosen.solution in folded


def test_only_who_grades_by_hand_is_told_the_faults(released: Course, capsys: pytest.CaptureFixture[str]) -> None:
    """`release` names the script alone: somebody who learns alone reads it, too."""
    secret = read_secret(released.secret)
    chosen = QUESTIONS["03b-debug"].of_course(secret).variant
    assert chosen is not None
    (named,) = chosen_variants(secret, ["03b-debug-ladder"])
    assert named == f"03b-debug has {chosen.name} of {len(QUESTIONS['03b-debug'].variants)} in this course"
    assert main(["variants", "--course", str(released.root)]) == 0
    printed = capsys.readouterr().out
    assert printed == f"{named}: {chosen.about}\n"
    assert len(printed.split(";")) == 3
    assert main(["variants", "--course", str(released.root), "--assignment", "03a-training-recipe"]) == 0
    assert "all questions are the same" in capsys.readouterr().out


def test_the_release_is_stamped(released: Course) -> None:
    stamp = json.loads((released.bundle / "release.json").read_text("utf-8"))
    for name in assignments():
        version = notebooks.assignment_version(notebooks.read(master_path(name)))
        assert stamp["assignments"][name] == version
        nb = notebooks.read(released.bundle / "notebooks" / f"{name}.ipynb")
        assert nb.metadata["lecture"] == {"assignment": name, "version": version}
        assert not any(cell.get("outputs") for cell in nb.cells)


def test_the_database_has_the_version_that_nbgrader_gives_it(released: Course) -> None:
    put_scripts_on_path()
    with sqlite3.connect(released.root / "gradebook.db") as database:
        found = database.execute("select version_num from alembic_version").fetchall()
    assert found == [(get_alembic_version(),)]


@pytest.mark.full
@pytest.mark.parametrize("name", assignments())
def test_a_released_notebook_runs_unanswered(released: Course, name: str, tmp_path: Path) -> None:
    """`make test` runs them unanswered in a browser, where every check must say the same."""
    nb = notebooks.read(released.bundle / "notebooks" / f"{name}.ipynb")
    NotebookClient(nb, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    checks = [cell for cell in nb.cells if cell.source.startswith("check(")]
    assert len(checks) == sum(question.startswith(name[:3]) for question in QUESTIONS)
    for cell in checks:
        assert [output.output_type for output in cell.outputs] == ["display_data"]
        assert "not answered yet" in cell.outputs[0].data["text/plain"]


@pytest.mark.full
@pytest.mark.parametrize("name", assignments())
def test_one_question_left_out_breaks_no_later_section(released: Course, name: str, tmp_path: Path) -> None:
    """Every other question is answered rightly, so that the sections behind it go as far as they can.

    `make test` runs the notebooks with every answer right (nbval), wrong (below) and missing (in a browser).
    """
    right = {question.id: question.answers()[0].source for question in QUESTIONS.values()}
    released_notebook = notebooks.read(released.bundle / "notebooks" / f"{name}.ipynb")
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in released_notebook.cells]
    asked = [each for each in ids if each in right]
    for left_out in asked:
        nb = copy.deepcopy(released_notebook)
        for cell, question in zip(nb.cells, ids, strict=True):
            if question in right and question != left_out:
                cell.source = right[question]
        NotebookClient(nb, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
        said = [str(cell.outputs) for cell in nb.cells if cell.source.startswith("check(")]
        assert ["not answered yet" in each for each in said] == [question == left_out for question in asked]


@pytest.mark.parametrize(
    "name", [MIXED, *(pytest.param(name, marks=pytest.mark.full) for name in assignments() if name != MIXED)]
)
def test_wrong_answers_break_no_later_section(
    released: Course, name: str, tmp_path: Path, repetitions: Callable[[int, int], int]
) -> None:
    """Every question is answered wrongly at once, by another wrong answer of the bank in each round."""
    wrong = {
        question.id: [answer.source for answer in question.answers() if answer.points < question.points]
        for question in QUESTIONS.values()
    }
    for number in range(repetitions(1, max(map(len, wrong.values())))):
        nb = notebooks.read(released.bundle / "notebooks" / f"{name}.ipynb")
        for cell in nb.cells:
            answers = wrong.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if answers:
                cell.source = answers[number % len(answers)]
        NotebookClient(nb, timeout=120, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}).execute()
        for cell in nb.cells:
            failed = [output for output in cell.get("outputs", []) if output.output_type == "error"]
            assert not failed or "nbgrader" in cell.metadata, (number, cell.source, failed)


# Name -> where it is put, each into a file of its own, and the text.
PLANTS = {
    "a solution in a notebook's cell": ("notebooks/03a-training-recipe.ipynb", SOLUTION),
    "a solution, reformatted and commented": (
        "assets/notes.txt",
        "# " + SOLUTION.replace("\n", "\n#   ").replace(" = ", "="),
    ),
    "a solution as a string in JSON": ("assets/notes.json", json.dumps({"a": [{"b": SOLUTION}]})),
    "a solution in upper case without comments": ("lecture_lib/upper.py", SOLUTION.upper()),
    "an answer of the bank in the library": (
        "lecture_lib/answer.py",
        answer_to("03b-inspect", "right_sets"),
    ),
    "a wrong answer of the bank": ("binder/extra", answer_to("03b-baseline", "wrong_peeks")),
    "an answer in words": ("README.md", answer_to("03a-p5", "full")),
    "a function of a judge": (
        "lecture_lib/data/extra.py",
        (ROOT / "autograders/questions/descriptions/accumulate.py").read_text().split("def run(")[1],
    ),
}


@pytest.fixture(scope="module")
def planted(released: Course, checker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Where the checker finds leaks in a bundle with all of them."""
    bundle = tmp_path_factory.mktemp("planted") / "bundle"
    shutil.copytree(released.bundle, bundle)
    for where, text in PLANTS.values():
        target = bundle / where
        if target.suffix == ".ipynb":
            nb = notebooks.read(target)
            nb.cells[-1].source += "\n" + text
            nbformat.write(nb, target)
        else:
            before = target.read_text("utf-8") if target.exists() else ""
            target.write_text(before + text, "utf-8")
    return [leak.where for leak in checker.search_folder(bundle)]


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_leak_is_found(planted: list[str], name: str) -> None:
    assert any(where.startswith(PLANTS[name][0]) for where in planted)


def test_nothing_but_what_was_planted_is_found(planted: list[str]) -> None:
    places = tuple(where for where, _ in PLANTS.values())
    assert len(set(places)) == len(PLANTS)
    assert all(where.startswith(places) for where in planted)


def test_only_names_and_numbers_of_a_visible_checks_file_are_excused(tmp_path: Path, monkeypatch) -> None:
    """A file of visible cases that holds a solution, or an answer in words, is not its own excuse."""
    entries = {"inputs": [1.25, 3.75], "place": "rare class", "note": SOLUTION, "words": answer_to("03a-p5", "full")}
    (tmp_path / "cases.json").write_text(json.dumps(entries), "utf-8")
    monkeypatch.setattr(release, "visible_cases_path", lambda question: tmp_path / "cases.json")
    excused = "\n".join(release._visible_words())
    assert "rare class" in excused
    assert "[1.25, 3.75]" in excused
    assert "window_examples" not in excused
    assert answer_to("03a-p5", "full")[:60] not in excused


def test_an_output_of_the_master_is_found(released: Course, checker, tmp_path: Path) -> None:
    master = notebooks.read(master_path(FIRST))
    output = next(
        output.data["image/png"]
        for cell in master.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    )
    (tmp_path / "x.txt").write_text(output, "utf-8")
    assert next(leak.secret for leak in checker.search_folder(tmp_path)).startswith("an output of 03a")


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the masters that a test may spoil; release reads it in place of the real ones."""
    folder = tmp_path / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", folder)
    return folder


def spoil(folder: Path, change) -> None:
    path = folder / FIRST / f"{FIRST}.ipynb"
    nb = notebooks.read(path)
    change(nb)
    nbformat.write(nb, path)


def cell_of(nb, grade_id: str):
    return next(cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def test_release_refuses_a_copied_solution_and_writes_nothing(altered: Path, tmp_path: Path) -> None:
    def copy_solution(nb) -> None:
        nb.cells.append(nbformat.v4.new_code_cell(SOLUTION))

    spoil(altered, copy_solution)
    course = Course(tmp_path / "course")
    with pytest.raises(ReleaseError, match="solution 03a-training-recipe/03a-accumulate"):
        release.release(course, [FIRST])
    assert not course.root.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda nb: cell_of(nb, "03a-clip-test").metadata["nbgrader"].update(points=9),
            "9 points, its judge gives 8",
        ),
        (
            lambda nb: cell_of(nb, "03a-clip-test").metadata["nbgrader"].update(points=float("nan")),
            "Give it a positive",
        ),
        (lambda nb: cell_of(nb, "03a-clip-test").metadata["nbgrader"].update(points=-1), "Give it a positive number"),
        (lambda nb: cell_of(nb, "03a-clip-test").metadata["nbgrader"].update(grade_id="03a-x-test"), "no judge"),
        (lambda nb: cell_of(nb, "03a-clip").update(source="### BEGIN SOLUTION\nx"), "do not pair"),
    ],
    ids=["other points", "NaN points", "negative points", "no judge", "unclosed solution"],
)
def test_release_refuses_a_course_that_is_not_in_order(altered: Path, tmp_path: Path, change, message: str) -> None:
    spoil(altered, change)
    course = Course(tmp_path / "course")
    with pytest.raises(ReleaseError, match=message):
        release.release(course, [FIRST])
    assert not course.root.exists()


def test_release_refuses_a_grader_that_errs_on_this_courses_inputs(
    tmp_path: Path, shorter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograders.questions import question as questions

    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setattr(questions, "ANSWERS", tmp_path / "answers")
    shutil.copytree(ANSWERS, tmp_path / "answers")
    bank = tmp_path / "answers" / "03b-baseline.md"
    before, heading, answer = bank.read_text("utf-8").partition("## wrong_percent\n")
    bank.write_text(before + heading + answer.replace("- points: ", "- points: 0.", 1), "utf-8")
    course = Course(tmp_path / "course")
    with pytest.raises(
        ReleaseError, match=r"(?s)answers of the bank \(1\).*03b-baseline, wrong_percent: declares 0\.\d+ points"
    ) as raised:
        release.release(course, assignments()[1:])
    assert "on set 0, 1, 2, 3, 4, 5, 6, 7" in str(raised.value)
    assert "other inputs would not help" in str(raised.value)
    assert not course.root.exists()


def test_too_few_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from autograders.questions import question as questions

    nb = notebooks.read(master_path(FIRST))
    assert check_master(FIRST, nb) == []
    monkeypatch.setattr(questions, "read_answers", lambda path: [])
    assert "0 right and 0 wrong answers" in check_master(FIRST, nb)[0]


def test_releasing_again_keeps_the_secret_and_replaces_the_bundle(
    course: Course,
    shorter: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the answers tried on the course's own inputs: to two questions here, to all in `make test-full`."""
    options = ["--quiet", "--course", str(course.root)]
    if not request.config.getoption("--full"):
        monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
        options += ["--assignment", assignments()[1]]
    secret = course.secret.read_bytes()
    assert course.secret.stat().st_mode & 0o077 == 0
    (course.bundle / "leftover").write_text("x")
    assert main(["release", *options]) == 0
    assert course.secret.read_bytes() == secret
    assert not (course.bundle / "leftover").exists()
    (kept,) = course.root.glob("edited-*/leftover")
    assert kept.read_text() == "x"
    assert f"were kept: {kept.parent}" in capsys.readouterr().out


def test_the_wheel_holds_the_library_and_nothing_of_the_autograders(tmp_path: Path, checker) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "contents")
    library = {str(path.relative_to(ROOT)) for path in (ROOT / "lecture_lib").rglob("*.py")}
    shipped = {name for name in names if ".dist-info/" not in name}
    data = {"README.md", "course.toml", "assets/digits.npz", "assets/digits.json", "notebook/points.json"}
    cases = {str(path.relative_to(ROOT)) for path in (ROOT / "lecture_lib/notebook/questions").glob("*.json")}
    assert shipped == library | cases | {f"lecture_lib/{name}" for name in data}
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert (tmp_path / "contents" / entry_points).read_text().split() == [
        "[console_scripts]",
        "lecture",
        "=",
        "lecture_lib.__main__:main",
    ]
    assert checker.search_folder(tmp_path / "contents") == []


def test_the_bundle_builds_and_its_wheel_loads_the_digits(released: Course, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(released.bundle, bundle)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "--target",
        str(tmp_path / "site"),
    ]
    subprocess.run([*command, str(bundle)], check=True, capture_output=True)
    script = "import lecture_lib, lecture_lib.data as d; print(len(d.load_digits().labels), lecture_lib.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found[0] == "1797"
    assert found[1].startswith(str(tmp_path))
