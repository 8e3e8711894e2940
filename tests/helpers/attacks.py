"""Submissions that attack the machine or hurt it by accident: what they do, and what must come of each.

Each hands in an attack as its answer to the first question, or as an own cell at the top, and a right answer to the
second question, which must have its full points whatever the first one does.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from autograders.grading.states import State
from autograders.questions.question import answer_to
from autograders.sandbox.control_groups import counted

FIRST, SECOND = "03a-accumulate", "03a-clip"
RIGHT = answer_to(FIRST, "right_weighted")
HEAD, BODY = RIGHT.split(":\n", 1)
LATE_CHILD = "987654"
SHADOWS = (
    *("numpy.py", "torch.py", "json.py", "sitecustomize.py", "usercustomize.py", "ipython_config.py"),
    *("lecture_lib/__init__.py", "autograders/__init__.py", "autograders/questions/descriptions/clip.py"),
)


@dataclass(frozen=True)
class Attack:
    """What is handed in, and the points of the first question, the state and a part of the reason that must follow."""

    answer: str
    points: float | None
    """None: what it earned before it was stopped, which depends on the moment."""
    state: str = State.GRADED
    says: str = ""
    own_cell: str = ""
    files: dict[str, str] = field(default_factory=dict)
    special: bool = False
    """With a link to the secret, a pipe and a link to nowhere beside the notebook."""


def inside(code: str) -> str:
    """The right answer with `code` run first at each call."""
    return f"{HEAD}:\n{textwrap.indent(textwrap.dedent(code).strip(), '    ')}\n{BODY}"


def before(code: str) -> str:
    """The right answer in a cell that starts with `code`."""
    return f"{textwrap.dedent(code).strip()}\n{RIGHT}"


TIME, CLOCK = "computing time", "by the clock"
DIED = "the kernel died"
# Without control groups these are refused, which the answer meets as an error; with them they are counted.
UNCOUNTED_MEMORY = (State.CRASHED, "of memory") if "memory" in counted() else (State.GRADED, "")
UNCOUNTED_TIME = (State.OUT_OF_TIME, TIME) if "time" in counted() else ("", "")
OWN_CELL = "the student's own cell at position 2: "

LATER = """
import asyncio, os, signal, threading, time
get_ipython().events.register('pre_run_cell', lambda *_: time.sleep(0.5))
"""

# fmt: off
ATTACKS: dict[str, Attack] = {
    "none": Attack(RIGHT, 8),
    "loop in a function": Attack(inside("while True: pass"), 0, State.OUT_OF_TIME, TIME),
    "loop when defined": Attack(before("while True: pass"), 0, State.OUT_OF_TIME, TIME),
    "loop that swallows interrupts and ignores signals": Attack(
        inside("""
            import signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            while True:
                try:
                    while True: pass
                except BaseException: pass
        """),
        0, State.OUT_OF_TIME, TIME,
    ),
    "catastrophic regex": Attack(inside("import re; re.match('(a+)+$', 'a' * 50 + 'b')"), 0, State.OUT_OF_TIME, TIME),
    "sleep": Attack(inside("import time; time.sleep(10**6)"), 0, State.OUT_OF_TIME, CLOCK),
    "loop in an own cell": Attack(RIGHT, 8, State.OUT_OF_TIME, "own cell", own_cell="while True: pass"),
    "loop in a thread": Attack(
        before("""
            import threading
            def spin():
                while True: pass
            threading.Thread(target=spin, daemon=True).start()
        """),
        None, State.OUT_OF_TIME,
    ),
    "regex in a thread holds the interpreter": Attack(
        before("""
            import re, threading
            threading.Thread(target=re.match, args=('(a+)+$', 'a' * 50 + 'b'), daemon=True).start()
        """),
        0, State.OUT_OF_TIME, TIME,
    ),
    "busy children left behind": Attack(
        # Four: beside other programs a single one may not have come to the limit when the notebook ends.
        before("import subprocess, sys\n"
               "for _ in range(4): subprocess.Popen([sys.executable, '-c', 'while True: pass'])"),
        None, State.OUT_OF_TIME,
    ),
    "idle child in a session of its own": Attack(
        # One: a child for each of 42 calls comes close to the 64 processes and threads that a notebook may have.
        inside("import subprocess, sys\nif not hasattr(sys, 'child'):\n"
               f"    sys.child = subprocess.Popen(['sleep', '{LATE_CHILD}'], start_new_session=True)"), 8,
    ),
    "fork bomb": Attack(inside("import os\nwhile True: os.fork()"), 0, "", ""),
    "process ended in a function": Attack(inside("import os; os._exit(0)"), 0, State.CRASHED, DIED),
    "kernel killed when defined": Attack(before("import os; os.kill(os.getpid(), 9)"), 0, State.CRASHED, DIED),
    "kernel killed in an own cell": Attack(RIGHT, 8, State.CRASHED, DIED, own_cell="import os; os._exit(1)"),
    **{
        f"{code!r} in an own cell": Attack(
            RIGHT, 8, State.CRASHED, f"{OWN_CELL}the kernel was told to end", own_cell=code
        )
        for code in (
            "exit", "quit()", "get_ipython().ask_exit()", "get_ipython().exit_now = True",
            "import IPython; IPython.Application.instance().kernel.do_shutdown(True)",
        )
    },
    **{
        f"{code!r} in an own cell": Attack(
            RIGHT, 8, State.GRADED, f"{OWN_CELL}the cell ended itself", own_cell=f"import sys\n{code}"
        )
        for code in ("sys.exit()", "raise SystemExit(1)")
    },
    **{
        f"{name} in an own cell": Attack(RIGHT, 8, State.CRASHED, f"{OWN_CELL}{DIED}", own_cell=code)
        for name, code in {
            "killed": "import os; os.kill(os.getpid(), 9)",
            "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
            "null pointer": "import ctypes; ctypes.string_at(0)",
        }.items()
    },
    "the kernel's loop stopped in an own cell": Attack(RIGHT, 8, own_cell="get_ipython().kernel.io_loop.stop()"),
    "a helper, then exit, in an own cell": Attack(
        RIGHT.replace("len(y) / examples", "share(y, examples)"), 8, State.CRASHED, OWN_CELL,
        own_cell="def share(y, examples):\n    return len(y) / examples\nexit()",
    ),
    "exit in an answer": Attack(
        f"{RIGHT}\nexit()", 8, State.CRASHED, f"the answer {FIRST}: the kernel was told to end"
    ),
    **{
        f"{name} of an own cell ends the kernel later": Attack(
            RIGHT, 8, State.CRASHED, OWN_CELL, own_cell=f"{LATER}\n{code}"
        )
        for name, code in {
            "a timer": "signal.setitimer(signal.ITIMER_REAL, 0.4)",
            "a thread": "threading.Timer(0.3, os._exit, [0]).start()",
            "a call in the loop": "asyncio.get_event_loop().call_later(0.05, os._exit, 0)",
        }.items()
    },
    "everything else killed": Attack(
        inside("""
            import os
            for number in (os.getppid(), 1, -1):
                try: os.kill(number, 9)
                except OSError: pass
        """),
        8,
    ),
    "timer that ends the kernel in a later cell": Attack(
        before(f"{LATER}\nsignal.setitimer(signal.ITIMER_REAL, 0.4)"),
        None, State.CRASHED,
    ),
    "hook that hangs before every later cell": Attack(
        before("""
            def hang(*_):
                while True: pass
            get_ipython().events.register('pre_run_cell', hang)
        """),
        0, State.OUT_OF_TIME,
    ),
    "memory": Attack(inside("kept = []\nwhile True: kept.append(torch.ones(1 << 28))"), 0),
    "shared memory": Attack(
        inside("""
            import mmap
            kept, block = [], b'x' * (1 << 26)
            while True:
                kept.append(mmap.mmap(-1, 1 << 26))
                kept[-1].write(block)
        """),
        0, *UNCOUNTED_MEMORY,
    ),
    "shared memory that no process has in its map": Attack(
        inside("""
            import mmap
            kept, block = [], b'x' * (1 << 26)
            while True:
                kept.append(mmap.mmap(-1, 1 << 26))
                kept[-1].write(block)
                kept[-1].madvise(mmap.MADV_DONTNEED)
        """),
        0, *UNCOUNTED_MEMORY,
    ),
    "shared memory of /dev/zero": Attack(
        inside("""
            import mmap, os
            kept, block, zero = [], b'x' * (1 << 26), os.open('/dev/zero', os.O_RDWR)
            while True:
                kept.append(mmap.mmap(zero, 1 << 26))
                kept[-1].write(block)
                kept[-1].madvise(mmap.MADV_DONTNEED)
        """),
        0,
    ),
    "tables of addresses": Attack(
        inside("""
            import mmap
            kept = []
            while True:
                kept.append(mmap.mmap(-1, 1 << 34, mmap.MAP_PRIVATE | mmap.MAP_NORESERVE, mmap.PROT_READ))
                for place in range(0, 1 << 34, 1 << 21): kept[-1][place]
        """),
        0, "", "",
    ),
    "children that nobody waits for": Attack(
        inside("""
            import os, signal, time
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            while True:
                if os.fork() == 0:
                    end = time.process_time() + 0.04
                    while time.process_time() < end: pass
                    os._exit(0)
                time.sleep(0.03)
        """),
        0, *UNCOUNTED_TIME,
    ),
    "disk": Attack(
        inside("for number in range(10**6):\n    open(f'/tmp/{number % 2}', 'ab').write(bytes(10_000_000))"), 0
    ),
    "files where the kernel's sockets are": Attack(
        inside("""
            import os, pathlib
            from ipykernel.connect import get_connection_file
            folder = pathlib.Path('/lecture/kernel')
            folder = folder if folder.exists() else pathlib.Path(get_connection_file()).parent
            unnamed = os.open(folder, os.O_TMPFILE | os.O_RDWR)
            while True: os.write(unnamed, bytes(1 << 20))
        """),
        0,
    ),
    "files without a name wherever there is room": Attack(
        inside("""
            import os
            if hasattr(os, 'kept'): raise OSError('once is enough: the files stay open')
            kept = os.kept = []
            for folder in [line.split()[1] for line in open('/proc/self/mounts')] + ['/lecture', '/proc/1/cwd']:
                for number in range(20):
                    try:
                        kept.append(os.open(folder, os.O_TMPFILE | os.O_RDWR))
                        while True: os.write(kept[-1], bytes(1 << 20))
                    except OSError: pass
            raise OSError(f"{sum(os.fstat(one).st_size for one in kept):,} bytes in {len(kept)} files")
        """),
        0,
    ),
    "a million sockets, links and empty files": Attack(
        inside("""
            import os, socket
            for number in range(10**6):
                if number % 3: os.symlink('x', f'/tmp/{number}')
                elif number % 2: open(f'/dev/shm/{number}', 'w').close()
                else:
                    with socket.socket(socket.AF_UNIX) as made: made.bind(f'/tmp/{number}')
        """),
        0,
    ),
    "recursion": Attack(inside("def again(n): return again(n + 1) + 1\nagain(0)"), 0),
    "recursion without a limit": Attack(
        inside("import sys; sys.setrecursionlimit(10**9)\ndef again(n): return [again(n + 1)] and repr(n)\nagain(0)"),
        0, "", "",
    ),
    "question asked": Attack(inside("input('points? ')"), 0),
    "interrupt raised": Attack(inside("raise KeyboardInterrupt"), 0, State.PARTIAL, "KeyboardInterrupt"),
    "what is not a message": Attack(
        inside("get_ipython().kernel.iopub_thread.send_multipart([b'not a message'] * 3)"),
        0, State.CRASHED, "not a message",
    ),
    "floods": Attack(
        "calls = []\n" + inside("""
            import os, sys
            calls.append(1)
            if len(calls) == 1:
                for number in range(20_000): print("a line")
                sys.stdout.write("x" * 10_000_000); sys.stderr.write("y" * 10_000_000)
                os.write(1, b"z" * 1_000_000)
                for number in range(1_500): display(number)
        """),
        8,
    ),
    "flood without a line's end in an own cell": Attack(
        RIGHT, 8, own_cell="import sys\nfor _ in range(30): print('x' * 10_000_000, end=''); sys.stdout.flush()"
    ),
    "warnings and a progress bar on stderr": Attack(
        inside("""
            import sys, time, warnings, tqdm
            warnings.warn("careful")
            for _ in tqdm.tqdm(range(20)): time.sleep(0.01)
            print("done", file=sys.stderr)
        """),
        8,
    ),
    "end-of-process handlers": Attack(
        before("import atexit, os\natexit.register(print, 8.0)\natexit.register(os.kill, 1, 9)"), 8
    ),
    "libraries of its own beside the notebook": Attack(
        RIGHT, 8, files=dict.fromkeys(SHADOWS, "raise RuntimeError('shadowed')")
    ),
    "helper file that a right answer needs": Attack(
        f"import my_helpers\n{RIGHT.replace('len(y) / examples', 'my_helpers.share(y, examples)')}", 8,
        files={"my_helpers.py": "def share(y, examples):\n    return len(y) / examples\n"},
    ),
    "links and pipes beside the notebook": Attack(RIGHT, 8, special=True),
    "start-up files for those who come after": Attack(
        before("""
            import pathlib, site, sys
            poison = "raise RuntimeError('poisoned')"
            for folder in (pathlib.Path.home() / '.ipython/profile_default/startup', *map(pathlib.Path, sys.path[:4]),
                           pathlib.Path(torch.__file__).parent, pathlib.Path('/tmp'), pathlib.Path('/dev/shm')):
                for name in ('sitecustomize.py', 'numpy.py', '00-first.py'):
                    try:
                        folder.mkdir(parents=True, exist_ok=True)
                        (folder / name).write_text(poison)
                    except OSError: pass
        """),
        8,
    ),
}
# fmt: on

REPEATED = frozenset(
    {
        "loop when defined",
        "catastrophic regex",
        "shared memory of /dev/zero",
        "'quit()' in an own cell",
        "'get_ipython().ask_exit()' in an own cell",
        "'get_ipython().exit_now = True' in an own cell",
        "'raise SystemExit(1)' in an own cell",
        "killed in an own cell",
        "a thread of an own cell ends the kernel later",
    }
)
"""Another way to do what an attack beside it does: in `make test-full`."""


def write_special(folder: Path, secret: Path) -> None:
    """Put links and a pipe beside a notebook."""
    import os

    (folder / "points.txt").symlink_to(secret)
    (folder / "everything").symlink_to(secret.parent, target_is_directory=True)
    (folder / "nowhere").symlink_to("/nowhere/at/all")
    os.mkfifo(folder / "pipe")
