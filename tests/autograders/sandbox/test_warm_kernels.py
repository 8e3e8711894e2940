"""Kernels forked from a warm parent: nothing of one is within another's reach, and the parent outlives them all."""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from test_attacks import left_behind
from test_sandbox import ASSIGNMENT, hand_in
from test_syscall_filter import GRADER_WITH_KEYS, REFUSED, TRIES, WRITABLE

from autograders.course import Course
from autograders.grading.grade import grade
from autograders.grading.journal import read_record
from autograders.grading.states import State
from autograders.private_sockets import CONNECTION
from autograders.sandbox.jail import Place, kernel_settings
from autograders.sandbox.limits import FILES, Limits
from autograders.sandbox.processes import family, usage
from autograders.sandbox.warm import warm
from autograders.sandbox.warm.warm import ForkError, WarmParent, end_warm_parents, warm_parent, why_cold
from autograders.sandbox.warm.warm_kernel import WarmKernel
from autograders.writer import RUN_VARIABLE, only_writer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_cold() is not None, reason=f"no kernel can be forked here: {why_cold()}"),
]
LIGHT = ("ipykernel.kernelapp", "numpy", "random")

SPY = """
import glob, json, os, signal, socket
def tried(action):
    try:
        return repr(action())[:200]
    except BaseException as error:
        return None
seen = {
    "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) > 2 and int(p) != os.getpid()),
    "other folders": glob.glob("/lecture/lobby/*") + glob.glob("/proc/*/cwd/../lecture/lobby/*"),
    "inputs": sorted(os.listdir("/lecture/inputs")),
    "files": sorted(os.listdir("/lecture/files")),
    "sockets": sorted(name for name in os.listdir("/lecture/kernel") if not name.startswith(("k-", "connection"))),
    "marks": glob.glob("/tmp/mark-*") + glob.glob("/dev/shm/mark-*"),
    "abstract": tried(lambda: socket.socket(socket.AF_UNIX).connect("\\0mark")),
    "terminals": [p for p in os.listdir("/dev/pts") if p != "ptmx"],
    "mount": tried(lambda: __import__("ctypes").CDLL(None).umount2(b"/lecture/lobby", 2) == 0 or None),
    "input": open("/lecture/inputs/mine").read(),
    "descriptors": [t for t in (tried(lambda: os.readlink(p)) or "" for p in glob.glob("/proc/*/fd/*")) if "said" in t],
}
seen["mount"] = None if seen["mount"] == "None" else seen["mount"]
"""
MARK = """
import os, socket
for folder in ("/tmp", "/dev/shm"):
    open(f"{folder}/mark-NAME", "w").write("x")
kept = socket.socket(socket.AF_UNIX); kept.bind("\\0mark"); kept.listen()
terminal = os.openpty()
"""


@dataclass
class Running:
    """One forked kernel with a client that can run code in it."""

    place: Place
    kernel: WarmKernel
    client: BlockingKernelClient

    def run(self, code: str) -> str:
        """Run code and return what it printed; "(dead)" when the kernel ends."""
        message = self.client.execute(code)
        text, deadline = "", time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                got = self.client.get_iopub_msg(timeout=0.5)
            except queue.Empty:
                if self.kernel.poll() is not None:
                    return "(dead)"
                continue
            if got["parent_header"].get("msg_id") != message:
                continue
            if got["msg_type"] == "stream":
                text += got["content"]["text"]
            if got["msg_type"] == "error":
                text += "\n".join(got["content"]["traceback"])
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return text
        raise TimeoutError(text)


def start(parent: WarmParent, stack: ExitStack, mine: str) -> Running:
    """A kernel for a place of its own, with `mine` as its hidden input."""
    place = Place(stack.enter_context(parent.place()), walls=True, course_root=Path("/nonexistent"))
    for path in (place.inputs, place.files, place.sockets):
        path.mkdir()
    (place.inputs / "mine").write_text(mine)
    (place.files / f"file-of-{mine}").touch()
    if place.user:
        shutil.chown(place.sockets, place.user, place.user)
    path, _ = write_connection_file(
        str(place.sockets / CONNECTION),
        ip=str(place.sockets / "k"),
        transport="ipc",
        key=secrets.token_hex(16).encode(),
    )
    if place.user:
        os.chown(path, place.user, place.user)
    kernel = parent.fork(place, Limits(), ["--HistoryManager.hist_file=:memory:"])
    stack.callback(kernel.kill)
    client = BlockingKernelClient()
    client.load_connection_file(path)
    client.hb_channel.time_to_dead = 60.0  # on a busy machine a kernel that lives answers later than after a second
    client.start_channels()
    stack.callback(client.stop_channels)
    client.wait_for_ready(timeout=120)
    return Running(place, kernel, client)


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmParent]:
    """A parent without PyTorch, whose kernels do without what needs it."""
    nothing = ["builtins", "id"]
    monkeypatch.setattr(warm, "kernel_settings", lambda *given: {**kernel_settings(*given), "prepare_shell": nothing})
    made = WarmParent(Path("/nonexistent"), Limits(), LIGHT)
    yield made
    made.close()


@pytest.fixture
def two(parent: WarmParent) -> Iterator[tuple[Running, Running]]:
    with ExitStack() as stack:
        yield start(parent, stack, "first"), start(parent, stack, "second")


def test_two_kernels_at_once_see_nothing_of_each_other(two: tuple[Running, Running]) -> None:
    first, second = two
    assert first.run(MARK.replace("NAME", "first")) == ""
    seen = json.loads(second.run(SPY + "\nprint(json.dumps(seen))"))
    own = {"input": "second", "inputs": ["mine"], "files": ["file-of-second"]}
    nothing = {"processes", "other folders", "sockets", "marks", "abstract", "terminals", "mount", "descriptors"}
    assert {name: seen[name] for name in own} == own
    assert {name: seen[name] for name in nothing if seen[name]} == {}


def test_what_the_spy_looks_for_is_found_by_who_made_it(two: tuple[Running, Running]) -> None:
    first, _ = two
    first.run(MARK.replace("NAME", "first"))
    seen = json.loads(first.run(SPY + "\nprint(json.dumps(seen))"))
    assert len(seen["marks"]) == 2
    assert seen["terminals"] == ["0"]
    assert seen["abstract"] is not None


def test_who_kills_everything_kills_neither_the_other_nor_the_parent(
    parent: WarmParent, two: tuple[Running, Running]
) -> None:
    first, second = two
    first.run(
        "import os\nfor number in [-1, *range(1, 5000)]:\n    if number != os.getpid():\n"
        "        try: os.kill(number, 9)\n        except OSError: pass\nos._exit(1)"
    )
    assert first.kernel.wait(60) == 0
    assert second.run("print(1 + 1)").strip() == "2"
    # The kernel's own first process lets no signal of the kernel's end it either.
    assert second.run("import os, signal, time; os.kill(1, signal.SIGINT); time.sleep(1); print(2)").strip() == "2"
    assert parent.lives()
    with ExitStack() as stack:
        assert start(parent, stack, "third").run("print(3)").strip() == "3"


def test_nobody_can_trace_or_read_another_process(two: tuple[Running, Running]) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print([n for n in range(3, 3000) if n != __import__("os").getpid() and libc.ptrace(16, n, 0, 0) == 0])
"""
    assert two[0].run(code).strip() == "[]"


def test_a_kernel_can_make_no_call_that_goes_round_its_walls(two: tuple[Running, Running]) -> None:
    assert json.loads(two[0].run(TRIES)) == REFUSED


def test_a_kernel_can_write_only_where_little_fits(two: tuple[Running, Running]) -> None:
    found = json.loads(two[0].run(WRITABLE))
    assert {place: files for place, (_, files) in found.items()} == {"/tmp": FILES, "/dev/shm": FILES}
    assert max(size for size, _ in found.values()) <= 1.01 * Limits().disk_mb * 1e6


@pytest.mark.parametrize(
    "code",
    ["exit", "quit()", "get_ipython().ask_exit()", "get_ipython().kernel.io_loop.stop()", "raise SystemExit"],
)
def test_a_kernel_goes_on_after_it_was_told_to_end(two: tuple[Running, Running], code: str) -> None:
    two[0].run(code)
    assert two[0].run("import time; time.sleep(0.5); print(2)").strip() == "2"
    assert two[0].run("print(3)").strip() == "3"


def test_two_kernels_share_no_keys_of_the_graders_session() -> None:
    """In a process of its own, which joins a session: this one's would stay joined."""
    command = [sys.executable, "-c", GRADER_WITH_KEYS]
    folders = [ROOT, ROOT / "tests", Path(__file__).parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {"session": True, "first": -1, "second": -1}


def test_two_kernels_draw_different_random_numbers(two: tuple[Running, Running]) -> None:
    code = "import numpy, random; print(numpy.random.rand(), random.random())"
    first, second = (each.run(code).split() for each in two)
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_kernels_have_rights_users_and_threads_as_if_started_alone(two: tuple[Running, Running]) -> None:
    code = (
        "import os; print(os.getuid(), [r for r in open('/proc/self/status') if r.startswith('CapEff')][0].split()[1])"
    )
    for each in two:
        user, rights = each.run(code).split()
        assert int(user) == (each.place.user or os.getuid())
        assert int(rights, 16) == 0
    assert os.geteuid() != 0 or two[0].place.user != two[1].place.user


def test_before_student_code_runs_a_kernel_has_little_memory_of_its_own(two: tuple[Running, Running]) -> None:
    for each in two:
        private = 0
        for number in family(each.kernel.pid):
            rows = Path(f"/proc/{number}/smaps_rollup").read_text("ascii").splitlines()
            private += sum(int(row.split()[1]) for row in rows if row.startswith("Private_"))
        assert private * 1024 <= 100e6


def test_killing_a_kernel_ends_everything_it_started(two: tuple[Running, Running]) -> None:
    first, _ = two
    first.run("import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True)")
    everything = list(family(first.kernel.pid))
    assert len(everything) == 3
    first.kernel.kill()
    first.kernel.wait(60)
    assert [number for number in everything if usage(number).threads] == []


def test_a_parent_that_was_killed_is_started_again(parent: WarmParent) -> None:
    with ExitStack() as stack:
        start(parent, stack, "first")
        os.kill(parent.process.pid, signal.SIGKILL)
        assert start(parent, stack, "second").run("print(2)").strip() == "2"


def test_a_kernel_of_a_parent_that_is_being_killed_is_not_used(
    parent: WarmParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system ends what is inside a killed parent a moment later; until then it still forks."""
    request_fork, killed = parent._request_fork, []

    @contextmanager
    def dying_after_the_fork(*given: object) -> Iterator[object]:
        with request_fork(*given) as connection_and_kernel:
            if not killed:
                killed.append(connection_and_kernel[1])
                os.kill(parent.process.pid, signal.SIGKILL)
                parent.process.wait(60)
            yield connection_and_kernel

    monkeypatch.setattr(parent, "_request_fork", dying_after_the_fork)
    with ExitStack() as stack:
        assert start(parent, stack, "mine").run("print(2)").strip() == "2"
    assert [kernel.poll() for kernel in killed] == [0]


def test_a_parent_with_threads_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread holds (a lock) would be held for ever in every fork."""
    monkeypatch.setattr(warm, "receive", lambda *_: b'{"threads": 3}')
    with pytest.raises(ForkError, match="have started 2 threads"):
        WarmParent(Path("/nonexistent"), Limits(), ())
    assert left_behind(b'"preload": [], "patience"') == []  # although it was ended while it started


def test_the_parent_carries_the_runs_id_and_ends_with_it(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "IPYTHON", ())
    monkeypatch.setattr(warm, "PRELOADED", ("json",))
    monkeypatch.setattr(warm, "imported_modules", tuple)
    with only_writer(course, "grade"):
        made = warm_parent(course.root, Limits())
        assert made is not None
        assert warm_parent(course.root, Limits()) is made
        run = os.environ[RUN_VARIABLE]
        inside = next(each for each in family(made.process.pid) if each != made.process.pid and usage(each).threads)
        assert f"{RUN_VARIABLE}={run}".encode() in Path(f"/proc/{inside}/environ").read_bytes().split(b"\0")
    assert not made.lives()
    deadline = time.monotonic() + 20  # the system takes a moment to end what was killed
    while usage(inside).threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert usage(inside).threads == 0
    assert not made.lobby.exists()
    end_warm_parents()


def test_what_a_notebook_imports_and_the_parent_cannot_is_left_to_the_kernels(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "IPYTHON", ())
    monkeypatch.setattr(warm, "PRELOADED", ("json",))
    monkeypatch.setattr(warm, "imported_modules", lambda: ("a_package_that_is_not_here",))
    parent = warm_parent(course.root, Limits())
    assert parent is not None
    assert parent.lives()
    end_warm_parents()


def test_where_no_kernel_can_be_forked_each_is_started_alone(
    course: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in(course, "ada")

    def refuse(*_: object) -> None:
        raise ForkError("a test says so")

    monkeypatch.setattr(warm, "WarmParent", refuse)
    monkeypatch.setattr(warm, "_reasons", {})
    grade(course, [ASSIGNMENT], progress=False)
    record = read_record(course, ASSIGNMENT, "ada")
    assert record is not None
    assert record.state == State.GRADED
    assert "kernels are started one by one: a test says so" in capsys.readouterr().err


PROGRAM = """
import sys
from pathlib import Path
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from autograders.sandbox.warm import warm
from autograders.sandbox.limits import Limits
def start(_):
    warm.IPYTHON, warm.PRELOADED, warm.imported_modules = (), ("json",), tuple
    return str(warm.warm_parent(Path("/nonexistent"), Limits()).lobby.parent)
if __name__ == "__main__":
    print(start(0))
    with ProcessPoolExecutor(1, get_context(sys.argv[1])) as pool:
        print(*pool.map(start, [0]))
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_program_or_pool_that_ends_leaves_no_folder(method: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, tmp_path / "program.py", method]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folders = done.stdout.split()
    assert len(set(folders)) == 2
    assert [folder for folder in folders if Path(folder).exists()] == []
