"""The most memory that a notebook needs while it runs from the first cell to the last: JupyterLab's server and its
kernel together, with the worker processes that the kernel starts.

The server starts the kernel, as for a student; the cells of the notebook with solutions are sent to that kernel one
after the other. Memory is the proportional set size (what a process has alone, and its part of what it shares, so that
nothing counts twice), read 20 times a second. A browser's own memory does not count: it is on the student's computer.
Linux only. `--quick` runs the first 40 cells of each.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import harness
import nbformat
from harness import Row, at_most

if TYPE_CHECKING:
    from jupyter_client import BlockingKernelClient

LIMIT_MB = 1500
PERIOD = 0.05
CELL_SECONDS = 600
START_SECONDS = 120
_TOKEN = "memory"


def measure(quick: bool) -> list[Row]:
    """A row for the idle server, and two for each notebook."""
    rows = []
    for path in sorted((harness.ROOT / "notebooks").glob("*/*.ipynb")):
        harness.progress(f"running {path.stem} ...")
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        idle, peak, processes = run(path.parent, cells[: 40 if quick else None])
        rows += [
            Row(f"{path.stem}: server before its kernel starts", idle, "MB"),
            at_most(f"{path.stem}: server and kernel, peak", peak, "MB", LIMIT_MB, f"< {LIMIT_MB} MB"),
            Row(f"{path.stem}: processes at the peak", processes, ""),
        ]
    return rows


def run(folder: Path, cells: list[str]) -> tuple[float | None, float | None, int | None]:
    """MB of the idle server, of server and kernel at the peak, and how many processes that were."""
    from jupyter_client import BlockingKernelClient

    if sys.platform != "linux":
        return None, None, None
    with server(folder) as (process, address, runtime):
        idle, _ = memory(process.pid)
        kernel = json.loads(_ask(f"{address}api/kernels", {"name": "python3"}))["id"]
        client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel}.json"))
        client.load_connection_file()
        client.start_channels()
        wait_for(client)
        with watching(process.pid) as peak:
            for number, cell in enumerate(cells):
                reply = client.execute_interactive(cell, timeout=CELL_SECONDS, output_hook=lambda message: None)
                if reply["content"]["status"] != "ok":
                    raise RuntimeError(f"code cell {number} failed: {reply['content']}")
        client.stop_channels()
    return idle, *peak


def wait_for(client: BlockingKernelClient) -> None:
    """Until the kernel answers; on a busy machine its heart misses a beat while it starts."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            client.wait_for_ready(timeout=START_SECONDS)
        except RuntimeError:
            if time.monotonic() > end:
                raise
        else:
            return


@contextmanager
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """A JupyterLab server without a browser: its process, its address, where it keeps connection files."""
    with tempfile.TemporaryDirectory() as place:
        runtime = Path(place) / "runtime"
        environment = {**os.environ, "HOME": place, "JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_CONFIG_DIR": place}
        options = ["--no-browser", "--allow-root", "--port=0", f"--IdentityProvider.token={_TOKEN}"]
        command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"]
        with (Path(place) / "log").open("w+", encoding="utf-8") as log:
            # Elsewhere than in the checkout, whose nbgrader_config.py is the instructor's, and imports PyTorch.
            process = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log, text=True)
            try:
                yield process, _address(process, runtime), runtime
            finally:
                process.terminate()
                try:
                    process.wait(120)
                except subprocess.TimeoutExpired:  # its kernels end with it
                    process.kill()
                    process.wait()


def _address(process: subprocess.Popen[str], runtime: Path) -> str:
    for _ in range(1200):
        for file in runtime.glob(f"jpserver-{process.pid}.json"):
            with suppress(ValueError, OSError):
                address = str(json.loads(file.read_text("utf-8"))["url"])
                _ask(f"{address}api/status")
                return address
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("JupyterLab did not start")


def _ask(address: str, content: object = None) -> bytes:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, data, {"Authorization": f"token {_TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


@contextmanager
def watching(pid: int) -> Iterator[list[float]]:
    """A list that holds the peak in MB of a process and all below it, and their number then, when the block ends."""
    peak, stop = [0.0, 0], threading.Event()

    def watch() -> None:
        while not stop.wait(PERIOD):
            peak[:] = max(peak, list(memory(pid)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def memory(pid: int) -> tuple[float, int]:
    """The proportional set size in MB of a process and all processes below it, and how many they are."""
    family = [pid]
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents.setdefault(int(path.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(path.parent.name))
    for parent in family:
        family += parents.get(parent, [])
    total = 0.0
    for one in family:
        with suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) * 1024 / 1e6 if found else 0.0
    return total, len(family)


if __name__ == "__main__":
    harness.run(measure)
