"""What is wrong with a student's installation, and what to do: `lecture doctor`.

PyTorch is not imported here. It is tried in a process of its own, so that even an installation that crashes becomes a
line with a remedy.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__

DISTRIBUTION = "lecture-lib"
PYTHONS = ((3, 11), (3, 14))
"""From the first of these versions on, and below the second."""
FREE_GB = 1.0
"""Room for checkpoints and run records; the packages themselves are installed by then."""
PAIR = "pip install --force-reinstall torch torchvision"
INSTALL = "in the course's folder: pip install -e ."
_SECONDS = 180

# One line each, flushed: where torchvision crashes, torch's line has arrived. nms is compiled against torch and shows a
# build that does not fit, even where the import succeeds.
_TRY = """
import json
import torch
gpus = [[torch.cuda.get_device_name(n), *torch.cuda.get_device_capability(n)] for n in range(torch.cuda.device_count())]
print(json.dumps({"torch": torch.__version__, "gpus": gpus if torch.cuda.is_available() else []}), flush=True)
import torchvision
torchvision.ops.nms(torch.zeros(1, 4), torch.ones(1), 0.5)
print(json.dumps({"torchvision": torchvision.__version__}), flush=True)
"""


@dataclass(frozen=True)
class Check:
    """The result of a check: whether it holds, what the state is, and what to do where it does not hold."""

    name: str
    holds: bool
    state: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line."""
        return f"{'ok     ' if self.holds else 'PROBLEM'}  {self.name}: {self.state}" + (
            "" if self.holds else f". Do this: {self.remedy}"
        )


def examine(folder: str | Path = ".") -> list[Check]:
    """Look at everything that the notebooks need; takes some seconds, most of them to import PyTorch.

    Args:
        folder: where the student works.

    """
    tried, error = _try_torch()
    return [
        _python(sys.version_info[:3]),
        _packages(),
        _torch(tried, error),
        _torchvision(tried, error),
        _gpu(tried),
        _kernel(),
        _write_access(Path(folder)),
        _disk(Path(folder)),
    ]


def report(checks: list[Check]) -> str:
    """The checks, one line each, and how many are problems."""
    problems = sum(not check.holds for check in checks)
    last = "all is well" if not problems else f"{problems} of {len(checks)} need something"
    return "\n".join([*map(str, checks), last])


def show_gpu() -> None:
    """Print which GPU is here and which precision `train(..., precision="auto")` takes on it; PyTorch must work."""
    import torch

    from ..training import choose_precision

    if not torch.cuda.is_available():
        print("no GPU here, and nothing needs one. On Colab you get one with Runtime > Change runtime type.")
        return
    major, minor = torch.cuda.get_device_capability()
    name = choose_precision("auto", "cuda").name
    print(f'{torch.cuda.get_device_name()}, compute capability {major}.{minor}: precision "auto" is {name}')


def _try_torch() -> tuple[dict[str, Any], str]:
    """What could be found out before the first error, and that error; empty when there was none."""
    try:
        process = subprocess.run(
            [sys.executable, "-c", _TRY], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {}, f"importing it took more than {_SECONDS} seconds"
    tried: dict[str, Any] = {}
    for line in process.stdout.splitlines():
        # Packages may print lines of their own when they are imported.
        if line.startswith('{"torch'):
            tried |= json.loads(line)
    if process.returncode == 0:
        return tried, ""
    if process.returncode < 0:
        return tried, f"importing it ended Python with signal {-process.returncode}"
    errors = [line for line in process.stderr.splitlines() if line.strip()]
    return tried, errors[-1][:200] if errors else f"importing it ended Python with code {process.returncode}"


def _python(version: tuple[int, ...]) -> Check:
    lowest, above = PYTHONS
    remedy = "make the environment anew with Python 3.11, 3.12 or 3.13"
    return Check("Python", lowest <= version[:2] < above, ".".join(map(str, version)), remedy)


def _packages() -> Check:
    """Whether each required package is installed in its lowest version or a newer one."""
    try:
        required = [line for line in metadata.requires(DISTRIBUTION) or [] if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return Check("packages", False, "lecture-lib is not installed here", INSTALL)
    bad = []
    lower_bounds = [re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line) for line in required]
    for name, lowest in (match.groups() for match in lower_bounds if match):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            bad.append(f"{name} is missing")
        else:
            if _numbers(version) < _numbers(lowest):
                bad.append(f"{name} is {version}, lowest {lowest}")
    state = f"lecture-lib {__version__}" + (f", but {'; '.join(bad)}" if bad else f" and the {len(required)} it needs")
    return Check("packages", not bad, state, INSTALL)


def _torch(tried: dict[str, Any], error: str) -> Check:
    if "torch" in tried:
        return Check("PyTorch", True, tried["torch"])
    return Check("PyTorch", False, f"it cannot be imported ({error})", PAIR)


def _torchvision(tried: dict[str, Any], error: str) -> Check:
    """Whether torchvision was built for this PyTorch: another one breaks when imported or when first used."""
    if "torch" not in tried:
        return Check("torchvision", False, "it cannot be tried without PyTorch", PAIR)
    if "torchvision" not in tried:
        return Check("torchvision", False, f"it does not work with PyTorch {tried['torch']} ({error})", PAIR)
    try:
        required = metadata.requires("torchvision") or []
    except metadata.PackageNotFoundError:
        required = []
    # torchvision requires exactly the torch that it was built for.
    built_for = next((line.split("==")[1] for line in required if re.match(r"torch\s*==", line)), "")
    version = tried["torchvision"]
    if built_for and _numbers(built_for) != _numbers(tried["torch"]):
        return Check("torchvision", False, f"{version} was built for PyTorch {built_for}, not {tried['torch']}", PAIR)
    return Check("torchvision", True, f"{version}, which belongs to this PyTorch")


def _gpu(tried: dict[str, Any]) -> Check:
    """A GPU should be usable where there is one; having none is fine, because nothing needs one."""
    if "torch" not in tried:
        return Check("GPU", False, "it cannot be looked for without PyTorch", PAIR)
    if tried["gpus"]:
        return Check("GPU", True, "; ".join(f"{name}, {_bf16(major, minor)}" for name, major, minor in tried["gpus"]))
    driver = shutil.which("nvidia-smi")
    if driver and subprocess.run([driver, "-L"], capture_output=True, text=True, check=False).stdout.startswith("GPU"):
        state = f"there is one, but PyTorch {tried['torch']} cannot use it"
        return Check("GPU", False, state, "update NVIDIA's driver, or install the build from pytorch.org for it")
    return Check("GPU", True, "none, and nothing needs one")


def _bf16(major: int, minor: int) -> str:
    native = (major, minor) >= (8, 0)  # as in training.precision, which cannot be imported without PyTorch
    return f"compute capability {major}.{minor}: " + (
        "BF16 is native" if native else 'no native BF16, precision="auto" takes FP16'
    )


def _kernel() -> Check:
    """Whether the kernel that notebooks open with is this Python, or another that has this library."""
    remedy = "pip install --force-reinstall ipykernel"
    try:
        from jupyter_client.manager import KernelManager

        program = KernelManager(kernel_name="python3").format_kernel_cmd()[0]
    except Exception as error:  # whatever a damaged installation raises
        return Check("Jupyter kernel", False, f"python3 is not there ({error})", remedy)
    script = "import ipykernel, lecture_lib; print(lecture_lib.__version__)"
    run: Callable[..., Any] = subprocess.run
    try:
        # Elsewhere, as kernels do not start in the course's folder, where lecture_lib lies.
        process = run([program, "-c", script], capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False)
        version, reason = process.stdout.strip(), (process.stderr.strip().splitlines() or ["no reason"])[-1]
    except OSError as error:
        version, reason = "", str(error)
    if version == __version__:
        return Check("Jupyter kernel", True, f"python3 is {program}, with lecture-lib {version}")
    state = f"python3 is {program}, " + (
        f"with lecture-lib {version}, not {__version__}" if version else f"where: {reason}"
    )
    # A kernel of another Python hides this environment's own, which is used once that one is removed.
    foreign = Path(program).resolve() != Path(sys.executable).resolve()
    return Check("Jupyter kernel", False, state, "jupyter kernelspec remove python3" if foreign else INSTALL)


def _write_access(folder: Path) -> Check:
    refused = []
    for place in (folder.resolve(), Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"lecture")
        except OSError as error:
            refused.append(f"{place} ({error.strerror})")
    if refused:
        state = f"nothing can be written into {' or '.join(refused)}"
        return Check("write access", False, state, "work in a folder of your own, such as one in your home folder")
    return Check("write access", True, str(folder.resolve()))


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free / 1e9
    remedy = "remove files that you do not need, old checkpoints first"
    return Check("disk space", free >= FREE_GB, f"{free:.1f} GB free, {FREE_GB:g} are enough", remedy)


def _numbers(version: str) -> tuple[int, ...]:
    """The release part of a version: (2, 11, 0) of '2.11.0+cu128'."""
    match = re.match(r"\s*(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()
