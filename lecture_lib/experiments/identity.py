"""What a run was made of: the code, the machine and the data, in a form that can be compared."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch


def content_id(*parts: Any) -> str:
    """A short name for data or for a split that changes when any number, shape or dtype in it changes.

    Args:
        parts: tensors, arrays, lists of numbers (such as a split's indices), or data sets whose examples are such.

    Returns:
        16 hexadecimal digits of a SHA-256; the same on every machine.

    Raises:
        TypeError: a part holds something else.

    """
    digest = hashlib.sha256()
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()[:16]


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        # NumPy has no bfloat16, so its bits are read as whole numbers.
        part = part.view(torch.int16).numpy() if part.dtype == torch.bfloat16 else part.numpy()
    if isinstance(part, int | float | str | bool):
        part = np.asarray(part)
    if isinstance(part, np.ndarray | np.generic) and part.dtype.kind in "biufcU":
        array = np.ascontiguousarray(part)
        # The same bytes on machines of either byte order.
        array = array.astype(array.dtype.newbyteorder("<"))
        # The bytes alone are the same for [2, 3] and [3, 2].
        digest.update(f"{array.dtype.str}{np.shape(part)}".encode())
        digest.update(array.tobytes())
    elif isinstance(part, Mapping):
        # The order in which a dict was filled is no part of its content.
        for key in sorted(part, key=str):
            digest.update(f"key {key}".encode())
            _feed(digest, part[key])
    elif hasattr(part, "__getitem__") and hasattr(part, "__len__"):
        digest.update(f"sequence of {len(part)}".encode())
        for position in range(len(part)):
            _feed(digest, part[position])
    else:
        raise TypeError(
            f"content_id cannot read a {type(part).__name__}; pass tensors, arrays, lists of numbers, or a data set of "
            "them."
        )


def code_state(folder: str | Path | None = None) -> dict[str, Any]:
    """The commit of the code, and whether files differ from it.

    Args:
        folder: inside the repository; default: the present one.

    Returns:
        {"commit": str, "dirty": bool}, or both None and a "reason".

    """
    git = ["git", "-C", str(folder or Path.cwd())]
    # Git's message is searched below, so it must not be translated.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, env=environment
        ).stdout.strip()
        changes = subprocess.run(
            [*git, "status", "--porcelain"], capture_output=True, text=True, check=True, env=environment
        ).stdout
    except FileNotFoundError:
        return {"commit": None, "dirty": None, "reason": "git is not installed"}
    except subprocess.CalledProcessError as error:
        reason = "no repository, or one without a commit" if "not a git" in error.stderr else error.stderr.strip()[:100]
        return {"commit": None, "dirty": None, "reason": reason or "git failed"}
    return {"commit": commit, "dirty": bool(changes)}


def hardware(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Processor or GPU, and the versions that figures depend on; no names of hosts or users."""
    facts: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }
    device = torch.device(device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["gpu"] = properties.name
        facts["gpu_memory_gib"] = round(properties.total_memory / 2**30, 1)
        facts["cuda"] = torch.version.cuda
    return facts


def _processor(lines: Iterable[str] | None = None) -> str:
    if lines is None:
        try:
            lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        except OSError:
            lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
