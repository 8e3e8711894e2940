"""What this machine can hold a student's notebook to: each thing tried, not looked up, with its remedy."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .bubblewrap import walls
from .control_groups import MEMORY, TIME, counted, describe
from .jail import FIRST_USER, why_no_walls
from .limits import ADDRESSES, Limits
from .processes import usage
from .warm.warm import why_cold

_TRIAL = """
import json, mmap, os, socket, sys
sys.path.insert(0, "/lecture")
import inside

settings = json.loads(sys.argv[1])
if settings["user"]:
    inside.become(settings["user"])
inside.limit(settings)
found = {}

def refused(name, attempt):
    try:
        attempt()
    except (OSError, MemoryError):
        found[name] = True
    else:
        found[name] = False

def connect():
    if {name for _, name in socket.if_nameindex()} <= {"lo"}:
        socket.create_connection(("127.0.0.1", settings["port"]), timeout=2)

def fill():
    for number in range(8):
        with open(f"/tmp/{number}", "wb", buffering=0) as file:
            if file.write(bytes(4_000_000)) < 4_000_000:
                raise OSError("full")

def fork():
    for _ in range(settings["processes"] + 20):
        if os.fork() == 0:
            os.read(reading, 1)
            os._exit(0)

reading, writing = os.pipe()
refused("network", connect)
refused("disk", fill)
refused("memory", lambda: bytearray(settings["memory_bytes"]))
refused("files", lambda: open("/usr/lecture-trial", "w"))
refused("processes", fork)
print(json.dumps(found))
sys.stdout.flush()
os.kill(0, 9)
"""


@dataclass(frozen=True)
class MachineCheck:
    """One thing that this machine can do, or not, and what to do about it."""

    name: str
    holds: bool
    what: str
    remedy: str = ""
    essential: bool = True

    def __str__(self) -> str:
        mark = "ok     " if self.holds else ("MISSING" if self.essential else "weak   ")
        return f"{mark}  {self.name}: {self.what}" + ("" if self.holds else f"\n         remedy: {self.remedy}")


_TRIED = (
    ("files", "nothing outside the private folders can be written", "report this machine's bubblewrap version"),
    ("network", "no network; the only loopback is a private one", "a kernel with network namespaces (CONFIG_NET_NS)"),
    (
        "memory",
        "an allocation above the limit fails in the cell that asked for it",
        "a kernel that knows RLIMIT_DATA (4.7)",
    ),
    (
        "processes",
        "a fork bomb stops at the limit",
        "a kernel that counts processes by namespace (5.14), or grade as root",
    ),
    ("disk", "the private /tmp is full at its limit", "bubblewrap 0.7 or later, which knows --size"),
)


def examine() -> list[MachineCheck]:
    """Try everything that the sandbox rests on."""
    missing = why_no_walls()
    linux = sys.platform == "linux"
    has_bwrap = shutil.which("bwrap") is not None
    return [
        MachineCheck("system", linux, f"{sys.platform}", "grade on Linux (a container or a virtual machine will do)"),
        MachineCheck("bubblewrap", has_bwrap, _version() if has_bwrap else "not installed", "apt install bubblewrap"),
        MachineCheck(
            "namespaces",
            missing is None,
            "user, mount and process namespaces work" if missing is None else missing,
            "allow unprivileged user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu 24.04 "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in Docker `--security-opt seccomp=unconfined "
            "--security-opt systempaths=unconfined --cap-add SYS_ADMIN`",
        ),
        _cpu(),
        _groups(),
        _warm(),
        *_try_inside(missing),
    ]


def _groups() -> MachineCheck:
    """Whether the system can count what a kernel's processes use together, also what no process shows."""
    remedy = (
        "none needed: what cannot be counted is refused. To have it counted, start the grader in a group of its own: "
        "`systemd-run --user --scope -p Delegate=yes autograde grade` (as root without --user)"
    )
    return MachineCheck("control groups", counted() == {MEMORY, TIME}, describe(), remedy, essential=False)


def _warm() -> MachineCheck:
    """Whether one warm parent can fork the kernels of all notebooks, each behind walls of its own."""
    cold = why_cold()
    finding = "kernels are forked from a warm parent" if cold is None else f"each kernel is started alone ({cold})"
    remedy = "none needed: scores are the same, a submission takes seconds longer"
    return MachineCheck("warm kernels", cold is None, finding, remedy, essential=False)


def _version() -> str:
    return subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _cpu() -> MachineCheck:
    """Whether the computing time of a child process can be seen from outside."""
    # Tried on a busy child: some containers hide other processes, or count no time for them.
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 10
        while not (cpu_seconds := usage(child.pid).cpu_seconds) and time.monotonic() < deadline:
            time.sleep(0.05)
        holds = cpu_seconds > 0 and usage(os.getpid()).processes > 1
    finally:
        child.kill()
        child.wait()
    remedy = "a kernel with /proc and CONFIG_PROC_CHILDREN; without it limits are by the clock"
    return MachineCheck("computing time", holds, "seen for a process and its children" if holds else "not seen", remedy)


def _try_inside(missing: str | None) -> list[MachineCheck]:
    results: dict[str, bool] = {}
    failure = "not enforced" if missing is None else "not tried, since no sandbox starts"
    if missing is None:
        settings: dict[str, int] = {
            "user": FIRST_USER + 1 if os.geteuid() == 0 else 0,
            "file_bytes": 50_000_000,
            "memory_bytes": 300_000_000,
            "cpu_seconds": 30,
            "addresses": ADDRESSES,
            "processes": 24,
        }
        command = [*walls(Limits(disk_mb=16)), "--perms", "0755", "--dir", "/lecture"]
        for name in ("inside.py", "namespaces.py", "syscall_filter.py"):
            command += ["--ro-bind", str(Path(__file__).with_name("inside") / name), f"/lecture/{name}"]
        command += ["--remount-ro", "/"]
        command += ["--", sys.executable, "-c", _TRIAL]
        # A server of ours outside: reaching it from inside would show that the network is not cut off.
        with socket.create_server(("127.0.0.1", 0)) as server:
            settings["port"] = server.getsockname()[1]
            command.append(json.dumps(settings))
            trial = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        lines = trial.stdout.splitlines()
        results = json.loads(lines[0]) if lines else {}
    return [
        MachineCheck(name, results.get(name, False), success if results.get(name) else failure, remedy)
        for name, success, remedy in _TRIED
    ]


def report(findings: Sequence[MachineCheck]) -> str:
    """The findings, a line each, and a conclusion."""
    bad = [finding.name for finding in findings if finding.essential and not finding.holds]
    end = (
        f"missing: {', '.join(bad)}. Grading refuses here, unless it is acknowledged with `autograde grade "
        "--without-sandbox`; limits on time and memory of a process are then all that holds."
        if bad
        else "this machine can hold a student's notebook to all limits"
    )
    return "\n".join([*map(str, findings), "", end])
