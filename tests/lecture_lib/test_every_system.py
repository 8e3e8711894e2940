"""What students run works on Windows and macOS too: nothing of it needs a POSIX system, and odd folders do no harm.

No such system is at hand here. The first test reads the code, the second takes away what Windows does not have, and
works in a folder whose name has a space and letters outside ASCII, with files that have Windows' line endings. A file
of ours that is opened without its encoding, which Windows would read in its code page, is an error. The third test
reads what an editable install leaves as Python on Windows does.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from autograders.course import Course

pytestmark = pytest.mark.slow

# Of Python's documentation: modules and functions whose availability is "Unix", as far as a program would use them.
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "readline", "curses"}
FUNCTIONS = {
    *("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getpgid", "getpgrp", "killpg", "mkfifo", "nice"),
    *("setsid", "setuid", "sysconf", "uname", "wait", "wait3", "wait4", "chown", "lchown", "sched_getaffinity"),
    *("getloadavg", "pread", "pwrite", "statvfs", "ttyname", "waitid", "pipe2", "posix_spawn", "sendfile"),
}
SIGNALS = {"SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGSTOP", "SIGCONT", "SIGPIPE"}
LACKING = {"os": FUNCTIONS, "signal": SIGNALS}


def what_windows_lacks(source: str) -> list[tuple[int, str]]:
    """Line and name of each use, but for those for other systems alone, or whose failing on Windows is handled."""
    tree = ast.parse(source)
    guarded = {inner for node in ast.walk(tree) for guard in guarded_by(node) for inner in ast.walk(guard)}
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    lacking = {alias.asname or alias.name: LACKING[alias.name] for alias in imports if alias.name in LACKING}
    uses = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module in MODULES else []
            names += [alias.name for alias in node.names if alias.name in LACKING.get(node.module or "", set())]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [node.attr] if node.attr in lacking.get(node.value.id, set()) else []
        elif isinstance(node, ast.Call):
            called, texts = ast.unparse(node.func), [a.value for a in node.args if isinstance(a, ast.Constant)]
            if called == "getattr" and ast.unparse(node.args[0]) in lacking:
                names = [text for text in texts if text in lacking[ast.unparse(node.args[0])]]
            elif called.endswith(("get_context", "set_start_method")):
                names = [text for text in texts if text in ("fork", "forkserver")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if node.value.startswith(("/proc/", "/dev/", "/tmp/", "/etc/")) else []
        uses += [(node.lineno, name) for name in names if node not in guarded]
    return uses


def guarded_by(node: ast.AST) -> list[ast.AST]:
    """What runs on other systems than Windows alone, or where what Windows raises is handled."""
    if isinstance(node, ast.Try):
        handled = " ".join("Exception" if h.type is None else ast.unparse(h.type) for h in node.handlers)
        return [*node.body] if re.search(r"\b(OSError|ImportError|AttributeError|Exception)\b", handled) else []
    if not isinstance(node, (ast.If, ast.IfExp)):
        return []
    test = ast.unparse(node.test)
    here, elsewhere = (part if isinstance(part, list) else [part] for part in (node.body, node.orelse))
    if re.search(r"sys\.platform (== '(linux|darwin)'|!= 'win32')", test):
        return [*here]
    return [*elsewhere] if re.search(r"sys\.platform (== 'win32'|!= '(linux|darwin)')", test) else []


def test_what_students_run_uses_nothing_that_windows_lacks() -> None:
    shipped = [*(ROOT / "lecture_lib").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")]
    uses = {path: what_windows_lacks(path.read_text("utf-8")) for path in shipped}
    # The descriptors that an answer left open are listed where the system lists them, and nowhere else.
    expected = {"open_files.py": ["/proc/self/fd", "sysconf"]}
    assert {path.name: [name for _, name in found] for path, found in uses.items() if found} == expected


@pytest.mark.parametrize(
    "source",
    [
        "import fcntl",
        "from os import fork",
        "import os\nos.fork()",
        "import os as system\nsystem.fork()",
        "import os\ngetattr(os, 'fork')()",
        "import multiprocessing\nmultiprocessing.get_context('fork')",
        "import signal\nsignal.SIGKILL",
        "open('/proc/x')",
    ],
)
def test_a_use_is_seen(source: str) -> None:
    assert what_windows_lacks(source)
    assert not what_windows_lacks("import sys\nif sys.platform == 'linux':\n" + textwrap.indent(source, "    "))


@pytest.mark.parametrize(
    "source",
    [
        "import os, sys\nif sys.platform == 'win32':\n    os.fork()",
        "import os, sys\nif sys.platform != 'win32':\n    pass\nelse:\n    os.fork()",
        "import os\ntry:\n    os.fork()\nexcept ValueError:\n    pass",
        "import os\ntry:\n    pass\nexcept OSError:\n    os.fork()",
    ],
)
def test_a_condition_or_a_handler_of_something_else_is_no_excuse(source: str) -> None:
    assert what_windows_lacks(source)


WITHOUT = f"""
import os, signal, sys, threading, warnings  # what Python itself loads first keeps what it has
import multiprocessing, subprocess, tempfile
# Not with -W, which knows no module within a package; other people's packages may open files as they like.
warnings.filterwarnings("error", category=EncodingWarning, module=r"lecture_lib|__main__$")
for module in {sorted(MODULES)!r}:
    sys.modules[module] = None
for name in {sorted(FUNCTIONS)!r}:
    if hasattr(os, name) and name not in ("wait", "sysconf", "sched_getaffinity", "uname"):  # PyTorch's own import
        delattr(os, name)
for name in {sorted(SIGNALS)!r}:
    if hasattr(signal, name):
        delattr(signal, name)
"""

WORK = """
import sys
import torch
from pathlib import Path
from torch import nn
from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.debugging import Program, Spec, climb, record
from lecture_lib.notebook import check_result
from lecture_lib.training import train

lines = check_result("03a-clip", lambda *arguments: None, lambda *arguments: None).lines
print("check:", "right" not in {line.state for line in lines} and len(lines) > 1)
data = load_digits()
x, y = data.images.flatten(1)[:300], data.labels[:300]
model = nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loaders = TensorLoader(x, y, batch_size=50, shuffle=True, seed=0), TensorLoader(x, y, batch_size=50)
history = train(model, *loaders, optimizer, nn.CrossEntropyLoss(), 2, checkpoints="Läufe 1")
print("epochs:", len(history.rows), "checkpoints:", bool(list(Path("Läufe 1").iterdir())))
with record(model, optimizer):
    nn.functional.cross_entropy(model(x), y).backward()
program = Program(model, optimizer, nn.CrossEntropyLoss(), loaders[0], loaders[1])
print("rungs:", len(climb(program, Spec(task="classification", classes=10, epochs=1), budget=0).results) > 0)
"""


def test_a_student_works_without_what_windows_lacks(released: Course, tmp_path: Path) -> None:
    folder = tmp_path / "Jörg Müller" / "Übung 1 (neu)"
    (folder / "notebooks").mkdir(parents=True)
    for path in (released.bundle / "notebooks").glob("*.ipynb"):
        text = path.read_text("utf-8")
        (folder / "notebooks" / path.name).write_bytes(text.replace("\n", "\r\n").encode())  # as git's autocrlf
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT, "utf-8")
    home = {"HOME": str(folder), "USERPROFILE": str(folder), "TMPDIR": str(folder)}
    variables = {**os.environ, **home, "PYTHONPATH": os.pathsep.join([str(site), str(released.bundle)])}
    (folder / "work.py").write_bytes(WORK.replace("\n", "\r\n").encode())
    for arguments, expected in {
        ("work.py",): ["check: True", "epochs: 2 checkpoints: True", "rungs: True"],
        ("-m", "lecture_lib", "submit", "--id", "17", "--name", "Jörg Müller"): [
            "packed 2 notebooks",
            "not answered yet",
        ],
    }.items():
        done = subprocess.run(
            [sys.executable, "-X", "utf8", "-X", "warn_default_encoding", *arguments],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [text for text in expected if text not in done.stdout] == [], done.stdout
    (packed,) = folder.glob("*.zip")
    with zipfile.ZipFile(packed) as archive:
        notebooks = [name for name in archive.namelist() if name.endswith(".ipynb")]
        assert len(notebooks) == len(list((released.bundle / "notebooks").glob("*.ipynb")))
        assert all(json.loads(archive.read(name))["cells"] for name in notebooks)


BUILD = "import sys, hatchling.build; print(getattr(hatchling.build, sys.argv[1])(sys.argv[2]))"
READ = """
import io, site, sys, types
def open_text(stream, encoding):
    return io.TextIOWrapper(stream, encoding="cp1252" if encoding == "locale" else encoding)
site.io = types.SimpleNamespace(open_code=io.open_code, TextIOWrapper=open_text)
site.addpackage(sys.argv[1], sys.argv[2], set())
print(sys.argv[3] in sys.path)
"""


def test_in_a_folder_with_other_letters_an_editable_install_needs_python_3_13(released: Course, tmp_path: Path) -> None:
    """The remedy in the students' README: hatchling writes UTF-8, which Python before 3.13 reads in the code page."""
    bundle = tmp_path / "Übung"
    shutil.copytree(released.bundle, bundle)
    sites = {}
    for hook in ("build_editable", "build_wheel"):
        sites[hook] = tmp_path / hook
        command = [sys.executable, "-c", BUILD, hook, str(tmp_path)]
        built = subprocess.run(command, cwd=bundle, capture_output=True, text=True, check=True).stdout.split()[-1]
        with zipfile.ZipFile(tmp_path / built) as archive:
            archive.extractall(sites[hook])
    (path_file,) = sites["build_editable"].glob("*.pth")
    assert path_file.read_bytes() == str(bundle).encode()
    command = [sys.executable, "-c", READ, str(path_file.parent), path_file.name, str(bundle)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert found == str(sys.version_info >= (3, 13))
    assert not list(sites["build_wheel"].glob("*.pth"))
    assert (sites["build_wheel"] / "lecture_lib" / "__init__.py").exists()
    remedy = " ".join((bundle / "README.md").read_text("utf-8").split())
    assert "take Python 3.13. With Python 3.11 or 3.12, use `pip install .`" in remedy
