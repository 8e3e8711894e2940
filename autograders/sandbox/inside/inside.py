"""Starts a kernel inside the sandbox: limits first, then IPython. Imports nothing of ours but what lies beside it.

`python inside.py SETTINGS [ipykernel's arguments]`, the settings as JSON (see `jail.py`). `zygote.py` uses the same
steps in the processes that it forks.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import namespaces  # type: ignore[import-not-found]  # beside this file where it runs
import syscall_filter  # type: ignore[import-not-found]

OBSERVATION = "application/vnd.lecture-lib.observation+json"
_SHOWN = ("stream", "display_data", "update_display_data", "execute_result", "error", "comm_open", "comm_msg")


def become(user: int) -> None:
    """Give up root's identity for one that owns nothing; its processes are counted apart from everybody else's."""
    # In this order: only root may change groups, and only while it is root.
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def limit(settings: dict[str, Any]) -> None:
    """Set the limits that the operating system holds a process to."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: settings["file_bytes"],
        resource.RLIMIT_DATA: settings["memory_bytes"],
        resource.RLIMIT_AS: settings["addresses"],
        resource.RLIMIT_CPU: settings["cpu_seconds"],
        resource.RLIMIT_NOFILE: 1024,
    }
    if settings["processes"]:
        limits[resource.RLIMIT_NPROC] = settings["processes"]
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # Not every system has every limit (macOS knows RLIMIT_DATA and does not take it).
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def prepare(settings: dict[str, Any]) -> None:
    """Make the private folders; put in what the submission brought, and matplotlib's list of fonts (2 s to make)."""
    work = Path(settings["work"])
    for folder in (work, Path(os.environ["HOME"]), Path(os.environ["MPLCONFIGDIR"])):
        folder.mkdir(parents=True, exist_ok=True)
    for source, to in ((settings["fonts"], os.environ["MPLCONFIGDIR"]), (settings["files"], work)):
        shutil.copytree(source, to, dirs_exist_ok=True, copy_function=shutil.copyfile)
    os.chdir(work)


def meter(session: Any, most: int) -> None:
    """Let a session show at most `most` characters a cell. An observation is not counted: it is what is graded."""
    send = session.send
    shown_characters: dict[str, int] = {}

    def metered(
        stream: Any, message: Any, content: Any = None, parent: Any = None, *positional: Any, **keywords: Any
    ) -> Any:
        kind = message["msg_type"] if isinstance(message, dict) else message
        body = message["content"] if isinstance(message, dict) else content
        if kind not in _SHOWN or not isinstance(body, dict) or OBSERVATION in body.get("data", {}):
            return send(stream, message, content, parent, *positional, **keywords)
        header = message["parent_header"] if isinstance(message, dict) else parent
        cell = str((header or {}).get("msg_id") or (header or {}).get("header", {}).get("msg_id"))
        size = len(body["text"]) if kind == "stream" else len(repr(body))
        before = shown_characters.get(cell, 0)
        shown_characters[cell] = before + size + 100
        if shown_characters[cell] <= most:
            return send(stream, message, content, parent, *positional, **keywords)
        if before <= most:
            note = f"\n[output cut: while grading, a cell shows at most {most:,} characters]\n"
            text = body["text"][: most - before] if kind == "stream" else ""
            return send(stream, "stream", {"name": body.get("name", "stdout"), "text": text + note}, header, **keywords)
        return None

    session.send = metered


def forget_own_folder() -> None:
    """Take the folder of this file out of the module search path: it is no package of the student's."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]


def close_standard_streams() -> None:
    """Let the three standard streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def take_over(sockets: dict[str, int], connection: dict[str, Any]) -> None:
    """Let the kernel's sockets be those on which the grader listens already: it has no folder for any of its own.

    Args: the descriptor of each port, the content of the connection file.
    """
    import zmq

    places = {f"ipc://{connection['ip']}-{port}": descriptor for port, descriptor in sockets.items()}

    class Socket(zmq.Socket):
        def bind(self, place: str) -> Any:
            if place in places:
                os.set_inheritable(places[place], False)
                self.setsockopt(zmq.USE_FD, places[place])
            return super().bind(place)

    zmq.Context._socket_class = Socket  # type: ignore[misc]


def go_on_after_exit(app: Any) -> None:
    """Have the kernel outlive `exit`, `quit` and a restart from within; the cell's reply says that it was asked to end.

    IPython's own way ends it a tenth of a second later, in the midst of some other cell.
    """
    shell = app.shell

    def note(change: Any) -> None:
        if change["new"]:
            shell.exit_now = False
            shell.payload_manager.write_payload({"source": "ask_exit", "keepkernel": True})

    shell.unobserve_all("exit_now")
    shell.observe(note, "exit_now")


def run_kernel(settings: dict[str, Any], arguments: list[str]) -> None:
    """Run one kernel until it is killed."""
    prepare(settings)
    connection = Path(settings["connection"]).read_text("utf-8")
    own_copy = Path(os.environ["TMPDIR"], "connection.json")
    own_copy.write_text(connection, "utf-8")
    take_over(settings["sockets"], json.loads(connection))
    from ipykernel.kernelapp import IPKernelApp

    # A submission's own files are importable, but shadow nothing: the folder is last, not first.
    app = IPKernelApp.instance(ignore_cwd=True)
    sys.path.append(settings["work"])
    # What bubblewrap or Python had to say until here is kept for the grader; from here on it is the student's.
    close_standard_streams()
    app.initialize(["-f", str(own_copy), *arguments])
    meter(app.session, settings["output_characters"])
    go_on_after_exit(app)
    for module in settings["preload"]:
        importlib.import_module(module)
    module, function = settings["prepare_shell"]
    getattr(importlib.import_module(module), function)(app.shell)
    app.start()
    while True:  # a cell can stop the loop that reads the next one, and that only
        app.io_loop.start()


def main() -> None:
    """Run the kernel that the command line describes."""
    settings = json.loads(sys.argv[1])
    forget_own_folder()
    if settings["walls"]:
        namespaces.limit_private_folders(settings)
    if settings["user"]:
        become(settings["user"])
    limit(settings)
    if settings["walls"]:
        syscall_filter.refuse_calls(settings["uncounted"])
    for name in ("namespaces", "syscall_filter"):
        sys.modules.pop(name)
    run_kernel(settings, sys.argv[2:])


if __name__ == "__main__":
    main()
