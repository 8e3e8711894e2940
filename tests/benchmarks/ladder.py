"""What the recorder costs, the ladder on the fault bank, and the tools that run on PyTorch today on the same programs.

The recorder: processor time of training under `record` over that of the same training, the median of 7 pairs.

Every case of tests/bank is climbed: a fault counts as named when it is the first finding, as detected when there is
any, and as at its rung when the first finding's rung is right; a healthy program counts as an alarm with any finding.
Beside it, on the same programs and seeds, two epochs of each: PyTorch's own warnings and errors with anomaly mode,
Lightning's Trainer with `detect_anomaly` and its sanity check before training, and assertions as torcheck's
documentation writes them (parameters that must change, no NaN, no output without any spread). Warnings that the plain
program of the same base gives as well do not count. These tools give no name, so only detection is compared.

`--quick` takes one base of each row, otherwise one of each variant; as many cases at a time as there are processors.
`--leave-one-out` measures something else: see `contenders/leave_one_out.py`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import multiprocessing
import os
import statistics
import sys
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import harness
import torch
from contenders import leave_one_out
from harness import Row, at_most, progress
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bank import Case, all_cases
from bank.programs import make

from lecture_lib.debugging import FAULTS, Program, climb, record

SEEDS = 5  # of each healthy program
LOOPS = {"digits": 40, "shapes": 12, "sequence": 40, "regression": 60}  # base -> epochs that are timed
REPETITIONS = 7
EPOCHS = 2  # that the other tools watch


@dataclass(frozen=True)
class Outcome:
    """What was said of one program: the ladder's findings in order, and which of the other tools gave an alarm."""

    row: str
    name: str
    healthy: bool
    findings: list[str]
    heard: dict[str, bool]

    @property
    def first(self) -> str:
        """The first finding, or "nothing"."""
        return self.findings[0] if self.findings else "nothing"

    def alarmed(self, tool: str) -> bool:
        """Whether a tool said anything."""
        return bool(self.findings) if tool == LADDER else self.heard[tool]


def measure(quick: bool) -> list[Row]:
    """All rows."""
    torch.set_num_threads(1)
    costs = [
        at_most(f"recorder over plain loop, {base}", cost(base, n), "times", 1.3, "1.3") for base, n in LOOPS.items()
    ]
    return [*costs, *rows_of(list(outcomes(quick)))]


def outcomes(quick: bool) -> Iterator[Outcome]:
    """Every program climbed and watched, with the misses told as they come."""
    wanted = [
        (number, seed)
        for number, case in enumerate(chosen(quick))
        for seed in range(1, 2 if quick or not case.healthy else SEEDS + 1)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context) as pool:
        futures = [pool.submit(outcome, quick, *one) for one in wanted]
        for number, ((_, seed), future) in enumerate(zip(wanted, futures, strict=True), 1):
            found = future.result()
            if (found.healthy and found.findings) or not (found.healthy or found.first == found.row):
                progress(f"{number} of {len(wanted)}: {found.name}, seed {seed}: {found.findings or 'nothing'}")
            yield found


def outcome(quick: bool, number: int, seed: int) -> Outcome:
    """One program with one seed, made anew for each tool."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    case = chosen(quick)[number]
    findings = [one.fault for one in climb(*case.make(seed)).findings]
    heard = {}
    for name, tool in TOOLS.items():
        with contextlib.suppress(ImportError):
            heard[name] = tool(case, seed)
    return Outcome(case.row, str(case), case.healthy, findings, heard)


def cost(base: str, epochs: int) -> float:
    """Training with the recorder over training without."""
    return statistics.median(trained(base, epochs, True) / trained(base, epochs, False) for _ in range(REPETITIONS))


def trained(base: str, epochs: int, recorded: bool) -> float:
    """Processor time of a training in seconds."""
    program, _ = make(base, 0)
    start = time.process_time()
    with record(program.model, program.optimizer) if recorded else contextlib.nullcontext():
        for _ in range(epochs):
            program.run_epoch()
    return time.process_time() - start


def rows_of(found: list[Outcome]) -> list[Row]:
    """Shares in percent."""
    faulty, healthy = [one for one in found if not one.healthy], [one for one in found if one.healthy]
    silent = [one for one in faulty if one.row not in leave_one_out.LOUD]
    named = [one.first == one.row for one in faulty]
    rungs = [one.first in FAULTS and FAULTS[one.first].rung == FAULTS[one.row].rung for one in faulty]
    among = [one.row in one.findings[:2] for one in faulty]
    by_row: dict[str, list[bool]] = defaultdict(list)
    for one, hit in zip(faulty, named, strict=True):
        by_row[one.row].append(hit)
    rows = [
        Row(f"ladder: fault named first, {len(named)} cases", share(named), "%", "at least 95 %", share(named) >= 95),
        Row("ladder: fault among the first two", share(among), "%", "in all", all(among)),
        Row("ladder: rung right", share(rungs), "%", "at least 95 %", share(rungs) >= 95),
        Row("ladder: rows with every case named", sum(map(all, by_row.values())), f"of {len(by_row)}"),
    ]
    tools = [LADDER, *(name for name in TOOLS if name in found[0].heard)]
    for tool in tools:
        hits = [one.alarmed(tool) for one in silent]
        target = ("every silent case", all(hits)) if tool == LADDER else (None, None)
        rows.append(Row(f"{tool}: silent faults detected, {len(hits)} cases", share(hits), "%", *target))
    for tool in tools:
        what, count = f"{tool}: alarms on {len(healthy)} healthy runs", sum(one.alarmed(tool) for one in healthy)
        rows.append(at_most(what, count, "runs", 0, "none") if tool == LADDER else Row(what, count, "runs"))
    return rows


def share(hits: list[bool]) -> float:
    """In percent."""
    return 100 * sum(hits) / max(len(hits), 1)


@functools.cache
def chosen(quick: bool) -> list[Case]:
    """One case of each row, or of each variant, on a base that a checksum of its name picks."""
    groups: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for case in all_cases():
        groups[(case.row,) if quick else (case.row, case.variant)].append(case)
    return [cases[zlib.crc32(str(key).encode()) % len(cases)] for key, cases in groups.items()]


def alarms(run: Callable[[Program], None]) -> Callable[[Case, int], bool]:
    """A tool that runs a program: an exception is an alarm, and a warning that the plain program does not give."""

    def tool(case: Case, seed: int) -> bool:
        usual = said(run, make(case.base if case.base in LOOPS else "digits", seed)[0])
        return bool(said(run, case.make(seed)[0]) - usual)

    return tool


def said(run: Callable[[Program], None], program: Program) -> set[str]:
    """The kinds of what a program's run raised or warned of: the beginnings of the messages."""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            run(program)
        except ImportError:
            raise
        except Exception as error:
            return {f"{type(error).__name__}"}
    return {str(one.message)[:40] for one in caught}


def with_anomaly_mode(program: Program) -> None:
    """PyTorch alone."""
    with torch.autograd.set_detect_anomaly(True):
        for _ in range(EPOCHS):
            program.run_epoch()
            program.run_evaluation()


def with_lightning(program: Program) -> None:
    """Lightning's Trainer around the program's own steps: its sanity check, and its flag for anomalies."""
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = program.model
            self.automatic_optimization = False

        def training_step(self, batch: object, number: int) -> None:
            program.run_epoch() if program.train_epoch else program.run_step(batch)

        def validation_step(self, batch: object, number: int) -> None:
            if number == 0:
                program.run_evaluation()

        def configure_optimizers(self) -> list[torch.optim.Optimizer]:
            return program.optimizers

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    epoch: Iterable[object] = [torch.zeros(1)] if program.train_epoch else program.train_loader
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=1, detect_anomaly=True, logger=False,
        enable_checkpointing=False, enable_model_summary=False, enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Module(), epoch, program.val_loader)


def asserted(case: Case, seed: int) -> bool:
    """Whether a parameter did not change, or something was NaN or without any spread, within two epochs."""
    program = case.make(seed)[0]
    before = {name: value.detach().clone() for name, value in program.model.named_parameters()}
    try:
        for _ in range(EPOCHS):
            program.run_epoch()
        batch = next(iter(program.val_loader or program.train_loader))
        outputs = program.outputs(program.parts(batch)[0])
    except Exception:
        return True
    still = any(torch.equal(before[name], value) for name, value in program.model.named_parameters())
    broken = isinstance(outputs, Tensor) and (not outputs.isfinite().all() or float(outputs.float().std()) == 0)
    return still or bool(broken)


LADDER = "ladder"
TOOLS = {
    "PyTorch": alarms(with_anomaly_mode),
    "Lightning": alarms(with_lightning),
    "assertions": asserted,
}


if __name__ == "__main__":
    if "--leave-one-out" in sys.argv:
        leave_one_out.main()
    else:
        harness.run(measure)
