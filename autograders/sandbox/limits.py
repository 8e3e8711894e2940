"""How much a notebook may use while it is graded, in one place, and what the machine can hold it to."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000
PRIVATE_FOLDERS = ("/tmp", "/dev/shm")
"""Where a notebook can write behind walls: file systems in memory, its own, that go when it goes."""
FILES = 20_000
"""Files, folders, links and sockets in each of them: each takes a kilobyte of the machine's memory, empty or not."""
ADDRESSES = 64_000 * MEGABYTE
"""Addresses of one process. The tables of addresses take memory too, 1 byte for 512, and belong to no other limit."""


@dataclass(frozen=True)
class Limits:
    """The limits of one notebook. Times are computing time: waiting for a busy machine does not count."""

    cell_seconds: float = 30.0
    """Computing time of one cell, its threads and child processes included."""
    notebook_seconds: float = 900.0
    """Computing time of the whole notebook, repeated cells included."""
    wall_factor: float = 4.0
    """How many times longer than its computing time something may take by the clock: a sleep ends here.

    Time in which it is ready to compute and the machine computes for others does not count."""
    memory_mb: float = 3000.0
    """Private memory of one process, and private and shared memory of all of them together.

    A kernel with every import takes about 950 MB."""
    processes: int = 64
    """Processes and threads together, the kernel's own (about 15) included."""
    disk_mb: float = 256.0
    """Everything written into the private /tmp, as much again in /dev/shm, and any one file."""
    output_mb: float = 1.0
    """What one cell may show; what follows is cut, with a note."""

    notebook_output_mb: float = 30.0
    """What all cells together may show: it is kept in the grader's memory, in the notebook and in the feedback."""
    # The released notebook's own cells hold imports, which take what they take.
    released_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse limits under which no notebook could run."""
        for name in ("cell_seconds", "notebook_seconds", "disk_mb", "output_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}: it must be above 0")
        if self.wall_factor < 1:
            raise ValueError(f"wall_factor is {self.wall_factor!r}: a cell needs at least its computing time")
        if self.memory_mb < 1200:
            raise ValueError(f"memory_mb is {self.memory_mb:g}: a kernel with its imports needs 1200")
        if self.processes < 24:
            raise ValueError(f"processes is {self.processes}: a kernel has about 15 threads of its own, allow 24")
