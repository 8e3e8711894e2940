"""What all benchmarks share: the command line, the peers' environment, paired timing, the table and the JSON.

A benchmark is a file beside this one that ends with `harness.run(measure)`; `measure(quick)` returns rows. It runs in
a process of its own, one thread for NumPy and PyTorch, in an environment where the peers of requirements.txt are
installed beside the product's packages.

A benchmark reports: its exit status is 0 whether or not a target holds, and the table says which do. Whether a miss
matters is for the reader, who knows the machine; a crash, or contenders that disagree, is an error.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"
ENVIRONMENT = ROOT / "build" / "benchmarks-env"
MEASURING = "BENCHMARK_PROCESS"  # set in the process that measures
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what was measured.
        value: the number; None when it could not be measured.
        unit: of the value.
        target: as the issue states it; None when there is none.
        holds: whether the target is met; None when there is none or nothing was measured.

    """

    what: str
    value: float | None
    unit: str
    target: str | None = None
    holds: bool | None = None


def at_most(what: str, value: float | None, unit: str, limit: float, target: str) -> Row:
    """A row whose target holds when the value is at most `limit`; a value that is no number does not."""
    return Row(what, value, unit, target, None if value is None else bool(value <= limit))


@dataclass(frozen=True)
class Timings:
    """Seconds a call: for each contender one number a round; numbers at one position belong to the same round."""

    rounds: Mapping[str, Sequence[float]]

    def seconds(self, name: str) -> float:
        """The median over the rounds."""
        return median(self.rounds[name])

    def ratio(self, name: str, reference: str) -> float:
        """The median over the rounds of each round's ratio: what slows a whole round down cancels."""
        pairs = zip(self.rounds[name], self.rounds[reference], strict=True)
        return median(ours / theirs for ours, theirs in pairs)


def paired(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    calls: int = 1,
    clock: Callable[[], float] = time.thread_time,
) -> Timings:
    """Time contenders side by side: each has one turn in every round, and each round starts with another one.

    The garbage collector stays on, as in training, but it passes over what was there before (300,000 objects
    once PyTorch is imported), and a turn starts without the garbage of the one before. One unmeasured round warms up.

    Args:
        contenders: what to call, by name.
        rounds: how many are measured, 1 or more.
        calls: calls in a turn; a turn counts its mean.
        clock: seconds; default: CPU time of the calling thread, so that other processes do not count.

    """
    names = list(contenders)
    found: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        contenders[name]()
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                call = contenders[name]
                gc.collect()
                start = clock()
                for _ in range(calls):
                    call()
                found[name].append((clock() - start) / calls)
    finally:
        gc.unfreeze()
    return Timings(found)


def interval(hits: int, count: int, z: float = 1.96) -> str:
    """The count and Wilson's interval of 95 %."""
    share = hits / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return f"({hits} of {count}, {100 * max(centre - half, 0.0):.0f} to {100 * (centre + half):.0f} %)"


def progress(text: str) -> None:
    """Say on stderr what happens."""
    print(text, file=sys.stderr, flush=True)


def run(measure: Callable[[bool], list[Row]]) -> None:
    """The command line of a benchmark: `python tests/benchmarks/NAME.py [--quick] [--json FILE]`."""
    script = Path(sys.argv[0]).resolve()
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=_HelpAsWritten)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args()
    if os.environ.get(MEASURING):
        report(script.stem, measure(options.quick), options.json)
        return
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **ONE_THREAD, MEASURING: "1", "PYTHONPATH": path}
    sys.exit(subprocess.run([_python_with_peers(), script, *sys.argv[1:]], env=environment).returncode)


def report(benchmark: str, rows: Sequence[Row], json_file: Path | None = None) -> None:
    """Print the table; write the JSON when a file is named."""
    print(table(rows))
    if json_file is not None:
        content = {"benchmark": benchmark, "commit": commit(), "machine": machine(), "rows": [*map(asdict, rows)]}
        for row in content["rows"]:
            if row["value"] is not None and not math.isfinite(row["value"]):
                row["value"] = None  # JSON has neither NaN nor infinity
        json_file.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    lines = [("what", "value", "unit", "target", "holds")]
    for row in rows:
        value = "not measured" if row.value is None else f"{row.value:.4g}"
        holds = {True: "yes", False: "NO", None: ""}[row.holds]
        lines.append((row.what, value, row.unit, row.target or "", holds))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        f"{what:{widths[0]}}  {value:>{widths[1]}}  {unit:{widths[2]}}  {target:{widths[3]}}  {holds}".rstrip()
        for what, value, unit, target, holds in lines
    )


def commit() -> str:
    """The checkout's commit, with -dirty when files differ from it; 'unknown' outside git."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        name = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        untracked = subprocess.run([*git[:3], "status", "--porcelain"], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + "-dirty" if untracked and not name.endswith("-dirty") else name


def machine() -> str:
    """Processor, cores, Python, NumPy and, where it is loaded, PyTorch: what the figures depend on, and no names."""
    from importlib.metadata import version

    packages = [f"NumPy {version('numpy')}"] + ([f"PyTorch {version('torch')}"] if "torch" in sys.modules else [])
    cores = f"{os.cpu_count()} cores"
    return ", ".join([_processor(), cores, f"Python {platform.python_version()}", *packages])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _python_with_peers() -> str:
    """The interpreter of the peers' environment, made on first use; this one when it cannot be made.

    The environment sees the product's packages behind its own, so PyTorch is not installed twice.
    """
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    product = sysconfig.get_path("purelib")
    stamp = ENVIRONMENT / "made-for.txt"
    made_for = f"Python {platform.python_version()} beside {product}\n{REQUIREMENTS.read_text('utf-8')}"
    if stamp.exists() and stamp.read_text("utf-8") == made_for:
        return str(python)
    progress(f"making the peers' environment in build/{ENVIRONMENT.name} (once) ...")
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--timeout=15"]
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    try:
        _quietly(sys.executable, "-m", "venv", "--clear", ENVIRONMENT)
        # Before pip runs: it then finds NumPy there and installs no second one.
        Path(_quietly(python, "-c", ask).strip(), "product.pth").write_text(product + "\n", "utf-8")
        _quietly(python, *pip, "--requirement", REQUIREMENTS)
    except subprocess.CalledProcessError as error:
        said = [line for line in (error.stderr or error.stdout or "").splitlines() if line.strip()]
        progress(f"that failed ({said[-1] if said else error}); peers that are not installed here are left out")
        return sys.executable
    stamp.write_text(made_for, "utf-8")
    return str(python)


def _quietly(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


class _HelpAsWritten(argparse.RawDescriptionHelpFormatter):
    """Keeps the paragraphs of a benchmark's docstring."""
