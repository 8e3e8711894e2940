"""The house: who may import whom, what a command says, and what must not be in the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, autograde
from counting import code_lines

from autograders.__main__ import _parser

SOURCES = sorted([*(ROOT / "lecture_lib").rglob("*.py"), *(ROOT / "autograders").rglob("*.py")])
SOURCES = [path for path in SOURCES if "answers" not in path.parts]
# A folder of lecture_lib and the folders that it may use.
MAY_USE = {
    "data": set(),
    "tape": set(),
    "training": {"data"},
    "debugging": {"training", "data"},
    "experiments": {"training", "data"},
    "analysis": {"training", "data"},
    "program": {"debugging", "experiments", "training", "data"},
    "notebook": {"debugging", "experiments", "training", "data", "tape"},
}

# The most lines of code that a folder of lecture_lib may have.
CODE_LINES = {
    "data": 1650,
    "tape": 1450,
    "training": 2100,
    "debugging": 4600,  # the ladder alone was meant to take 1,500
    "experiments": 500,
    "analysis": 580,
    "program": 260,
    "notebook": 1900,
    "notebook/questions": 3400,  # cases and texts, most of it
}


def imported(path: Path) -> set[str]:
    """The full names of the modules that a file imports."""
    package = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_dependencies_point_one_way() -> None:
    for path in SOURCES:
        parts = path.relative_to(ROOT).parts
        if parts[0] != "lecture_lib":
            continue
        modules = imported(path)
        assert not any(module.split(".")[0] == "autograders" for module in modules), path
        if len(parts) > 2:
            used = {module.split(".")[1] for module in modules if module.startswith("lecture_lib.")}
            assert (used & set(MAY_USE)) - {parts[1]} <= MAY_USE[parts[1]], path


def test_probes_know_no_judge_and_no_answer() -> None:
    for path in (ROOT / "autograders" / "probes").glob("*.py"):
        for module in imported(path):
            assert not re.match(r"autograders\.(?!probes)\w", module), f"{path}: {module}"


def test_the_library_imports_only_what_it_says() -> None:
    """Heavy packages are imported where they are used, and seaborn or pandas nowhere."""
    script = (
        "import sys, lecture_lib.data, lecture_lib.training, lecture_lib.debugging\n"
        "import lecture_lib.notebook, lecture_lib.tape, lecture_lib.experiments, lecture_lib.analysis\n"
        "print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"torch", "numpy"} <= loaded
    assert (
        not {"sklearn", "scipy", "torchvision", "ipywidgets", "nbgrader", "dask", "IPython", "pandas", "autograders"}
        & loaded
    )


def test_files_are_short_and_the_library_is_small() -> None:
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    too_long = {str(path): count for path, count in lines.items() if count > 260}
    assert not too_long
    for part, limit in CODE_LINES.items():
        files = [path for path in SOURCES if path.is_relative_to(ROOT / "lecture_lib" / part)]
        within = [path for path in files if part.endswith("questions") or "questions" not in path.parts]
        found = sum(code_lines(path) for path in within if "_texts" not in path.name)
        assert found <= limit, f"lecture_lib/{part}: {found} lines of code"


COMMANDS = [
    "release", "publish", "collect", "simulate", "grade", "feedback", "regrade", "report", "gradebook",
    "doctor", "verify", "build", "text",
]  # fmt: skip


def test_the_list_of_commands_is_complete() -> None:
    (choices,) = [action.choices for action in _parser()._actions if hasattr(action, "choices") and action.choices]
    assert list(choices) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        _parser().parse_args([command, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: autograde {command}" in text
    (choices,) = [action.choices for action in _parser()._actions if hasattr(action, "choices") and action.choices]
    for action in choices[command]._actions:
        assert action.help, action.dest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grade"], "was not released"),
        (["simulate"], "was not released"),
        (["grade", "--assignment", "03x"], "no assignment '03x'; there are: 03a-training-recipe"),
        (["verify", "--question", "03x"], "no question 03x; there are: 03a-accumulate"),
    ],
)
def test_a_command_that_cannot_be_done_says_why_in_a_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    course = [] if arguments[0] == "verify" else ["--course", tmp_path / "course"]
    done = autograde(*arguments, *course)
    assert done.code == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "course").exists()


def test_nothing_of_one_machine_or_session_is_in_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in {".png", ".npz"} or path == Path(__file__):
            continue
        text = path.read_text("utf-8")
        assert not re.search(r"(?<![\w.])/(work|root|home)/\w", text), name
        assert not re.search(r"(?i)\b(pypi\.org/simple|files\.pythonhosted|extra-index-url)\b", text), name


def test_the_readme_names_every_make_target_and_the_changelog_the_version() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    readme = (ROOT / "README.md").read_text("utf-8")
    for target in targets:
        assert f"make {target}" in readme, target
    assert not re.search(r"@[A-Z]+@|TODO|FIXME", readme)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    from lecture_lib import __version__

    assert __version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
