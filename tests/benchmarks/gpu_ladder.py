"""The ladder on a GPU: what the recorder costs there, and whether the same is said of a program as on the CPU.

The recorder: wall-clock time of training under `record` over that of the same training, when the device has finished,
the median of 3 pairs; the two workloads of `gpu.py`. The first 12 steps, which the recorder looks at closely, have a
row of their own.

Every fourth of the blind authors' programs (without those that write their own epoch or evaluation) is climbed on the
CPU and on the GPU: there the model is moved, and so is every batch, as `unpack` and `step` would write it. Programs
that do not run then, such as one whose metric uses NumPy, are left out. A program of which the first finding lies in
another part than on the CPU is a difference; a program that climbs on the CPU and not on the GPU, an error. A script
that trains on the GPU with a planted fault is run under `lecture debug`.

Without a GPU nothing is measured; `--quick` there tries one program on the CPU twice, to see that the script works.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gpu
import harness
import torch
import torch.nn.functional as F
from harness import Row, at_most, progress
from torch import Tensor
from torch.utils._pytree import tree_map

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from outsiders.fresh import Make, Pair, all_pairs

from lecture_lib.debugging import Program, Spec, climb, record

REPETITIONS = 3
STEPS = 240
CLOSELY = 12
QUICK = "i/11_paper_topics"  # found within seconds
RECORDER = 1.3
SCRIPT = """
import torch
from sklearn.datasets import load_digits
from torch import nn

device = torch.device("{device}")
torch.manual_seed(0)
data = load_digits()
x = torch.tensor(data.data / 16, dtype=torch.float32)
y = torch.tensor(data.target)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class Climbed:
    """What was said of one program on one device.

    Attributes:
        parts: of the findings, in order.
        error: why there are none, where climbing stopped.
        seconds: wall-clock.

    """

    parts: tuple[str, ...]
    error: str
    seconds: float


def measure(quick: bool) -> list[Row]:
    """All rows."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not quick:
        progress("no GPU: nothing is measured")
        return [Row(name, None, "ratio") for name in ("recorder, convolutional", "recorder, transformer")]
    rows = recorder_rows(device, quick)
    rows += program_rows(device, quick)
    return [*rows, script_row(device)]


def recorder_rows(device: torch.device, quick: bool) -> list[Row]:
    """Training under `record` over training without, in each workload."""
    rows = []
    repetitions = 1 if quick else REPETITIONS
    for name, workload in gpu.workloads(device, small=device.type == "cpu").items():
        for steps in (CLOSELY, STEPS):
            progress(f"the recorder, {name}, {steps} steps ...")
            batches = [(workload.x, workload.y)] * steps
            trained(workload, batches, recorded=True)
            ratios = [
                trained(workload, batches, recorded=True) / trained(workload, batches, recorded=False)
                for _ in range(repetitions)
            ]
            limit = (f"at most {RECORDER}", median(ratios) <= RECORDER) if steps == STEPS else (None, None)
            rows.append(Row(f"recorder, {name}, {steps} steps", median(ratios), "ratio", *limit))
    return rows


def trained(workload: gpu.Workload, batches: Sequence[tuple[Tensor, Tensor]], *, recorded: bool) -> float:
    """Seconds of a plain loop in fp32."""
    torch.manual_seed(0)
    model = workload.make().to(workload.x.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    start = gpu.finished(workload.x.device)
    with record(model, optimizer) if recorded else contextlib.nullcontext():
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return gpu.finished(workload.x.device) - start


def program_rows(device: torch.device, quick: bool) -> list[Row]:
    """The same programs on both devices."""
    tasks = [(number, side) for number in chosen(quick) for side in (("make",) if quick else ("make", "twin"))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context) as pool:
        pending = [pool.submit(climbed_on_both, number, side, str(device)) for number, side in tasks]
        results = [future.result() for future in as_completed(pending)]
    pairs = [pair for pair in results if pair is not None]
    alone = [there for here, there in pairs if there.error and not here.error]
    differing = [there for here, there in pairs if there.parts[:1] != here.parts[:1] and not there.error]
    slower = median(there.seconds / here.seconds for here, there in pairs)
    return [
        at_most(f"programs that climb on the CPU alone, of {len(pairs)}", len(alone), "programs", 0, "none"),
        Row("programs with another first part", len(differing), f"of {len(pairs)}"),
        Row("climb on the GPU / on the CPU", slower, "ratio"),
    ]


def climbed_on_both(number: int, side: str, device: str) -> tuple[Climbed, Climbed] | None:
    """What is said of a program on the CPU and on the device; None for one that does not train there."""
    name = f"{all_pairs()[number].name}, {side}"
    try:
        program, _ = made(number, side, device)
        program.run_epoch()
        program.run_evaluation()
    except (RuntimeError, TypeError) as error:
        progress(f"{name}: left out, {str(error)[:100]}")
        return None
    here, there = climbed(number, side, "cpu"), climbed(number, side, device)
    for which, result in (("CPU", here), (device, there)):
        progress(f"{name}, {which}: {', '.join(result.parts) or 'nothing'} in {result.seconds:.0f} s {result.error}")
    return here, there


def chosen(quick: bool) -> list[int]:
    """Numbers of pairs whose epoch and evaluation are the ladder's own."""
    numbers = [number for number, pair in enumerate(all_pairs()) if not written_out(pair)]
    return [number for number in numbers if all_pairs()[number].name == QUICK] if quick else numbers[::4]


def written_out(pair: Pair) -> bool:
    """Whether the author wrote the epoch or the evaluation: then batches cannot be moved from outside."""
    text = Path(str(sys.modules[pair.make.__module__].__file__)).read_text()
    return "train_epoch=" in text or "evaluate=" in text


def made(number: int, side: str, device: str) -> tuple[Program, Spec]:
    """One program with seed 0 on a device."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    make: Make = getattr(all_pairs()[number], side)
    program, spec = make(0)
    if device != "cpu":
        move(program, torch.device(device))
    return program, spec


def climbed(number: int, side: str, device: str) -> Climbed:
    """What is said of it."""
    program, spec = made(number, side, device)
    start = time.perf_counter()
    try:
        findings = climb(program, spec).findings
    except Exception as error:  # said in the table: the other programs go on
        return Climbed((), f"{type(error).__name__}: {error}"[:300], time.perf_counter() - start)
    return Climbed(tuple(finding.part for finding in findings), "", time.perf_counter() - start)


def move(program: Program, device: torch.device) -> None:
    """Model and batches to the device, as the program's own text would."""

    def to_device(batch: Any) -> Any:
        return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, batch)

    program.model.to(device)
    own_parts, own_step = program.unpack, program.step
    program.unpack = lambda batch: to_device(own_parts(batch) if own_parts else (batch[0], batch[1]))
    if own_step:
        program.step = lambda program, batch: own_step(program, to_device(batch))


def script_row(device: torch.device) -> Row:
    """`lecture debug` of a script whose gradients are never cleared."""
    progress("lecture debug ...")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT.format(device=device.type))
        command = [sys.executable, "-m", "lecture_lib", "debug", str(script)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=harness.ROOT, check=False)
    progress(ran.stdout + ran.stderr)
    named = "zero_grad" in ran.stdout
    return Row("lecture debug names gradients that are never cleared", float(named), "of 1", "1", named)


if __name__ == "__main__":
    harness.run(measure)
