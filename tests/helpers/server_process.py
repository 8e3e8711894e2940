"""A Jupyter server of a test's own: a free port, a folder, a token, and settings that are nobody else's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TOKEN = "a-token-for-this-test"


@contextmanager
def serving(
    application: str, root: Path, settings: Path, *options: str, cwd: Path | None = None, **environment: str
) -> Iterator[str]:
    """Start `python -m application`, yield its address (http://127.0.0.1:…/), and end it and its kernels.

    Args:
        application: `jupyter_server` or `jupyterlab`.
        root: the folder that it serves.
        settings: an empty folder, for what Jupyter keeps: configuration, data, the files of what runs.
        options: of the command line.
        cwd: where it starts, and finds its configuration; default: the folder that it serves.
        environment: variables beside this process's own.

    Raises:
        RuntimeError: the server ended before it said where it is; the message has its log.

    """
    command = [sys.executable, "-m", application, "--no-browser", "--allow-root", "--ServerApp.port=0"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}", *options]
    server = subprocess.Popen(
        command,
        cwd=cwd or root,
        env=_environment(settings, environment),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert server.stderr is not None
    with server, server.stderr:
        log, address = [], None
        for line in server.stderr:
            log.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/", line):
                break
        if address is None:
            server.wait()
            raise RuntimeError("".join(log)[-3000:])
        # The pipe must not fill up while the tests go on.
        reader = threading.Thread(target=server.stderr.read, daemon=True)
        reader.start()
        try:
            yield address[0]
        finally:
            server.terminate()
            server.wait()
            reader.join()


def _environment(settings: Path, added: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    folders = {f"JUPYTER_{kind.upper()}_DIR": str(settings / kind) for kind in ("config", "data", "runtime")}
    scripts = str(Path(sys.executable).parent)
    return {**kept, **folders, "PATH": scripts + os.pathsep + os.environ["PATH"], **added}
