"""What a kernel asks the system for that namespaces do not cover is refused, in kernels of either kind."""

from __future__ import annotations

import errno
import json
import platform
import subprocess
from pathlib import Path

import pytest

from autograders.sandbox import jail
from autograders.sandbox.inside.syscall_filter import make_filter
from autograders.sandbox.jail import Place, command, why_no_walls
from autograders.sandbox.limits import FILES, Limits

pytestmark = pytest.mark.skipif(
    why_no_walls() is not None or not make_filter(platform.machine()), reason="no walls, or no filter for this machine"
)

# What each call answers: a number of the system's for an error, 0 for none.
TRIES = """
import ctypes, json, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
numbers = {
    "x86_64": {
        "add_key": 248, "keyctl": 250, "unshare": 272, "clone": 56, "shmget": 29, "memfd": 319, "semget": 64,
        "msgget": 68,
    },
    "aarch64": {
        "add_key": 217, "keyctl": 219, "unshare": 97, "clone": 220, "shmget": 194, "memfd": 279, "semget": 190,
        "msgget": 186,
    },
}[platform.machine()]
arguments = {
    "add_key": (b"user", b"mark", b"x", 1, -3),
    "keyctl": (0, -3, 0),
    "unshare": (0x10000000,),
    "clone": (0x10000000 | 0x80000000, 0, 0, 0, 0),
    "shmget": (0, 4096, 0o1600),
    "memfd": (b"x", 0),
    "semget": (0, 100, 0o1600),
    "msgget": (0, 0o1600),
}
answers = {}
for name, number in numbers.items():
    answers[name] = 0 if libc.syscall(number, *arguments[name]) >= 0 else ctypes.get_errno()
answers["rings"] = 0 if libc.syscall(425, 1, ctypes.create_string_buffer(120)) >= 0 else ctypes.get_errno()
for name, family in {"AF_VSOCK": 40, "AF_ALG": 38, "AF_INET": 2, "AF_INET6": 10, "AF_UNIX": 1}.items():
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
        answers[name] = 0
    except OSError as error:
        answers[name] = error.errno
print(json.dumps(answers))
"""
REFUSED = {
    **dict.fromkeys(("add_key", "keyctl", "shmget", "memfd", "semget", "msgget", "rings"), errno.ENOSYS),
    **dict.fromkeys(("unshare", "clone"), errno.EPERM),
    **dict.fromkeys(("AF_VSOCK", "AF_ALG"), errno.EAFNOSUPPORT),
    **dict.fromkeys(("AF_INET", "AF_INET6", "AF_UNIX"), 0),
}
# A login gives the grader a session with keys. What the first kernel leaves there, the second one looks for.
GRADER_WITH_KEYS = """
import ctypes, json, platform
from contextlib import ExitStack
from pathlib import Path
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
joined = ctypes.CDLL(None).syscall(keyctl, 1, None) > 0
from test_warm_kernels import LIGHT, start
from autograders.sandbox.limits import Limits
from autograders.sandbox.warm.warm import WarmParent
parent = WarmParent(Path("/nonexistent"), Limits(), LIGHT)
load = "import ctypes; libc = ctypes.CDLL(None); "
try:
    with ExitStack() as stack:
        first, second = start(parent, stack, "first"), start(parent, stack, "second")
        left = first.run(load + f"print(min(libc.syscall({add_key}, b'user', b'mark', b'answer', 6, -3), 1))")
        found = second.run(load + f"print(min(libc.syscall({keyctl}, 10, -3, b'user', b'mark', 0), 1))")
finally:
    parent.close()
print(json.dumps({"session": joined, "first": int(left), "second": int(found)}))
"""
# In place of the kernel: the same steps before it, the same walls.
ALONE = """
import json, sys
sys.path.insert(0, "/lecture")
import inside
inside.run_kernel = lambda *_: exec(sys.argv[2], {})
inside.main()
"""


def test_a_kernel_started_alone_can_make_no_call_that_goes_round_its_walls(tmp_path: Path) -> None:
    done = run_alone(tmp_path, TRIES)
    assert done.stderr == ""
    assert json.loads(done.stdout) == REFUSED


def test_what_needs_threads_and_processes_still_works(tmp_path: Path) -> None:
    works = """
import multiprocessing, subprocess, threading
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(subprocess.run(["echo", "program"], capture_output=True, text=True).stdout.strip())
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, [1, -2])))
"""
    done = run_alone(tmp_path, works)
    assert (done.stdout.split(), done.stderr) == (["thread", "program", "3"], "")


# Which mounts can be written, and how much fits into each: what is not limited lies on the host's disk.
WRITABLE = """
import json, os
found = {}
mounts = {line.split()[1] for line in open("/proc/self/mounts")}
for place in mounts | {"/lecture", "/lecture/kernel", "/lecture/lobby"}:
    try:
        descriptor = os.open(place, os.O_TMPFILE | os.O_RDWR)
    except OSError:
        continue
    room = os.statvfs(place)
    found[place] = [room.f_blocks * room.f_frsize, room.f_files]
print(json.dumps(found))
"""


def run_alone(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in place of a kernel that is started alone."""
    place = Place(folder, walls=True, course_root=Path("/nonexistent"))
    for path in (place.inputs, place.files, place.sockets):
        path.mkdir()
    folder.chmod(0o755)
    *start, _, settings = command(place, Limits(disk_mb=20))
    return subprocess.run([*start, "-c", ALONE, settings, code], capture_output=True, text=True, check=False)


def test_a_kernel_started_alone_can_write_only_where_little_fits(tmp_path: Path) -> None:
    done = run_alone(tmp_path, WRITABLE)
    assert done.stderr == ""
    for place, (size, files) in json.loads(done.stdout).items():
        assert place in ("/tmp", "/dev/shm")
        assert size <= 21e6
        assert files <= FILES


# What becomes of shared memory without a file, and of the wish not to hear of a child's end.
UNCOUNTED = """
import mmap, os, signal
def tried(action):
    try:
        return action() and "done"
    except OSError as error:
        return error.strerror
print(tried(lambda: mmap.mmap(-1, 4096)), tried(lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)), sep=", ")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if not child:
    os._exit(0)
print(tried(lambda: os.waitpid(child, 0)[0] == child))
"""


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ((), ["Cannot allocate memory, done", "done"]),
        (("memory", "time"), ["done, done", "No child processes"]),
    ],
    ids=["without control groups", "with control groups"],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, monkeypatch, groups: tuple[str, ...], says: list) -> None:
    monkeypatch.setattr(jail, "counted", lambda: frozenset(groups))
    done = run_alone(tmp_path, UNCOUNTED)
    assert (done.stdout.splitlines(), done.stderr) == (says, "")


def test_a_machine_without_a_known_filter_gets_none() -> None:
    assert make_filter("a machine of tomorrow") == b""
    for machine in ("x86_64", "aarch64"):
        programs = [make_filter(machine), make_filter(machine, ["memory"]), make_filter(machine, ["memory", "time"])]
        assert len({*programs}) == 3
        assert all(len(program) % 8 == 0 for program in programs)
