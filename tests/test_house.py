"""The house: who may import whom, what a command says, and what must not be in the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from conftest import DIVIDED, LONG, ROOT, TOGETHER, autograde
from helpers.code_lines import code_lines

from autograders.__main__ import _parser
from autograders.setting import DESCRIPTIONS

pytestmark = pytest.mark.slow

SOURCES = sorted([*(ROOT / "lecture_lib").rglob("*.py"), *(ROOT / "autograders").rglob("*.py")])
SOURCES = [path for path in SOURCES if "answers" not in path.parts]
# A folder of lecture_lib and the folders that it may use.
MAY_USE: dict[str, set[str]] = {
    "_common": set(),
    "data": set(),
    "tape": set(),
    "training": {"data"},
    "debugging": {"training", "data"},
    "experiments": {"training", "data"},
    "analysis": {"training", "data"},
    "commands": {"debugging", "experiments", "training", "data"},
    "notebook": {"debugging", "experiments", "training", "data", "tape"},
}

# The most lines of code that a folder of lecture_lib may have.
CODE_LINES = {
    "data": 1690,
    "tape": 1450,
    "training": 3655,  # a quarter of it for programs that are not as the lecture has them; schedules are drawn
    # 3,500 when comparisons that replacing parts makes needless are gone. Knows which targets a task allows.
    # Identities of what was drawn, of the rate that is reached, of a loss for equal outputs, of columns that fade; of
    # positions that see later ones, masks, the order of examples, a plateau's direction, R², a decoder's own target;
    # of rows whose order a model does not see; of scores that get worse while the loss falls; of ids that share rows.
    # A climb is a class whose methods are its steps. Test against validation, neighbours in the stored order, batches.
    # Rungs with a scheduler attached, groups that are no evidence of a shift, frozen bodies at rest.
    # Padding beyond a length or a mask. Inputs that are drawn anew in each epoch, whoever draws them. Best outputs
    # by the loss must score high.
    "debugging": 7610,
    "experiments": 480,
    "analysis": 625,  # with the loss around a model, and the first number that is not finite (03d)
    "commands": 620,
    # Reads the questions' cases and mistakes, knows those of any answer and of a wrong prediction; each figure has its
    # alternative text in JupyterLab, no white background, and a widget shows what it can without a kernel. A check
    # also tries a drawn set, and tells general mistakes by how wrong numbers relate to right ones,
    # and calls a function twice. Reads predictions that are not finite, and memory that tensors share.
    "notebook": 1800,
    "notebook/questions": 2320,  # how each question is called and observed, and what it is called on
}


def imported(path: Path, *, for_types: bool = True) -> set[str]:
    """The full names of the modules that a file imports, with or without those for type checkers only."""
    package = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    guarded = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")]
    apart = {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}
    for node in nodes:
        if node in apart and not for_types:
            continue
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
            assert (used & set(MAY_USE)) - {parts[1]} <= MAY_USE[parts[1]] | {"_common"}, path


def test_no_grading_code_names_the_package_of_the_questions() -> None:
    """Another course has another one, named in `lecture_lib/course.toml`; descriptions belong to the course."""
    named = [
        path
        for path in (ROOT / "autograders").rglob("*.py")
        if not path.is_relative_to(DESCRIPTIONS)
        if re.search(r"notebook[./]questions|questions[./]descriptions", path.read_text("utf-8"))
    ]
    assert named == []


def test_every_import_of_our_own_has_its_module() -> None:
    """Scripts that no test runs included: a module that moved is noticed where it is only named."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    own = tuple(f"{package}." for package in ("lecture_lib", "autograders"))
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES}
    modules |= {module.rpartition(".")[0] for module in modules}  # a folder without __init__
    lost = []
    for path in (ROOT / line for line in listed.stdout.splitlines()):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = {node.module} if isinstance(node, ast.ImportFrom) and not node.level and node.module else set()
            named |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            lost += [f"{path}: {name}" for name in named if name.startswith(own) and name not in modules]
    assert not lost


def test_no_module_imports_one_that_imports_it() -> None:
    """Late imports included; what is imported for type checkers only is not."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
    graph = {}
    for name, path in names.items():
        modules = imported(path, for_types=False)
        packages = {module.rpartition(".")[0] for module in modules}
        graph[name] = {longest(module, names) for module in modules - packages} - {name, None}
    circular = {name for name in graph if name in reachable(graph, name)}
    assert not circular


# The rooms of autograders, from the lowest: a module imports from its own layer and from those below it.
LAYERS = (
    ("files", "plain_text", "reasons", "private_sockets", "setting"),
    ("notebooks", "imports"),
    ("course", "writer", "tables"),
    ("intake/reading", "probes"),
    ("questions",),
    ("sandbox",),
    ("grading", "intake", "nbgrader", "release", "results"),
    ("term",),
    ("site",),
    ("commands", "new_course", "new_notebook", "new_question", "__main__"),
)
LAYER = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str:
    """The room of a module of autograders: a folder's folder where that is one."""
    parts = module.split(".")[1:]
    return next(room for length in (2, 1) if (room := "/".join(parts[:length])) in LAYER)


def test_rooms_of_autograders_import_downwards() -> None:
    for path in SOURCES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name.startswith("autograders."):
            used = [module for module in imported(path, for_types=False) if module.startswith("autograders.")]
            upwards = {module for module in used if LAYER[room_of(module)] > LAYER[room_of(name)]}
            assert not upwards, path


def longest(module: str, names: Collection[str]) -> str | None:
    """The module of ours that a full name leads to: the name itself, or what it is a part of."""
    while module and module not in names:
        module = module.rpartition(".")[0]
    return module or None


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What is imported from a module, directly or not."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


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


def test_the_core_is_small_and_its_readme_names_each_of_its_files() -> None:
    """tape and training: a public file is lesson text, and reads without what lies behind the underscore."""
    rooms = [ROOT / "lecture_lib" / name for name in ("tape", "training")]
    files = [path for path in SOURCES if any(path.is_relative_to(room) for room in rooms)]
    core = [path for path in files if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)]
    assert sum(map(code_lines, core)) <= 1600
    assert code_lines(ROOT / "lecture_lib" / "training" / "step.py") <= 60
    text = (ROOT / "lecture_lib" / "README.md").read_text("utf-8")
    table = text.split("## Read the library")[1].split("\n## ")[0]
    assert {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", table)} == {path.name for path in core}


def private_names(path: Path) -> set[str]:
    """The full names that a file imports from modules or folders behind an underscore."""
    package = path.relative_to(ROOT).with_suffix("").parts
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            if any(part.startswith("_") for part in module.split(".")):
                names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def test_the_core_needs_little_from_behind_the_underscore() -> None:
    """Every name of a private module is one more file that a reader of the public ones has to open.

    The packages' own `__init__.py` are not counted: what they export is the public interface.
    """
    training = ROOT / "lecture_lib" / "training"
    rooms = [ROOT / "lecture_lib" / "tape", training]
    files = [path for path in SOURCES if any(path.is_relative_to(room) for room in rooms)]
    core = [path for path in files if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)]
    private = set().union(*map(private_names, core))
    assert len(private) <= 30, sorted(private)  # 29 when this was written
    assert len(private_names(training / "step.py")) <= 5  # the step: forward pass, guard, loss and terms
    ours = [name for name in imported(training / "train.py") if name.startswith("lecture_lib.")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES}
    assert len(set(ours) - modules) <= 15, sorted(ours)  # the recipe is one function, "boring to read"


def test_files_are_short_and_the_library_is_small() -> None:
    code = {path: code_lines(path) for path in SOURCES if "_texts" not in path.name}
    # A description holds its texts, cases and draws: it is as long as its question.
    limit = {path: 345 if "descriptions" in path.parts else 250 for path in code}
    too_long = {str(path): count for path, count in code.items() if count > limit[path]}
    assert not too_long
    for part, limit in CODE_LINES.items():
        files = [path for path in SOURCES if path.is_relative_to(ROOT / "lecture_lib" / part)]
        within = [path for path in files if part.endswith("questions") or "questions" not in path.parts]
        found = sum(code_lines(path) for path in within if "_texts" not in path.name)
        assert found <= limit, f"lecture_lib/{part}: {found} lines of code"


# Rooms whose variables are named by what they hold. A room joins when its names are done; a room within a room counts
# for itself, so that a large one (the descriptions) makes no room for the names of another.
NAMED_ROOMS = (
    *(f"lecture_lib/{name}" for name in ("training", "data", "analysis", "experiments", "commands")),
    *(f"lecture_lib/{name}" for name in ("_common", "tape", "notebook", "notebook/questions")),
    *(f"lecture_lib/{name}" for name in ("debugging", "debugging/_engine", "debugging/faults")),
    "autograders",
    *(f"autograders/{name}" for name in ("commands", "grading", "intake", "nbgrader", "probes", "questions")),
    *(f"autograders/{name}" for name in ("questions/descriptions", "release", "results", "sandbox", "term")),
)
# Well-known code bases of the field have 0 to 1.2 of these names in 1,000 lines; our few are fields of public results.
MOST_PRONOUNS = 1.2
PRONOUNS = {
    "one", "ones", "other", "others", "another", "some", "these", "those", "this", "that", "what", "which", "who",
    "asked", "found", "given", "known", "said", "seen", "shown", "told",
}  # fmt: skip


def pronouns(text: str) -> list[str]:
    """The variables, parameters and attributes that are bound in a module and tell nothing about what they hold."""
    bound = []
    nodes = list(ast.walk(ast.parse(text)))
    # Python's own documentation calls the right operand of __add__ `other`.
    methods = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("__")]
    operands = {argument for method in methods for argument in method.args.args if argument.arg == "other"}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound.append(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg) and node not in operands:
            bound.append(node.arg)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            bound.append(node.name)
    return [name for name in bound if name.strip("_") in PRONOUNS]


def test_pronouns_are_counted_wherever_a_name_is_bound() -> None:
    text = "def f(given, *, told): self._found = [one for one in seen]\nfor others in x.other: those[0] = what"
    assert sorted(pronouns(text)) == ["_found", "given", "one", "others", "told"]
    assert pronouns("class T:\n def __add__(self, other): ...\n def join(self, other): ...") == ["other"]


@pytest.mark.parametrize("room", NAMED_ROOMS)
def test_variables_are_named_by_what_they_hold(room: str) -> None:
    folder = ROOT / room
    within = [ROOT / name for name in NAMED_ROOMS if name.startswith(f"{room}/")]
    paths = [path for path in SOURCES if path.is_relative_to(folder) and not any(map(path.is_relative_to, within))]
    assert paths
    texts = {path: path.read_text("utf-8") for path in paths}
    vague = [f"{path.relative_to(ROOT)}: {name}" for path, text in texts.items() for name in pronouns(text)]
    lines = sum(text.count("\n") for text in texts.values())
    assert len(vague) <= MOST_PRONOUNS * lines / 1000, vague


COMMANDS = [
    "release", "variants", "publish", "collect", "simulate", "grade", "try", "feedback", "confirm", "regrade", "report",
    "explain", "roster", "export", "extend", "forget", "backup", "restore", "gradebook",
    "doctor", "verify", "mutate", "build", "text", "new-notebook", "new-question", "new-course", "site",
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


HEAVY = "torch numpy scipy sklearn matplotlib pandas IPython"
GRADING = "nbgrader nbconvert nbformat jupyter_client"


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        *(pytest.param([command, "--help"], f"{HEAVY} {GRADING}", id=command) for command in COMMANDS),
        pytest.param(["gradebook", "--course", "no such course"], HEAVY, id="gradebook itself"),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], heavy: str) -> None:
    script = (
        "import contextlib, sys\n"
        "from autograders.__main__ import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments})\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "argparse" in loaded
    assert not loaded & set(heavy.split())


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


def test_the_order_of_the_tests_names_places_that_exist() -> None:
    """A place that was renamed would silently run as one file, or last and alone."""
    assert [place for place in (*LONG, *DIVIDED, *TOGETHER) if not (ROOT / place).exists()] == []


def test_no_file_of_the_repository_is_ignored() -> None:
    """ruff passes over what .gitignore names, and `git add` over new files there."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""


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
