"""Control groups count what no process shows: shared memory that none maps, the time of children nobody awaits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograders.sandbox import control_groups
from autograders.sandbox.control_groups import MEMORY, TIME, ControlGroup, counted, describe, folders_of
from autograders.sandbox.doctor import examine
from autograders.sandbox.limits import Limits
from autograders.sandbox.processes import proportional_bytes, usage

needs_memory = pytest.mark.skipif(MEMORY not in counted(), reason="no control group counts memory for us here")
needs_time = pytest.mark.skipif(TIME not in counted(), reason="no control group counts computing time for us here")

HELD = """
import mmap, sys
sys.stdin.readline()
held = mmap.mmap(-1, 1 << 27)
held.write(bytes(range(256)) * (1 << 19))
held.madvise(mmap.MADV_DONTNEED)
print("held", flush=True)
sys.stdin.readline()
"""
FORGOTTEN = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdin.readline()
for _ in range(5):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
try: os.wait()
except ChildProcessError: pass
print("ended", flush=True)
sys.stdin.readline()
"""


@contextmanager
def grouped(code: str) -> Iterator[tuple[ControlGroup, int]]:
    """A program in a group of its own, when it has said that it is where it should be looked at."""
    group = ControlGroup(Limits())
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        group.add(process.pid)
        process.stdin.write("\n")
        process.stdout.readline()
        yield group, process.pid
    finally:
        process.kill()
        process.communicate()
        group.close()


@needs_memory
def test_shared_memory_that_no_process_maps_is_counted() -> None:
    with grouped(HELD) as (group, process):
        assert proportional_bytes(process) < 100e6
        assert group.unreclaimable_bytes() > 130e6
        assert group.used_bytes() > 130e6
        assert not group.was_full()


@needs_time
def test_the_time_of_children_that_nobody_waits_for_is_counted() -> None:
    with grouped(FORGOTTEN) as (group, process):
        assert usage(process).cpu_seconds < 1
        assert group.cpu_seconds() > 1.4


@needs_memory
@needs_time
def test_a_group_goes_with_its_kernel_and_those_of_dead_graders_with_the_next_one() -> None:
    parents = set(control_groups._parents().values())
    program = "from autograders.sandbox.control_groups import *; ControlGroup(Limits()); print(os.getpid())"
    dead = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    left = [folder for parent in parents for folder in parent.glob(f"lecture-{dead}-*")]
    assert left
    control_groups._parents.cache_clear()
    with grouped("input()\nprint()\ninput()"):
        assert [folder for parent in parents for folder in parent.glob(f"lecture-{os.getpid()}-*")]
    assert [folder for parent in parents for folder in parent.glob(f"lecture-{os.getpid()}-*")] == []
    assert [folder for folder in left if folder.exists()] == []


V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"


@pytest.mark.parametrize(
    ("mounts", "groups", "found"),
    [
        (V2, "0::/user.slice/a.scope", [("", "/sys/fs/cgroup/user.slice/a.scope")]),
        (V2, "0::/", [("", "/sys/fs/cgroup")]),
        (V1.format(root="/"), "4:memory:/jobs/1\n3:cpuset:/", [("memory", "/sys/fs/cgroup/memory/jobs/1")]),
        (V1.format(root="/docker/a"), "4:memory:/docker/a", [("memory", "/sys/fs/cgroup/memory")]),
        (V1.format(root="/docker/a"), "4:memory:/elsewhere", []),
        ("", "0::/", []),
    ],
    ids=["version 2", "its root", "version 1", "a container", "outside of the mount", "not mounted"],
)
def test_the_folder_of_a_group_is_found(mounts: str, groups: str, found: list[tuple[str, str]]) -> None:
    assert [(controllers, str(folder)) for controllers, folder in folders_of(mounts, groups)] == found


@pytest.mark.parametrize(
    ("offered", "given", "delegated"),
    [("cpu memory pids", "memory", True), ("cpu pids", "", False), ("cpu memory", "", True)],
    ids=["already", "not offered", "taken"],
)
def test_memory_is_delegated_where_it_is_offered(tmp_path: Path, offered: str, given: str, delegated: bool) -> None:
    (tmp_path / "cgroup.controllers").write_text(offered)
    (tmp_path / "cgroup.subtree_control").write_text(given)
    assert control_groups._delegate_memory(tmp_path) is delegated


def test_the_doctor_says_what_is_counted_and_what_is_refused_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "_parents", dict)
    assert counted() == frozenset()
    assert "shared memory without a file is refused" in describe()
    (line,) = [finding for finding in examine() if finding.name == "control groups"]
    assert not line.holds
    assert not line.essential
    assert "systemd-run" in str(line)
